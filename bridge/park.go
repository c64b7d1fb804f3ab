package bridge

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// This file carries the questions of a legacy server to a modern host: the
// server asks on the stream of an open call, the host is answered with
// input_required (MCP 2026-07-28, multi round-trip requests) while that call
// stays open, and the host's next round brings the answers back to it.

// parked is the modern host's side of an exchange with open questions.
type parked struct {
	name  string // of the exchange, in requestState
	round int
	open  []openQuestion
}

// An openQuestion was asked by the server and is not answered.
type openQuestion struct {
	id      string
	request []byte // {"method":…,"params":…}
}

// statePrefix begins every requestState of the bridge's own.
const statePrefix = "mcpbridge."

// A roundState is what the bridge's requestState holds, under an HMAC.
type roundState struct {
	Name   string      `json:"n"`           // exchange
	Handle jobs.Handle `json:"h,omitempty"` // its job, for other processes
	Round  int         `json:"r"`
	Until  int64       `json:"u"` // Unix seconds
	Digest []byte      `json:"d"` // of what is asked, by whom, where
}

// askLater puts a question where a host will come for it: into the job, and
// toward a modern host into the input_required that answers its request.
func (x *exchange) askLater(ctx context.Context, method string, params []byte) (result, rpcError []byte, err error) {
	q := openQuestion{id: "q" + rand.Text(), request: concat(`{"method":`, quote(method))}
	if len(params) > 0 {
		q.request = concat(q.request, `,"params":`, params)
	}
	q.request = append(q.request, '}')
	answer := x.bridge.desk.put(q.id)
	defer x.bridge.desk.take(q.id)
	x.park(q)
	defer x.settleQuestion(q.id)
	if kept := x.keepQuestion(q); !kept && x.isAbandoned() {
		result, rpcError = defaultAnswer(method) // nobody could come for it
		return result, rpcError, nil
	}
	if x.profile.era == modernEra {
		x.answerInputRequired()
	}
	select {
	case a := <-answer:
		return jsonrpc.Get(a, "result"), jsonrpc.Get(a, "error"), nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// park makes a question one that the next round of x can answer.
func (x *exchange) park(q openQuestion) {
	if x.profile.era != modernEra {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.parked.name == "" {
		x.parked.name = rand.Text()
		x.bridge.park(x)
	}
	x.parked.open = append(x.parked.open, q)
}

// olderAnswer makes a host's answer fit an older server: before 2025-11-25 the
// content of a sampling result is one block.
func (x *exchange) olderAnswer(method string, result []byte) []byte {
	content := jsonrpc.Get(objectOr(result, "{}"), "content")
	if method != "sampling/createMessage" || x.met().upstreamVersion >= rev2025_11_25 || len(content) == 0 || content[0] != '[' {
		return result
	}
	if blocks, err := jsonrpc.Split(content); err == nil && len(blocks) > 0 {
		return jsonrpc.With(result, "content", blocks[0])
	}
	return result
}

// keepQuestion journals a question of a job, so that it can be answered from
// elsewhere too. It reports whether that was done.
func (x *exchange) keepQuestion(q openQuestion) bool {
	k := x.bridge.keeper
	if k == nil || x.handle() == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
	defer cancel()
	if _, err := k.journal.AskHost(ctx, x.handle(), jobs.Question{ID: q.id, Request: q.request}); err != nil {
		x.bridge.cfg.Log.Warn("a question could not be journaled", "handle", x.handle(), "error", err)
		return false
	}
	return true
}

// settleQuestion forgets a question that was answered, or never will be.
func (x *exchange) settleQuestion(id string) {
	x.mu.Lock()
	x.parked.open = slices.DeleteFunc(x.parked.open, func(q openQuestion) bool { return q.id == id })
	x.mu.Unlock()
	if k := x.bridge.keeper; k != nil && x.handle() != "" {
		ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
		defer cancel()
		k.journal.Answered(ctx, x.handle(), id)
	}
}

// answerInputRequired answers the host request that waits, if one does, with
// the questions that are open.
func (x *exchange) answerInputRequired() {
	x.mu.Lock()
	closed := x.closed
	x.mu.Unlock()
	if closed {
		return // and a call that was taken over has no request to bind a round to
	}
	seal := x.newSeal()
	x.mu.Lock()
	if !x.closeLocked() {
		x.mu.Unlock()
		return
	}
	// The round counts with the answer that names it: no other may come between.
	x.parked.round++
	line := questionsLine(x.id, x.parked.open, seal, roundState{Name: x.parked.name, Handle: x.job.handle, Round: x.parked.round})
	x.mu.Unlock()
	x.host.free(x)
	x.bridge.record(x, nil, "exchange") // first: the next round may change whose answer x is
	x.write(line)
}

// A seal is what a requestState is bound by. Making one may take a look into
// the journal.
type seal struct {
	key    []byte
	digest []byte
	until  time.Time
}

func (x *exchange) newSeal() seal {
	return seal{x.bridge.stateKey(), x.roundDigest(), time.Now().Add(x.bridge.cfg.InputTimeout)}
}

// questionsLine answers with questions and a requestState that belongs to the
// request that was sealed.
func questionsLine(id []byte, open []openQuestion, by seal, state roundState) [][]byte {
	questions := []byte{'{'}
	for _, q := range open {
		questions = appendMember(questions, q.id, q.request)
	}
	state.Until, state.Digest = by.until.Unix(), by.digest
	return resultLine(id, concat(`{"resultType":"input_required","inputRequests":`, append(questions, '}'),
		`,"requestState":`, quote(sealState(by.key, state)), `}`))
}

// askForJob answers a request of a modern host with the open questions of a job,
// as far as this request declares that it can answer them. The next round of
// the request brings the answers, to whichever process makes the call.
func (k *keeper) askForJob(x *exchange, job *jobs.Job) bool {
	if job.State != jobs.InputRequired || x.profile.era != modernEra {
		return false
	}
	var open []openQuestion
	for _, q := range job.Questions {
		method, _ := jsonrpc.String(jsonrpc.Get(q.Request, "method"))
		if x.profile.accepts(method, jsonrpc.Get(q.Request, "params")) {
			open = append(open, openQuestion{q.ID, q.Request})
		}
	}
	if len(open) == 0 {
		return false
	}
	x.answerText(questionsLine(x.id, open, x.newSeal(), roundState{Handle: job.Handle}))
	return true
}

// roundDigest binds a round to its request: method, name or uri, arguments,
// principal and server.
func (x *exchange) roundDigest() []byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(x.method), []byte(deliveryName(x.asked)), canonical(x.asked.Field(jsonrpc.Arguments)),
		[]byte(x.bridge.access.account()), []byte(x.bridge.cfg.Server)} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return h.Sum(nil)
}

// canonical is RFC 8785 of value, or value itself where there is none.
func canonical(value []byte) []byte {
	if len(value) == 0 {
		return nil
	}
	if c, err := jsonrpc.Canonical(value); err == nil {
		return c
	}
	return value
}

// sealState writes a requestState that only the holders of key can make.
func sealState(key []byte, s roundState) string {
	payload, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(payload)
	return statePrefix + base64.RawURLEncoding.EncodeToString(payload) + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// openState reads a requestState of ours; ok is false for one that fails.
func (b *Bridge) openState(text string) (s roundState, ok bool) {
	body, tag, found := strings.Cut(strings.TrimPrefix(text, statePrefix), ".")
	payload, err := base64.RawURLEncoding.DecodeString(body)
	sum, err2 := base64.RawURLEncoding.DecodeString(tag)
	if !found || err != nil || err2 != nil {
		return s, false
	}
	for _, key := range [][]byte{b.stateKey(), []byte(b.ownKey)} {
		mac := hmac.New(sha256.New, key)
		mac.Write(payload)
		if hmac.Equal(sum, mac.Sum(nil)) {
			return s, json.Unmarshal(payload, &s) == nil
		}
	}
	return s, false
}

// stateKey is the key of the state directory, or that of this process where
// nothing is kept or the journal cannot be read now.
func (b *Bridge) stateKey() []byte {
	b.mu.Lock()
	key := b.roundKey
	b.mu.Unlock()
	switch {
	case key != nil:
		return key
	case b.keeper == nil:
		return []byte(b.ownKey)
	}
	ctx, cancel := context.WithTimeout(b.life, finishLimit)
	defer cancel()
	key, err := b.keeper.journal.RoundKey(ctx)
	if err != nil {
		b.cfg.Log.Warn("the key of rounds cannot be read: other processes cannot continue this one's", "error", err)
		return []byte(b.ownKey)
	}
	b.mu.Lock()
	b.roundKey = key
	b.mu.Unlock()
	return key
}

// park and unpark let the next round of an exchange find it.
func (b *Bridge) park(x *exchange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parked[x.parked.name] = x
}

func (b *Bridge) unpark(x *exchange) {
	x.mu.Lock()
	name := x.parked.name
	x.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.parked, name)
}

// nextOurRound takes a request that brings answers to questions of a legacy
// server. It reports whether x is one.
func (x *exchange) nextOurRound() bool {
	text, _ := jsonrpc.String(x.msg.Field(jsonrpc.RequestState))
	if x.profile == nil || x.profile.era != modernEra || !strings.HasPrefix(text, statePrefix) {
		return false
	}
	state, ok := x.bridge.openState(text)
	switch {
	case !ok:
		x.refuseRound("it was not made here")
	case time.Now().Unix() > state.Until:
		x.refuseRound("it has expired")
	case !hmac.Equal(state.Digest, x.roundDigest()):
		x.refuseRound("it belongs to another request")
	default:
		x.joinRound(state)
	}
	return true
}

func (x *exchange) refuseRound(why string) {
	x.reject(codeInvalidParams, "params.requestState cannot be used: "+why+"; nothing was sent", nil)
}

// joinRound hands the answers over and lets this request have what comes next.
func (x *exchange) joinRound(state roundState) {
	b := x.bridge
	b.mu.Lock()
	first := b.parked[state.Name]
	b.mu.Unlock()
	if first == nil {
		x.joinElsewhere(state)
		return
	}
	done, why := x.takeOver(first, state.Round)
	switch {
	case why != "":
		x.refuseRound(why)
		return
	case done == nil:
		x.joinElsewhere(state)
		return
	}
	for _, answer := range x.answersOf() {
		b.desk.answer(answer)
	}
	if first.stillAsks() {
		first.answerInputRequired()
	}
	select {
	case <-done:
	case <-x.ctx.Done():
	}
}

// takeOver makes this request the one that the call of first answers next, and
// returns what is closed then. It returns why that cannot be, or neither, if the
// call has ended or the host has cancelled this request.
func (x *exchange) takeOver(first *exchange, round int) (done <-chan struct{}, why string) {
	first.mu.Lock()
	defer first.mu.Unlock()
	x.mu.Lock() // never the other way round: nobody takes over x, which is new
	defer x.mu.Unlock()
	switch {
	case first.concluded || x.closed:
		return nil, ""
	case first.parked.round != round:
		return nil, "it was used before"
	case !first.closed:
		return nil, "its round is being answered"
	}
	first.parked.round++
	first.id, first.key, first.hostToken, first.batch = x.id, x.key, x.hostToken, x.batch
	first.closed, first.abandoned = false, false
	first.answered = make(chan struct{})
	first.progress = progressMark{}
	x.heir = first
	x.closeLocked()
	x.host.handOver(x, first)
	return first.answered, ""
}

// stillAsks reports whether a question of x was left without an answer.
func (x *exchange) stillAsks() bool {
	x.mu.Lock()
	ids := make([]string, 0, len(x.parked.open))
	for _, q := range x.parked.open {
		ids = append(ids, q.id)
	}
	x.mu.Unlock()
	x.bridge.desk.mu.Lock()
	defer x.bridge.desk.mu.Unlock()
	return slices.ContainsFunc(ids, func(id string) bool { return x.bridge.desk.open[id] != nil })
}

// answersOf reads params.inputResponses.
func (x *exchange) answersOf() [][]byte {
	var list [][]byte
	responses := x.msg.Field(jsonrpc.InputResponses)
	if len(responses) == 0 || responses[0] != '{' {
		return nil
	}
	for id, result := range jsonrpc.Members(responses) {
		list = append(list, concat(`{"id":`, quote(id), `,"result":`, bytes.Clone(result), `}`))
	}
	return list
}

// joinElsewhere hands the answers to the process that holds the call, by way
// of the journal, and answers with what becomes of the job.
func (x *exchange) joinElsewhere(state roundState) {
	k := x.bridge.keeper
	if k == nil || state.Handle == "" {
		x.refuseRound("the call it belongs to is not open any more")
		return
	}
	job, err := k.journal.Find(x.ctx, state.Handle)
	switch {
	case err != nil && !errors.Is(err, jobs.ErrNotFound):
		x.journalFails(err)
		return
	case err != nil || !k.mayShow(&job):
		x.refuseRound("the call it belongs to is not recorded here")
		return
	}
	x.prepareCall()
	job = k.lookAfter(x.ctx, job)
	answers := x.answersOf()
	switch {
	case job.State == jobs.InputRequired && len(answers) == 0 && k.askForJob(x, &job):
		return // 2026-07-28, mrtr, "Error Handling": asked again for what is missing
	case job.State == jobs.OutcomeUnknown: // whoever was to send the answers on is gone
	case job.State.Settled():
		x.refuseRound("it was used before, or the server did not wait for its answers; mcpbridge_job has what became of the call, " + string(job.Handle))
		return
	case !anyOpen(&job, answers):
		x.refuseRound("it was used before")
		return
	default:
		if err := k.handAnswers(x.ctx, job, answers); err != nil {
			x.reject(codeJournal, "the answers could not be handed on: "+err.Error(), nil)
			return
		}
		job = k.waitUntil(x, job, x.bridge.answerWithin(x.host.clientName(), x.toolName)-time.Since(x.began))
	}
	switch {
	case job.State.Settled():
		k.answerEnd(x, &job, false)
	case k.askForJob(x, &job):
	default:
		given, err := k.handOut(job)
		if err != nil {
			x.answerText(x.withoutHandle(&given, err))
			return
		}
		x.answerText(x.handleAnswer(&given, false, ""))
	}
}

// anyOpen reports whether one of the answers belongs to an open question.
func anyOpen(job *jobs.Job, answers [][]byte) bool {
	return slices.ContainsFunc(job.Questions, func(q jobs.Question) bool {
		return slices.ContainsFunc(answers, func(a []byte) bool {
			id, _ := jsonrpc.String(jsonrpc.Get(a, "id"))
			return id == q.ID
		})
	})
}
