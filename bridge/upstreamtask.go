package bridge

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// This file adopts tasks of the upstream: the bridge offers them for every
// tools/call, polls at the server's pace, answers its questions, and turns the
// end into the reply of the call. The host need not know of it.

const (
	defaultPoll = time.Second
	minPoll     = 100 * time.Millisecond
	maxPoll     = time.Minute
)

// offersTasks reports whether a call to up may be answered with a task.
func (x *exchange) offersTasks() bool {
	return x.bridge.keeper != nil && x.method == "tools/call"
}

// An upstreamTask is a task that the upstream made of a call.
type upstreamTask struct {
	up   upstream
	x    *exchange
	id   string
	poll time.Duration
	seen map[string]bool // questions that were asked already
}

// adopt follows the task in r until it ends and returns the reply that the
// call comes to.
func (x *exchange) adopt(up upstream, r *reply) *reply {
	m := &r.verdict.Reply
	task := m.Bytes(m.Result)
	if inner := jsonrpc.Get(task, "task"); len(inner) > 0 {
		task = inner // 2025-11-25
	}
	id, _ := jsonrpc.String(jsonrpc.Get(task, "taskId"))
	t := &upstreamTask{up: up, x: x, id: id, seen: map[string]bool{}}
	t.pace(task)
	x.mu.Lock()
	x.job.task = id
	x.mu.Unlock()
	x.bridge.keeper.keepTask(x)
	x.handOverTask()
	r.done()
	return t.follow()
}

// keepTask journals the task that upstream made of x's call, once x has both a
// task and a job: a read gets its job late.
func (k *keeper) keepTask(x *exchange) {
	x.mu.Lock()
	h, task := x.job.handle, x.job.task
	x.mu.Unlock()
	if h == "" || task == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
	defer cancel()
	if _, err := k.journal.SetTask(ctx, h, task); err != nil {
		k.bridge.cfg.Log.Warn("the server's task id could not be journaled", "handle", h, "error", err)
		return
	}
	x.nowResumable()
}

// handOverTask gives a host that speaks tasks its handle at once.
func (x *exchange) handOverTask() {
	x.mu.Lock()
	waits := !x.closed && x.door() == newDoor
	x.mu.Unlock()
	if !waits {
		return
	}
	job, given := x.bridge.keeper.giveHandle(x)
	if !given || !x.close() {
		return
	}
	x.mu.Lock()
	x.abandoned, x.job.given = true, true
	x.mu.Unlock()
	x.host.free(x)
	x.write(x.taskCreated(&job))
	x.bridge.record(x, nil, "exchange")
}

// pace takes over the server's polling interval.
func (t *upstreamTask) pace(task []byte) {
	for _, name := range []string{"pollIntervalMs", "pollInterval"} {
		if ms, ok := jsonrpc.Integer(jsonrpc.Get(task, name)); ok && ms > 0 {
			t.poll = min(max(time.Duration(ms)*time.Millisecond, minPoll), maxPoll)
			return
		}
	}
	if t.poll == 0 {
		t.poll = defaultPoll
	}
}

// follow polls until the task ends, the server does not know it any more, or
// the exchange does.
func (t *upstreamTask) follow() *reply {
	x := t.x
	pause := t.poll
	for {
		if !pauseFor(x.ctx, pause) {
			return t.over(x.ctx)
		}
		r := t.request(x.ctx, "tasks/get", nil)
		if x.ctx.Err() != nil {
			r.done()
			return t.over(x.ctx)
		}
		m := &r.verdict.Reply
		switch {
		case r.verdict.Outcome == classify.Result:
			if end := t.look(m.Bytes(m.Result)); end != nil {
				r.done()
				return end
			}
			pause = t.poll
		case r.forgotTask():
			// The server does not know the task any more: its end will not be learnt.
			r.verdict.Outcome, r.verdict.Effect = classify.StreamIncomplete, classify.Possible
			r.verdict.Why = "the server does not know its task any more: " + r.verdict.Why
			r.lastEvent = "" // this answer is whole
			return r
		default:
			pause = min(2*max(pause, t.poll), maxPoll)
		}
		r.done()
	}
}

// forgotTask reports whether the server says that it does not know the task:
// SEP-2663 and 2025-11-25, "Protocol Errors", have -32602 for that. Any other
// error says nothing about the task.
func (r *reply) forgotTask() bool {
	e := r.verdict.RPCError
	return e != nil && (e.Code == codeInvalidParams || r.verdict.Status == http.StatusNotFound)
}

// over is the reply of a task that was not followed to its end.
func (t *upstreamTask) over(ctx context.Context) *reply {
	e := endingOf(ctx)
	left := t.x.bridge.leaving.Load() && t.x.canBeResumed() // to another process
	wanted := t.x.wasCalledOff() || !effective(t.x.class)   // else it is only let go
	if e.ended == classify.Cancelled && e.by == byHost && wanted && !left && t.x.bridge.life.Err() == nil {
		if end := t.cancel(); end != nil {
			return end
		}
	}
	r := &reply{endedBy: e.by, expect: classify.Expectation{Method: "tools/call", ID: []byte("0")}}
	r.capture.Failed, r.capture.Ended, r.capture.Detail = classify.Exchange, e.ended, e.why
	r.judge()
	return r
}

// cancelWait bounds how long a cancelled task may take to say what became of it.
const cancelWait = 5 * time.Second

// cancel cancels the task and returns its end, nil if none is learnt in time:
// SEP-2663, "Task Cancellation", lets a server finish all the same.
func (t *upstreamTask) cancel() *reply {
	ctx, stop := context.WithTimeout(t.x.bridge.life, cancelWait)
	defer stop()
	t.request(ctx, "tasks/cancel", nil).done()
	for pause := minPoll; pauseFor(ctx, pause); pause = max(t.poll, minPoll) {
		r := t.request(ctx, "tasks/get", nil)
		if r.verdict.Outcome != classify.Result {
			r.done()
			continue
		}
		task := r.verdict.Reply.Bytes(r.verdict.Reply.Result)
		if status, _ := jsonrpc.String(jsonrpc.Get(task, "status")); status == "completed" || status == "failed" || status == "cancelled" {
			end := t.end(ctx, task, status)
			r.done()
			return end
		}
		r.done()
	}
	return nil
}

// look reads the state of the task and returns the call's reply if that is an
// end.
func (t *upstreamTask) look(task []byte) *reply {
	t.pace(task)
	status, _ := jsonrpc.String(jsonrpc.Get(task, "status"))
	switch status {
	case "completed", "failed", "cancelled":
		return t.end(t.x.ctx, task, status)
	case "input_required":
		if t.up.era() == legacyEra {
			return t.fetchResult(t.x.ctx) // 2025-11-25: its questions come while we ask for the result
		}
		t.answer(jsonrpc.Get(task, "inputRequests"))
	}
	if message, ok := jsonrpc.String(jsonrpc.Get(task, "statusMessage")); ok && t.x.handle() != "" {
		t.x.bridge.keeper.observe(t.x, jobs.Note{Event: "task: " + message})
	}
	return nil
}

// end is the reply of a task that has ended, nil if it cannot be had now.
func (t *upstreamTask) end(ctx context.Context, task []byte, status string) *reply {
	member := "result"
	switch status {
	case "cancelled":
		message, _ := jsonrpc.String(jsonrpc.Get(task, "statusMessage"))
		return t.cancelled(message)
	case "failed":
		member = "error"
	}
	if value := jsonrpc.Get(task, member); len(value) > 0 && t.up.era() == modernEra {
		return t.reply(member, value)
	}
	return t.fetchResult(ctx) // 2025-11-25: the task says that it ended, tasks/result how
}

// reply makes the reply of the call from the end of its task.
func (t *upstreamTask) reply(member string, value []byte) *reply {
	raw := concat(`{"jsonrpc":"2.0","id":0,"`, member, `":`, value, `}`)
	r := &reply{endedBy: byUpstream, expect: classify.Expectation{Method: "tools/call", ID: []byte("0"), Protocol: t.up.version(t.x.profile)}}
	r.capture.Status, r.capture.Header = 200, header(hdrContentType, contentJSON)
	r.capture.Body, r.capture.Ended = raw, classify.Complete
	r.judge()
	if r.verdict.Outcome == classify.JSONRPCError {
		r.verdict.Effect = classify.Possible // the task ran
	}
	return r
}

// cancelled is the reply of a task that the server says was cancelled.
func (t *upstreamTask) cancelled(message string) *reply {
	r := t.reply("error", concat(`{"code":-32000,"message":`, quote("the server cancelled the task. "+message), `}`))
	r.taskCancelled = true
	return r
}

// fetchResult gets the result of a 2025-11-25 task, which blocks until there
// is one; questions come on its stream.
func (t *upstreamTask) fetchResult(ctx context.Context) *reply {
	r := t.request(ctx, "tasks/result", t.x)
	m := &r.verdict.Reply
	switch {
	case r.verdict.Outcome == classify.Result:
		end := t.reply("result", unrelated(m.Bytes(m.Result)))
		r.done()
		return end
	case r.verdict.Outcome == classify.JSONRPCError:
		end := t.reply("error", m.Bytes(m.Error))
		r.done()
		return end
	case ctx == t.x.ctx && ctx.Err() != nil:
		r.done()
		return t.over(ctx)
	}
	r.done()
	return nil // ask for the state again
}

// request sends a tasks/* request for the task; its Mcp-Name is the server's
// own id.
func (t *upstreamTask) request(ctx context.Context, method string, s sink, members ...member) *reply {
	params := appendMember([]byte{'{'}, "taskId", quote(t.id))
	for _, m := range members {
		params = appendMember(params, m.name, m.value)
	}
	m, err := jsonrpc.Read(concat(`{"jsonrpc":"2.0","id":0,"method":`, quote(method), `,"params":`, append(params, '}'), `}`))
	if err != nil {
		return notConnected(&ending{byBridge, err.Error(), classify.Cut})
	}
	p := t.x.profile
	if t.up.era() == modernEra {
		p = p.asLegacy()
	}
	if s == nil {
		s = deaf{}
	}
	up, failed := t.x.bridge.link.ready(ctx, t.x.profile)
	if failed != nil {
		r := *failed // shared by all that waited for it
		r.finish, r.kept = nil, nil
		return &r
	}
	t.up = up
	// SEP-2663, "Capability Negotiation": tasks/* too are for clients that declare the extension.
	d := &delivery{msg: &m, method: method, name: t.id, id: t.x.bridge.link.newID(), profile: p, giveUp: t.x.clock.giveUp(), tasks: true}
	return t.x.bridge.link.deliverOwn(ctx, up, d, s)
}

// answer answers the open questions of a task, each once.
func (t *upstreamTask) answer(questions []byte) {
	if len(questions) == 0 || questions[0] != '{' {
		return
	}
	fresh := []byte{'{'}
	for name, question := range jsonrpc.Members(questions) {
		if !t.seen[name] && len(t.seen) < maxQuestions*maxRounds {
			t.seen[name] = true
			fresh = appendMember(fresh, name, question)
		}
	}
	if len(fresh) == 1 {
		return
	}
	responses, _, rpcError, err := t.x.collect(append(fresh, '}'))
	if err != nil {
		t.x.bridge.cfg.Log.Warn("questions of the server's task were not answered", "error", err, "rpcError", rpcError != nil)
		responses = cancelAll(fresh)
	}
	t.request(t.x.ctx, "tasks/update", nil, member{"inputResponses", responses}).done()
}

// cancelAll answers questions that nobody can be asked.
func cancelAll(questions []byte) []byte {
	out := []byte{'{'}
	for name := range jsonrpc.Members(append(questions, '}')) {
		out = appendMember(out, name, []byte(`{"action":"cancel"}`))
	}
	return append(out, '}')
}

// meetTool looks a tool up that no list has named yet, where a call may have to
// be made in the way that only the list tells: 2025-11-25, tasks, "Tool-Level
// Negotiation". Its class stays what it was judged to be.
func (x *exchange) meetTool(up upstream) {
	if x.method != "tools/call" || x.tool != nil || !makesTasks(x.bridge.handshakeOf(up, x.profile)) {
		return
	}
	x.bridge.offers.await(x.ctx, x.profile, listWait, func(f *offer) bool { return f.catalogue != nil })
	t := x.bridge.offers.tool(x.profile, x.toolName)
	if t == nil {
		return
	}
	x.settling.Lock()
	x.tool = t
	x.settling.Unlock()
	if t.name != x.toolName {
		x.rename(t.name)
	}
}

// makesTasks reports whether a server of 2025-11-25 declares that it makes tasks
// of calls.
func makesTasks(h *handshake) bool {
	if h == nil || h.Version != rev2025_11_25 {
		return false
	}
	value := h.Capabilities
	for _, name := range []string{"tasks", "requests", "tools", "call"} {
		value = jsonrpc.Get(objectOr(value, "{}"), name)
	}
	return truthy(value)
}

// wantsTask is params.task for a 2025-11-25 upstream: exactly where a tool
// requires it, or offers it and the host asked.
func (x *exchange) wantsTask(up upstream) []byte {
	if up.era() != legacyEra || up.version(x.profile) != rev2025_11_25 || x.tool == nil || !x.offersTasks() {
		return nil
	}
	support, _ := jsonrpc.String(jsonrpc.Get(objectOr(jsonrpc.Get(x.tool.raw, "execution"), "{}"), "taskSupport"))
	if support == "required" || support == "optional" && x.door() == oldDoor {
		return []byte(`{"ttl":` + strconv.FormatInt(x.bridge.cfg.JobTimeout.Milliseconds(), 10) + `}`)
	}
	return nil
}
