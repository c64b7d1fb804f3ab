package bridge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// The bridge's own tools: door 1 to the jobs, for every host.
const (
	jobTool     = "mcpbridge_job"
	resolveTool = "mcpbridge_job_resolve"
	jobsTool    = "mcpbridge_jobs"
	cancelTool  = "mcpbridge_job_cancel"
)

const (
	maxJobList  = 20
	maxPiece    = 40_000 // characters of one piece of a large result
	quickGlance = 5 * time.Second
	askWait     = 5 * time.Second // for what another process is asked
)

// ownTools lists the bridge's tools, in the order in which they are shown.
func (b *Bridge) ownTools() [][]byte {
	if b.keeper == nil || b.cfg.JobTools == JobToolsNone {
		return nil
	}
	list := [][]byte{b.describeJob(), b.describeResolve()}
	if b.cfg.JobTools == JobToolsAll {
		list = append(list, b.describeJobs(), b.describeCancel(), b.statusTool())
	}
	return list
}

func (b *Bridge) describeJob() []byte {
	text := fmt.Sprintf("Calls to %s that take long, or whose outcome is unknown, are answered with a handle (job_...). "+
		"With a handle this tool returns the state or, once the call has ended, its original result; wait_seconds waits for that. "+
		"Without a handle it lists the calls that still run, are unknown or were not read yet, and says how the connection to %s is. "+
		"A result too long for one answer is read with offset.", b.cfg.Server, b.cfg.Server)
	if b.access.needsSignIn() {
		text = signInByCalling + " " + text
	}
	return concat(`{"name":"`, jobTool, `","description":`, quote(text), `,"inputSchema":{"type":"object","properties":{`,
		`"handle":{"type":"string"},"wait_seconds":{"type":"number","minimum":0},"offset":{"type":"integer","minimum":0},"tool":{"type":"string"}}}`,
		`,"annotations":{"readOnlyHint":true,"openWorldHint":false}}`)
}

func (b *Bridge) describeResolve() []byte {
	text := fmt.Sprintf("Settles a call to %s whose outcome is unknown, after you have checked what happened: happened, did_not_happen, "+
		"or send_again to make the same call once more. cancel asks the server to stop a call that runs; stop_waiting only gives up on it. why says how you know.", b.cfg.Server)
	return concat(`{"name":"`, resolveTool, `","description":`, quote(text), `,"inputSchema":{"type":"object","properties":{`,
		`"handle":{"type":"string"},"resolution":{"type":"string","enum":["happened","did_not_happen","send_again","cancel","stop_waiting"]},"why":{"type":"string"}},`,
		`"required":["handle","resolution","why"]},"annotations":{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":false}}`)
}

func (b *Bridge) describeJobs() []byte {
	return concat(`{"name":"`, jobsTool, `","description":`, quote("Lists the recorded calls to "+b.cfg.Server+"."),
		`,"inputSchema":{"type":"object","properties":{"state":{"type":"string"},"tool":{"type":"string"}}},"annotations":{"readOnlyHint":true,"openWorldHint":false}}`)
}

func (b *Bridge) describeCancel() []byte {
	return concat(`{"name":"`, cancelTool, `","description":`, quote("Cancels a running call to "+b.cfg.Server+", or stops waiting for it."),
		`,"inputSchema":{"type":"object","properties":{"handle":{"type":"string"},"mode":{"type":"string","enum":["cancel","stop_waiting"]}},"required":["handle","mode"]},`,
		`"annotations":{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":false}}`)
}

// callOwn answers a call of one of the bridge's tools.
func (k *keeper) callOwn(x *exchange, name string) bool {
	args := x.msg.Field(jsonrpc.Arguments)
	if len(args) == 0 || args[0] != '{' {
		args = []byte("{}")
	}
	x.setTool(name)
	switch name {
	case jobTool, resolveTool, jobsTool, cancelTool:
		x.nowDecided() // it is answered here
	default:
		return false
	}
	switch name {
	case jobTool:
		k.tend()
		k.showJob(x, args)
	case resolveTool:
		k.tend()
		resolution, _ := jsonrpc.String(jsonrpc.Get(args, "resolution"))
		k.resolve(x, args, resolution)
	case jobsTool:
		state, _ := jsonrpc.String(jsonrpc.Get(args, "state"))
		k.list(x, args, state, false)
	case cancelTool:
		mode, _ := jsonrpc.String(jsonrpc.Get(args, "mode"))
		k.resolve(x, args, mode)
	}
	return true
}

// say answers a tool call of ours with a text.
func (x *exchange) say(text string, isError bool) {
	x.answerText(x.ownResult(concat(`{"content":[`, textBlock(text), `],"isError":`, strconv.FormatBool(isError), `}`)))
}

// find looks up the handle in args; it answers x itself where there is no such
// job to speak of.
func (k *keeper) find(x *exchange, args []byte) (jobs.Job, bool) {
	text, _ := jsonrpc.String(jsonrpc.Get(args, "handle"))
	h, err := jobs.ParseHandle(text)
	if err != nil {
		x.say(fmt.Sprintf("FAILED: %q is no handle. Next: call %s without a handle to see the handles of server %s.", cut(text, 60), jobTool, k.account().Server), true)
		return jobs.Job{}, false
	}
	job, err := k.journal.Find(x.ctx, h)
	switch {
	case errors.Is(err, jobs.ErrNotFound) || err == nil && job.Server == k.account().Server && !k.mayShow(&job):
		more := ""
		var gone *jobs.NotFoundError
		if errors.As(err, &gone) && !gone.SetAside.IsZero() {
			more = " A damaged journal was set aside at " + gone.SetAside.UTC().Format(time.RFC3339) + "; the call may be recorded there."
		}
		x.say(fmt.Sprintf("FAILED: job %s was not found on server %s. Not found does not mean not done: the call may have been executed.%s Next: look at the current state with a tool that only reads.",
			h, k.account().Server, more), true)
	case err != nil:
		x.say(fmt.Sprintf("FAILED: the journal of server %s cannot be read at the moment: %s. Next: try again.", k.account().Server, err), true)
	case job.Server != k.account().Server:
		x.say(fmt.Sprintf("FAILED: job %s belongs to server %s, and this is server %s. Next: ask there.", h, job.Server, k.account().Server), true)
	default:
		return job, true
	}
	return jobs.Job{}, false
}

// showJob is mcpbridge_job.
func (k *keeper) showJob(x *exchange, args []byte) {
	if len(jsonrpc.Get(args, "handle")) == 0 {
		if text := x.signInFirst(); text != "" {
			x.say(text, true)
			return
		}
		k.list(x, args, "", true)
		return
	}
	job, ok := k.find(x, args)
	if !ok {
		return
	}
	job = k.putQuestions(x, k.lookAfter(x.ctx, job))
	if k.askForJob(x, &job) {
		return
	}
	job, cutTo := k.await(x, job, args)
	if job = k.putQuestions(x, job); k.askForJob(x, &job) {
		return
	}
	if offset := jsonrpc.Get(args, "offset"); len(offset) > 0 {
		k.piece(x, &job, offset)
		return
	}
	if job.State.Settled() {
		k.answerEnd(x, &job, false)
		return
	}
	x.answerText(x.handleAnswer(&job, false, cutTo))
}

// await waits for a change of the job, as long as the caller asked and its host
// has the patience for. Asking again and again without waiting is slowed down.
func (k *keeper) await(x *exchange, job jobs.Job, args []byte) (jobs.Job, string) {
	limit := max(x.bridge.answerWithin(x.host.clientName(), jobTool)-time.Since(x.began), 0)
	stopTicks := x.tick()
	defer stopTicks()
	wait, err := strconv.ParseFloat(string(jsonrpc.Get(args, "wait_seconds")), 64)
	if err == nil && wait > 0 {
		asked := time.Duration(min(wait, 1e6) * float64(time.Second))
		text := ""
		if asked > limit {
			text = fmt.Sprintf(" wait_seconds was cut to %d, which is what this host waits for an answer.", int(limit/time.Second))
		}
		return k.waitUntil(x, job, min(asked, limit)), text
	}
	k.mu.Lock()
	before, seen := k.last[job.Handle]
	if len(k.last) > 1000 {
		clear(k.last)
	}
	k.last[job.Handle] = glance{time.Now(), job.Seen()}
	k.mu.Unlock()
	if seen && before.seen == job.Seen() && time.Since(before.at) < quickGlance {
		job = k.waitUntil(x, job, min(quickGlance, limit))
	}
	return job, ""
}

// piece answers with a part of a result's JSON, as upstream gave it.
func (k *keeper) piece(x *exchange, job *jobs.Job, offset []byte) {
	at, whole := jsonrpc.Integer(offset)
	result, _, err := k.journal.Result(x.ctx, job.Handle)
	switch {
	case !job.State.Settled():
		x.answerText(x.handleAnswer(job, false, " It has no result to read yet."))
		return
	case err != nil:
		x.answerText(x.handleAnswer(job, false, " Its result cannot be read: "+err.Error()+"."))
		return
	case !whole || at < 0 || at > int64(len(result)):
		x.say(fmt.Sprintf("FAILED: offset must be between 0 and %d, the size in bytes of the result of server %s.", len(result), job.Server), true)
		return
	}
	end := int(at)
	for n := 0; n < maxPiece && end < len(result); n++ {
		_, size := utf8.DecodeRune(result[end:])
		end += size
	}
	text := strings.ToValidUTF8(string(result[at:end]), "\uFFFD")
	next := "null"
	if end < len(result) {
		next = strconv.Itoa(end)
	}
	x.answerText(x.ownResult(concat(`{"content":[`, textBlock(text), `],"structuredContent":{"offset":`, strconv.FormatInt(at, 10),
		`,"nextOffset":`, next, `,"total":`, strconv.Itoa(len(result)), `},"isError":false}`)))
	if end == len(result) {
		k.written(untold{handle: job.Handle, asked: true})
	}
}

// list shows the jobs that may need somebody (attention), or all of a state.
func (k *keeper) list(x *exchange, args []byte, state string, attention bool) {
	tool, _ := jsonrpc.String(jsonrpc.Get(args, "tool"))
	f := jobs.Filter{Server: k.account().Server, Principal: k.account().Principal, Tool: tool,
		Directory: k.bridge.cfg.Directory, Attention: attention, Limit: maxJobList}
	if state != "" {
		var s jobs.State
		if err := s.UnmarshalText([]byte(state)); err != nil {
			x.say(fmt.Sprintf("FAILED: the calls to server %s cannot be listed like that: %s.", k.account().Server, err), true)
			return
		}
		f.States = []jobs.State{s}
	}
	found, err := k.journal.List(x.ctx, f)
	if err != nil {
		x.say(fmt.Sprintf("FAILED: the journal cannot be read at the moment: %s. %s", err, k.bridge.statusText()), true)
		return
	}
	var text strings.Builder
	list := []byte{'['}
	// All looks together fit into this host's patience; then jobs are shown as they are.
	ctx, cancel := context.WithTimeout(x.ctx, x.bridge.answerWithin(x.host.clientName(), jobTool)-time.Since(x.began))
	defer cancel()
	for i := range found {
		j := found[i]
		if ctx.Err() == nil {
			j = k.lookAfter(ctx, j)
		}
		line := fmt.Sprintf("%s %s %s, %s ago", j.Handle, stateWords(&j), j.Tool, age(time.Since(j.CreatedAt)))
		text.WriteString(line + "\n")
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, x.jobJSON(&j, line, false)...)
	}
	if len(found) == 0 {
		text.WriteString("No call to server " + k.account().Server + " is running, unknown or unread.\n")
	}
	text.WriteString(k.bridge.statusText() + k.bridge.lingerText() + k.bridge.countersText())
	x.answerText(x.ownResult(concat(`{"content":[`, textBlock(text.String()), `],"structuredContent":{"message":`, quote(text.String()), `,"jobs":`, append(list, ']'), `},"isError":false}`)))
}

// stateWords is a job's state for people.
func stateWords(j *jobs.Job) string {
	switch j.State {
	case jobs.Working:
		return "STILL RUNNING"
	case jobs.InputRequired:
		return "WAITS FOR INPUT"
	case jobs.OutcomeUnknown:
		return "OUTCOME UNKNOWN"
	case jobs.Completed:
		return "COMPLETED"
	}
	return "FAILED"
}

// lingerText says in the connection line what happens to open calls when the
// host goes.
func (b *Bridge) lingerText() string {
	if b.cfg.Linger > 0 {
		return fmt.Sprintf(" linger: on (%s).", b.cfg.Linger)
	}
	if b.cfg.LingerOff != "" {
		return fmt.Sprintf(" linger: off (%s).", b.cfg.LingerOff)
	}
	return ""
}

// countersText sums up what happened to calls so far.
func (b *Bridge) countersText() string {
	var text strings.Builder
	for _, c := range b.counters.Snapshot() {
		if c.Retries+c.Deduplicated+c.Failures > 0 {
			fmt.Fprintf(&text, "\n%s: %d calls, %d retried, %d answered from an earlier call, %d failed.", c.Tool, c.First, c.Retries, c.Deduplicated, c.Failures)
		}
	}
	return text.String()
}

// resolve is mcpbridge_job_resolve and mcpbridge_job_cancel.
func (k *keeper) resolve(x *exchange, args []byte, what string) {
	job, ok := k.find(x, args)
	if !ok {
		return
	}
	why, _ := jsonrpc.String(jsonrpc.Get(args, "why"))
	switch what {
	case "cancel", "stop_waiting":
		k.stop(x, job, what)
	case "happened", "did_not_happen", "send_again":
		job = k.lookAfter(x.ctx, job)
		k.settle(x, job, jobs.Resolution{Word: jobs.Word(what), ByModel: true, Why: why})
	default:
		x.say(fmt.Sprintf("FAILED: %q is no resolution of a call to server %s. Next: use happened, did_not_happen, send_again, cancel or stop_waiting.", cut(what, 40), job.Server), true)
	}
}

// settle ends an unknown outcome by a model's word.
func (k *keeper) settle(x *exchange, job jobs.Job, r jobs.Resolution) {
	if job.Handle == k.bridge.cfg.UserResolves {
		r.ByModel, r.Agreed = false, true
	}
	if r.Word == jobs.SendAgain && job.Destructive && r.ByModel {
		r.Agreed = k.bridge.toolConfig(job.Tool).Resolve == "model" || k.personAgrees(x, &job)
	}
	settled, begun, err := k.journal.Resolve(x.ctx, job.Handle, job.Seen(), r)
	if latest, failed := k.journal.Find(x.ctx, job.Handle); err != nil && failed == nil {
		job = latest
	}
	switch {
	case err != nil && job.State != jobs.OutcomeUnknown: // or somebody was faster
		x.answerText(x.handleAnswer(&job, false, " Nothing was changed: only an unknown outcome can be settled."))
	case errors.Is(err, jobs.ErrNeedsPerson):
		x.say(fmt.Sprintf("NOT SENT: %q on server %s is marked destructive, so only a person may have it sent again. Next: ask the user to run: mcpbridge jobs resolve %s send_again", cut(job.Tool, 80), job.Server, job.Handle), true)
	case errors.Is(err, jobs.ErrNeedsWhy):
		x.say(fmt.Sprintf("FAILED: why is missing, so the call to server %s stays as it is. Next: call again and say in why how you know what happened.", job.Server), true)
	case errors.Is(err, jobs.ErrNoArguments):
		x.say(fmt.Sprintf("NOT SENT: the arguments of the call of %q to server %s were not kept (store = \"none\"), so it cannot be sent again. Next: once you know that it did not happen, settle it with did_not_happen and call the tool anew.", cut(job.Tool, 80), job.Server), true)
	case err != nil:
		x.say(fmt.Sprintf("FAILED: nothing was changed about the call to server %s: %s.", job.Server, err), true)
	case r.Word == jobs.SendAgain:
		k.sendAgain(x, begun)
	default:
		x.answerText(x.handleAnswer(&settled, false, ""))
	}
}

// sendAgain delivers the call of a job that was begun by a resolution, and
// answers x with what comes of it.
func (k *keeper) sendAgain(x *exchange, b jobs.Begun) {
	m, err := k.callAgain(x, &b.Job)
	if err != nil {
		e := jobs.End{State: jobs.Failed, Effect: jobs.None, Evidence: jobs.NotSent, EndedBy: byBridge, Note: cut(err.Error(), 200)}
		_, _ = k.journal.Finish(x.ctx, b.Job.Handle, e) // what fails is tried again
		x.say(fmt.Sprintf("NOT SENT: the call of %q to server %s was not made again: %s. Known: nothing was executed this time. Next: make the call anew.", cut(b.Job.Tool, 80), b.Job.Server, cut(err.Error(), 200)), true)
		return
	}
	x.msg = &m
	x.id = m.Bytes(m.ID)
	x.prepareCall()
	k.take(x, b)
	x.deliverUntilDone()
}

// callAgain is the request of x with the call of a job in it: what else the
// host says in its params stays.
func (k *keeper) callAgain(x *exchange, job *jobs.Job) (jsonrpc.Message, error) {
	arguments, err := k.journal.Arguments(x.ctx, job.Handle)
	if err != nil {
		return jsonrpc.Message{}, fmt.Errorf("its arguments cannot be read: %w", err)
	}
	params := jsonrpc.With(objectOr(x.msg.Bytes(x.msg.Params), "{}"), "name", quote(job.Tool))
	if arguments == nil {
		params = jsonrpc.Without(params, "arguments")
	} else {
		params = jsonrpc.With(params, "arguments", arguments)
	}
	m, err := jsonrpc.Read(concat(`{"jsonrpc":"2.0","id":`, x.id, `,"method":"tools/call","params":`, params, `}`))
	if err != nil {
		return m, fmt.Errorf("its arguments are damaged: %w", err)
	}
	return m, nil
}

// stop ends a call that runs: cancel tells upstream too.
func (k *keeper) stop(x *exchange, job jobs.Job, what string) {
	if job.State.Settled() || job.State == jobs.OutcomeUnknown {
		x.answerText(x.handleAnswer(&job, false, " Nothing was changed: it does not run any more."))
		return
	}
	kind := jobs.AskCancel
	if what == "stop_waiting" {
		kind = jobs.AskStopWaiting
	}
	if job.BetweenRounds() {
		if ended, err := k.journal.EndRound(x.ctx, job.Handle, job.Seen(), kind); err == nil {
			x.answerText(x.handleAnswer(&ended, false, ""))
			return
		}
	}
	if own := k.exchangeOf(job.Handle); own != nil {
		k.obey(own, jobs.Ask{Kind: kind})
		job = k.waitUntil(x, job, askWait)
		x.answerText(x.handleAnswer(&job, false, ""))
		return
	}
	ask, err := k.journal.Ask(x.ctx, job.Handle, kind, nil)
	if err != nil {
		x.say(fmt.Sprintf("FAILED: nothing was changed about the call to server %s: %s.", job.Server, err), true)
		return
	}
	ctx, cancel := context.WithTimeout(x.ctx, askWait)
	defer cancel()
	ask, _ = k.journal.AwaitAsk(ctx, ask)
	if latest, err := k.journal.Find(x.ctx, job.Handle); err == nil {
		job = latest
	}
	more := " Asked, not yet confirmed: another mcpbridge process holds this call."
	if ask.Done {
		more = " The process that holds this call did what was asked: " + ask.Said + "."
	}
	x.answerText(x.handleAnswer(&job, false, more))
}

// unreadLimit bounds the look into the journal for initialize: nothing may make
// a handshake late.
const unreadLimit = 50 * time.Millisecond

// instructions are what a model is told about handles at the handshake.
func (k *keeper) instructions() string {
	if k == nil || k.bridge.cfg.JobTools == JobToolsNone || k.bridge.cfg.Broken != nil {
		return ""
	}
	text := fmt.Sprintf("A call that takes long is answered with a handle (job_...): collect its result with %s, and do not repeat the call. An OUTCOME UNKNOWN is settled with %s after checking.", jobTool, resolveTool)
	ctx, cancel := context.WithTimeout(k.bridge.life, unreadLimit)
	defer cancel()
	found, err := k.journal.List(ctx, jobs.Filter{Server: k.account().Server, Principal: k.account().Principal,
		Directory: k.bridge.cfg.Directory, Attention: true, Limit: 3})
	if err != nil || len(found) == 0 {
		return text
	}
	var names []string
	for i := range found {
		names = append(names, fmt.Sprintf("%s (%s, %s)", found[i].Handle, found[i].Tool, strings.ToLower(stateWords(&found[i]))))
	}
	return text + " From earlier: " + strings.Join(names, "; ") + "."
}
