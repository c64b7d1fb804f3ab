package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// This file carries the questions of a modern server to a legacy host: MCP
// 2026-07-28, multi round-trip requests. The server ends a round with
// input_required; the host is asked, and the request is sent again with the
// answers, under a new id and with the exact requestState.

const (
	maxRounds     = 10 // with questions
	maxQuestions  = 16 // in one round
	roundPause    = time.Second
	maxRoundPause = 15 * time.Second
)

// rounds is how far a request has got.
type rounds struct {
	asked int           // rounds with questions
	pause time.Duration // before the next round without one
	urls  int           // questions that sent the user to a URL

	why      string // why there is no next round
	rpcError []byte // what the host said instead of an answer
}

var errTooManyRounds = errors.New("the server asked more than 10 times")

// nextRound prepares the request for the next round after the reply r; wait is
// how long to pause first. An error ends the exchange, and rpcError is then
// what the host said to a question, if that is why.
func (x *exchange) nextRound(r *reply) (wait time.Duration, rpcError []byte, err error) {
	m := &r.verdict.Reply
	questions := m.Field(jsonrpc.InputRequests)
	var responses []byte // none for a round without questions
	if len(questions) > 2 && questions[0] == '{' {
		if x.rounds.asked++; x.rounds.asked > maxRounds {
			return 0, nil, errTooManyRounds
		}
		var polled bool
		if responses, polled, rpcError, err = x.collect(questions); err != nil {
			return 0, rpcError, err
		}
		if polled {
			wait = x.paced()
		}
	} else {
		wait = x.paced()
	}
	return wait, nil, x.again(responses, m.Field(jsonrpc.RequestState))
}

// paced is the pause before a round that no person's answer stands behind.
func (x *exchange) paced() time.Duration {
	if x.rounds.pause == 0 {
		x.rounds.pause = roundPause
	}
	d := x.rounds.pause
	x.rounds.pause = min(2*d, maxRoundPause)
	return d
}

// again puts answers and state into the request.
func (x *exchange) again(responses, state []byte) error {
	params := objectOr(x.msg.Bytes(x.msg.Params), "{}")
	params = jsonrpc.Without(params, "inputResponses", "requestState")
	if responses != nil {
		params = jsonrpc.With(params, "inputResponses", responses)
	}
	if len(state) > 0 {
		params = jsonrpc.With(params, "requestState", state)
	}
	edit := jsonrpc.Edit{Span: x.msg.Params, New: params}
	if x.msg.Params == (jsonrpc.Span{}) {
		edit = jsonrpc.Edit{Span: jsonrpc.Span{Start: x.msg.MethodValue.End, End: x.msg.MethodValue.End}, New: concat(`,"params":`, params)}
	}
	next, err := jsonrpc.Read(jsonrpc.AppendEdited(nil, x.msg.Raw, edit))
	if err != nil {
		return fmt.Errorf("the server's input request cannot be answered: %w", err)
	}
	x.setMessage(&next)
	return nil
}

// collect asks the host every question of a round. polled says that the next
// round only asks whether something has happened elsewhere (a URL that the user
// is to visit).
func (x *exchange) collect(questions []byte) (responses []byte, polled bool, rpcError []byte, err error) {
	responses = []byte{'{'}
	n := 0
	for name, question := range jsonrpc.Members(questions) {
		if n++; n > maxQuestions {
			return nil, false, nil, fmt.Errorf("the server asked more than %d questions at once", maxQuestions)
		}
		method, _ := jsonrpc.String(jsonrpc.Get(question, "method"))
		params := bytes.Clone(jsonrpc.Get(question, "params"))
		if !x.profile.accepts(method, params) {
			return nil, false, nil, fmt.Errorf("the server asks for %q, which this host did not offer", cut(method, 60))
		}
		answer, failed, err := x.askRound(x.ctx, method, x.fitQuestion(method, params))
		switch {
		case err != nil:
			return nil, false, nil, err
		case failed != nil && method == "sampling/createMessage":
			return nil, false, failed, errors.New("the host did not sample")
		case failed != nil && method == "roots/list":
			answer = []byte(`{"roots":[]}`)
		case failed != nil:
			answer = []byte(`{"action":"cancel"}`)
		}
		polled = polled || isURLQuestion(params) && string(jsonrpc.Get(answer, "action")) == `"accept"`
		responses = appendMember(responses, name, answer)
	}
	return append(responses, '}'), polled, nil, nil
}

func isURLQuestion(params []byte) bool {
	if !hasMember(params, "mode") {
		return false
	}
	mode, _ := jsonrpc.String(jsonrpc.Get(params, "mode"))
	return mode == "url"
}

// fitQuestion makes a question fit the host's revision and what it declared.
// Between peers of one revision it changes nothing.
func (x *exchange) fitQuestion(method string, params []byte) []byte {
	if p := x.met(); len(params) == 0 || params[0] != '{' || p.host == legacyEra && p.upstream == legacyEra {
		return params
	}
	switch method {
	case "elicitation/create":
		return x.fitElicitation(params)
	case "sampling/createMessage":
		// 2025-11-25 and 2026-07-28, sampling: other values only for a client
		// that declared sampling.context.
		include, _ := jsonrpc.String(jsonrpc.Get(params, "includeContext"))
		sampling := jsonrpc.Get(x.profile.capabilities, "sampling")
		if include != "" && include != "none" && !(hasMember(sampling, "context") && truthy(jsonrpc.Get(sampling, "context"))) {
			return jsonrpc.With(params, "includeContext", []byte(`"none"`))
		}
	}
	return params
}

func (x *exchange) fitElicitation(params []byte) []byte {
	switch {
	case x.profile.era == modernEra:
		return jsonrpc.Without(params, "elicitationId") // 2026-07-28 has none any more
	case isURLQuestion(params):
		// 2025-11-25, elicitation, "URL Mode": the request needs an id of its own.
		x.rounds.urls++
		return jsonrpc.With(params, "elicitationId", quote(x.elicitationID(x.rounds.urls)))
	case x.profile.version < rev2025_11_25:
		return jsonrpc.Without(params, "mode") // younger than the host
	}
	return params
}

// elicitationID names the n-th URL question of this exchange toward a legacy
// host.
func (x *exchange) elicitationID(n int) string {
	return fmt.Sprintf("mcpbridge-%s-%d", shortHash(string(x.id), x.began.String())[:16], n)
}

// askRound puts one question to the host and waits for the answer: directly to
// a legacy host that waits for this request, as a round to a modern one, and by
// way of the job to one that was answered already. Who does not answer in time
// has cancelled.
func (x *exchange) askRound(ctx context.Context, method string, params []byte) (result, rpcError []byte, err error) {
	x.clock.stand()
	defer x.clock.resume()
	ctx, cancel := context.WithTimeout(ctx, x.bridge.cfg.InputTimeout)
	defer cancel()
	if x.profile.era == legacyEra && !x.isAbandoned() {
		result, rpcError, err = x.host.Ask(ctx, method, params)
	} else {
		result, rpcError, err = x.askLater(ctx, method, params)
	}
	if errors.Is(err, errHostGone) && x.isAbandoned() {
		result, rpcError, err = x.askLater(ctx, method, params) // for whoever comes for the call
	}
	switch {
	case err != nil && x.ctx.Err() == nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		result, rpcError = defaultAnswer(method)
		return result, rpcError, nil
	case err == nil && method == "roots/list" && len(result) > 0:
		x.bridge.desk.keepRoots(result)
	}
	return result, rpcError, err
}

// completeElicitation tells a legacy host that the server has stopped asking
// it to visit a URL: 2025-11-25, elicitation, "Completion Notifications".
func (x *exchange) completeElicitation() {
	if x.profile.era != legacyEra || x.profile.version < rev2025_11_25 {
		return
	}
	for n := 1; n <= x.rounds.urls; n++ {
		x.host.tell(concat(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":`, quote(x.elicitationID(n)), `}}`))
	}
}

// putQuestions puts the open questions of a job to a host that asks for it, those
// too that come when the first are answered.
func (k *keeper) putQuestions(x *exchange, job jobs.Job) jobs.Job {
	for range maxRounds {
		if job.State != jobs.InputRequired || x.profile.era != legacyEra {
			return job
		}
		before := job.Seen()
		if job = k.putOpen(x, job); job.Seen() == before {
			return job
		}
	}
	return job
}

// putOpen puts the questions that are open now, and hands the answers to whoever
// makes the job's delivery.
func (k *keeper) putOpen(x *exchange, job jobs.Job) jobs.Job {
	put := 0
	for _, q := range job.Questions {
		method, _ := jsonrpc.String(jsonrpc.Get(q.Request, "method"))
		params := jsonrpc.Get(q.Request, "params")
		if !x.profile.accepts(method, params) {
			continue
		}
		put++
		ctx, cancel := context.WithTimeout(x.ctx, k.bridge.cfg.InputTimeout)
		result, rpcError, err := k.bridge.host.Ask(ctx, method, x.relate(&job, params))
		cancel()
		if err != nil {
			return job
		}
		answer := concat(`{"id":`, quote(q.ID))
		if rpcError != nil {
			answer = concat(answer, `,"error":`, rpcError, `}`)
		} else {
			answer = concat(answer, `,"result":`, result, `}`)
		}
		if k.handAnswer(x.ctx, job, answer) != nil {
			return job
		}
	}
	if put == 0 {
		return job
	}
	return k.waitUntil(x, job, askWait)
}

// relate names the task in a question that is put inside tasks/result:
// 2025-11-25, tasks, "Related Task Metadata".
func (x *exchange) relate(job *jobs.Job, params []byte) []byte {
	if x.method != "tasks/result" {
		return params
	}
	params = objectOr(params, "{}")
	meta := objectOr(jsonrpc.Get(params, "_meta"), "{}")
	return jsonrpc.With(params, "_meta", jsonrpc.With(meta, metaRelated, concat(`{"taskId":`, quote(string(job.Handle)), `}`)))
}

// handAnswers gives answers to the process that asked, as far as they belong to
// an open question of the job: SEP-2663 has the others ignored.
func (k *keeper) handAnswers(ctx context.Context, job jobs.Job, answers [][]byte) error {
	for _, answer := range answers {
		if !anyOpen(&job, [][]byte{answer}) {
			continue
		}
		if err := k.handAnswer(ctx, job, answer); err != nil {
			return err
		}
	}
	return nil
}

// handAnswer gives an answer to the process that asked. An error means that it
// is lost; a job that ended meanwhile needs none.
func (k *keeper) handAnswer(ctx context.Context, job jobs.Job, answer []byte) error {
	if k.bridge.desk.answer(answer) {
		return nil
	}
	ask, err := k.journal.Ask(ctx, job.Handle, jobs.AskAnswer, answer)
	switch {
	case errors.Is(err, jobs.ErrSettled):
		return nil
	case err != nil:
		k.bridge.cfg.Log.Warn("an answer could not be handed on", "handle", job.Handle, "error", err)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	if _, err := k.journal.AwaitAsk(ctx, ask); err != nil { // it stays there for its owner
		k.bridge.cfg.Log.Debug("an answer was handed on and not yet taken", "handle", job.Handle, "error", err)
	}
	return nil
}
