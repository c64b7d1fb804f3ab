package bridge

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/stdio"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/retry"
)

// An exchange is one request of the host and every delivery made for it.
type exchange struct {
	host    *host
	bridge  *Bridge
	msg     *jsonrpc.Message
	asked   *jsonrpc.Message // as the host wrote it; nil for a call that was taken over
	id      []byte           // the host's, as it wrote it
	key     string           // the id as a comparable value
	batch   *batch           // the array it came in, or nil
	method  string
	profile *profile
	began   time.Time
	stood   time.Duration // the time in which a person was asked before anything was sent

	tool      *tool  // of a tools/call, if it is known
	toolName  string // as the host wrote it
	class     retry.Class
	hostToken []byte // progressToken of the host, nil for none

	ctx    context.Context
	cancel context.CancelCauseFunc

	settling   sync.Mutex // whoever ends or answers x holds it: its goroutine, or the deadline
	mu         sync.Mutex
	closed     bool          // nothing more is sent for this id
	concluded  bool          // its last delivery has ended
	answered   chan struct{} // closed with closed
	decided    chan struct{} // closed when it is decided whether a call is sent
	deciding   sync.Once
	parked     parked
	heir       *exchange // whose call this request is the next round of
	abandoned  bool      // answered, but the delivery goes on
	tasked     bool      // answered with a task whose progress goes on
	clock      *clock
	pair       pair
	upstreamID int64
	progress   progressMark
	reported   bool   // progress of the delivery under way came, on any stream
	level      string // logLevel of a modern host's request

	evidence evidence // what the record will say
	job      journaled
	rounds   rounds
	refusal  refusal
	asking   quota // questions of the server that are open

	mayHaveRun bool // by a delivery before the last, or in a round before; its goroutine's
}

// newExchange makes the exchange of request m.
func newExchange(h *host, m *jsonrpc.Message, b *batch) *exchange {
	x := &exchange{host: h, bridge: h.bridge, msg: m, asked: m, id: m.Bytes(m.ID), batch: b, method: m.Method, began: time.Now()}
	x.key = jsonrpc.IDKey(x.id)
	x.answered, x.decided = make(chan struct{}), make(chan struct{})
	x.ctx, x.cancel = context.WithCancelCause(h.bridge.life)
	if meta := m.Field(jsonrpc.Meta); len(meta) > 0 && meta[0] == '{' {
		x.hostToken = jsonrpc.Get(meta, metaProgressToken)
	}
	x.class = retry.Method(m.Method)
	return x
}

// readEra decides how the host speaks in this request, or why it cannot be
// served. 2026-07-28, basic, "_meta": "A request missing any required field is
// malformed; the server MUST reject it with JSON-RPC error code -32602".
func (x *exchange) readEra() (code int, why string, data []byte) {
	if x.method == "initialize" {
		return x.readInitialize()
	}
	x.profile = x.host.profileOf(x.msg)
	if x.profile.era == legacyEra {
		if x.method == "server/discover" { // of the modern era alone
			return codeInvalidParams, "server/discover needs params._meta with " + metaVersion + " and " + metaCapabilities, nil
		}
		return 0, "", nil
	}
	meta := x.msg.Field(jsonrpc.Meta)
	if !isModern(x.profile.version) {
		data := concat(`{"supported":`, supportedVersionsJSON(), `,"requested":`, quote(x.profile.version), `}`)
		return codeBadVersion, "unsupported protocol version " + strconv.Quote(x.profile.version), data
	}
	if c := jsonrpc.Get(meta, metaCapabilities); len(c) == 0 {
		return codeInvalidParams, "params._meta names a protocol version but not " + metaCapabilities, nil
	}
	if level := jsonrpc.Get(meta, metaLogLevel); len(level) > 0 {
		name, _ := jsonrpc.String(level)
		if _, ok := levelRank(name); !ok {
			return codeInvalidParams, metaLogLevel + " is no logging level", nil
		}
		x.level = name
	}
	return 0, "", nil
}

// readInitialize takes the profile of a legacy host. It is done before the next
// line is read: a host may send on without waiting.
func (x *exchange) readInitialize() (code int, why string, data []byte) {
	asked, ok := jsonrpc.String(x.msg.Field(jsonrpc.ProtocolVersion))
	if p := modernProfile(x.msg); !ok && p != nil {
		// 2026-07-28, versioning: a request with modern _meta is served by that
		// revision, which has no initialize, and the error should name versions.
		return codeMethodNotFound, "initialize does not exist in protocol version " + p.version +
			": name one of " + strings.Join(legacyRevisions(), ", ") + " in params.protocolVersion, or send server/discover", nil
	}
	if !ok {
		return codeInvalidParams, "initialize needs params.protocolVersion", nil
	}
	x.profile = legacyProfile(answerVersion(asked), x.msg.Field(jsonrpc.ClientInfo), x.msg.Field(jsonrpc.Capabilities))
	x.host.shakeHands(x.profile)
	return 0, "", nil
}

// run answers the request, here or from upstream.
func (x *exchange) run() {
	if x.nextOurRound() || x.answerLocally() {
		return
	}
	x.forward()
}

// forward delivers the request until retry.Decide says stop. It is the only
// place where anything is sent again.
func (x *exchange) forward() {
	x.prepareCall()
	if why := x.refusedByConfig(); why != "" {
		x.answerOurs(x.notOffered(why), x.notSent(why))
		return
	}
	sent := x.bridge.keeper.begin(x)
	x.nowDecided()
	if sent {
		x.deliverUntilDone()
		return
	}
	x.bridge.unpark(x)
}

// nowDecided says that it is decided whether the call of x is sent.
func (x *exchange) nowDecided() { x.deciding.Do(func() { close(x.decided) }) }

// deliverUntilDone makes deliveries until one is the last.
func (x *exchange) deliverUntilDone() {
	x.startClock()
	defer x.clock.stop()
	defer x.bridge.unpark(x)
	stopTicks := x.tick()
	defer stopTicks()
	b := x.bridge
	b.counters.First(x.counterName())
	b.budget.First(time.Now())
	s := retry.Situation{Method: x.method}
	waits := b.policy.Waits()
	for {
		x.classAsKeyed() // each time: another account's job may have another key
		s.Class = x.class
		up, d, r := x.deliver()
		again := x.decide(&s, up, d, &r, waits)
		if again == nil || !pauseFor(x.ctx, again.Wait) {
			x.completeElicitation()
			x.conclude(up, d, r)
			return
		}
		x.mayHaveRun = x.mayHaveRun || r.verdict.Effect != classify.None
		if again.Action == retry.CollectInput {
			if !x.inputCollected(r) {
				x.completeElicitation()
				x.conclude(up, d, r)
				return
			}
			r.done()
			continue
		}
		r.done()
		x.comply(up, d, again.Action, &s)
		x.evidence.retried(decisionOrigin)
		b.counters.Retry(x.counterName())
	}
}

// decide says what follows the reply *r: the decision to deliver again, or nil
// for the end. A broken stream that can be resumed is, and *r is replaced.
func (x *exchange) decide(s *retry.Situation, up upstream, d *delivery, r **reply, waits func() time.Duration) *retry.Decision {
	b := x.bridge
	for {
		s.Verdict, s.Remaining, s.Challenge = (*r).verdict, x.clock.remaining(), (*r).challenge
		if (*r).connecting != "" && (*r).refusedAccount() {
			s.Verdict.Outcome = classify.HTTPError // to what came before the request
		}
		s.Resumable = (*r).lastEvent != "" && d != nil && d.session != nil
		decision := retry.Decide(b.policy, *s, b.budget, time.Now(), waits)
		x.evidence.decided(decision.Why)
		if decision.RenewSession && d != nil {
			up.renew(d)
		}
		switch {
		case x.ctx.Err() != nil || (*r).tooLarge || (*r).local:
			return nil
		case decision.Action == retry.Resume:
			*r = x.resume(up, d, *r)
		case decision.Action == retry.CollectInput && x.asksForHost():
			return &decision
		case decision.Action == retry.SignIn || decision.Action == retry.StepUp:
			if x.isAbandoned() && !x.tasked || !x.authorize(*r) {
				return nil
			}
			return &decision
		case x.isAbandoned():
			return nil
		case decision.Action == retry.Again || decision.Action == retry.RenewSession ||
			decision.Action == retry.RefreshSchema || decision.Action == retry.PickVersion:
			return &decision
		default:
			return nil
		}
	}
}

// deliver makes one delivery and judges what came back.
func (x *exchange) deliver() (upstream, *delivery, *reply) {
	up, failed := x.bridge.link.ready(x.ctx, x.profile)
	if failed != nil {
		r := *failed // shared by all that waited for it
		r.finish, r.kept = nil, nil
		x.evidence.noConnection(&r)
		return up, nil, &r
	}
	if x.cancelledUnsent() {
		return up, nil, notConnected(hostCancelled())
	}
	x.lowerLevel(up)
	x.meetTool(up)
	d := x.delivery(up)
	x.bridge.track(x, d.id)
	x.evidence.sending()
	r := up.deliver(x.ctx, d, x)
	x.bridge.untrack(d.id)
	if x.hasReported() {
		r.capture.Events = max(r.capture.Events, 1) // it may have come on the GET stream
	}
	r.judge()
	x.evidence.delivered(r)
	x.bridge.link.overheard(up, x.profile, &r.verdict)
	if r.verdict.Outcome == classify.TaskCreated && x.offersTasks() {
		r = x.adopt(up, r)
	}
	return up, d, r
}

// hasReported reports whether upstream has shown that it began to execute the
// delivery under way.
func (x *exchange) hasReported() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.reported
}

// cancelledUnsent reports whether the host cancelled before anything left. A
// host's timer is a reason to go on with a call, not to begin one.
func (x *exchange) cancelledUnsent() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closed && !x.tasked && x.upstreamID == 0
}

// delivery describes the next delivery, with an id of its own.
func (x *exchange) delivery(up upstream) *delivery {
	d := &delivery{
		msg: x.msg, method: x.method, name: deliveryName(x.msg), tool: x.tool,
		id: x.bridge.link.newID(), write: isWrite(x.class), profile: x.profile,
		giveUp: x.clock.giveUp(), trace: x.evidence.trace,
		tasks: x.offersTasks(), task: x.wantsTask(up),
	}
	if x.profile.era == legacyEra {
		d.level = x.host.wantedLevel()
	}
	x.mu.Lock()
	d.token = x.method == "tools/call" || len(x.hostToken) > 0
	x.upstreamID, x.reported = d.id, false
	x.pair = pair{x.profile.era, up.era(), x.profile.version, up.version(x.profile)}
	x.mu.Unlock()
	return d
}

// resume goes on with a broken answer of a legacy session.
func (x *exchange) resume(up upstream, d *delivery, r *reply) *reply {
	x.bridge.track(x, d.id)
	defer x.bridge.untrack(d.id)
	again := up.resume(x.ctx, d, r, x)
	if again != r {
		r.done()
	}
	again.judge()
	x.evidence.resumed(again)
	return again
}

// asksForHost reports whether the bridge answers input_required itself: a
// modern host does so on its own, unless it has had its answer already.
func (x *exchange) asksForHost() bool {
	return x.pair.upstream == modernEra && (x.profile.era == legacyEra || x.isAbandoned())
}

// inputCollected makes the next round ready. Where that fails, r becomes what
// the exchange ends with.
func (x *exchange) inputCollected(r *reply) bool {
	pause, rpcError, err := x.nextRound(r)
	if err == nil {
		x.bridge.budget.Take(time.Now()) // rounds count, and are bounded by themselves
		return pauseFor(x.ctx, pause)
	}
	x.rounds.why, x.rounds.rpcError = err.Error(), rpcError
	r.interrupted(x.ctx)
	return false
}

// comply does what a decision asks for before the next delivery.
func (x *exchange) comply(up upstream, d *delivery, action retry.Action, s *retry.Situation) {
	switch action {
	case retry.Again:
		s.Retries++
	case retry.RenewSession:
		s.SessionRemade = true
		if d != nil {
			up.renew(d)
		}
	case retry.RefreshSchema:
		s.SchemaRefreshed = true
		if d == nil {
			return // the handshake was refused in these words, not the call
		}
		x.bridge.offers.fetch(x.ctx, up, x.profile)
		x.settling.Lock()
		x.tool = x.bridge.offers.tool(x.profile, x.toolName)
		x.settling.Unlock()
	case retry.SignIn:
		s.SignedIn = true
	case retry.StepUp:
		s.SteppedUp = true
	case retry.PickVersion:
		s.VersionPicked = true
		x.bridge.link.forget(up)
	}
}

// weigh makes the verdict on the last delivery one on the whole exchange: that it
// had no effect proves nothing about a delivery before it.
func (x *exchange) weigh(r *reply) {
	if !x.mayHaveRun || r.verdict.Effect != classify.None {
		return
	}
	r.moot, r.verdict.Effect = true, classify.Possible
	r.verdict.Why = "a delivery before the last may have been executed; the last: " + r.verdict.Why
}

func pauseFor(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// handle names the job of x, "" while it has none.
func (x *exchange) handle() jobs.Handle {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.job.handle
}

// met is which two eras met in the last delivery.
func (x *exchange) met() pair {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.pair
}

// whenAnswered is closed once the host has its answer.
func (x *exchange) whenAnswered() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answered
}

// conclude answers the host, or writes the second record if it was answered
// before the delivery ended.
func (x *exchange) conclude(up upstream, d *delivery, r *reply) {
	defer r.done()
	x.settling.Lock()
	defer x.settling.Unlock()
	x.weigh(r)
	k := x.bridge.keeper
	if d != nil && up != nil && r.capture.Ended != classify.Complete && r.capture.Ended != classify.Cut && !x.onlyLetGo(r) && !k.leftToOthers(x, r) {
		up.cancel(d, r.capture.Detail)
	}
	x.mu.Lock()
	told := x.closed
	x.concluded = true
	x.mu.Unlock()
	x.evidence.ended(r)
	if isFailure(r.verdict.Outcome) {
		x.bridge.counters.Failed(x.counterName())
	}
	x.bridge.offers.refusedCall(x.profile, r)
	if !told && x.doesNotFit(r) {
		if _, given := k.giveHandle(x); given {
			x.nowGiven()
		}
	}
	ended := k.finish(x, r)
	if told {
		x.bridge.record(x, &r.verdict, "settled")
		k.statusFirst(x, statusTimeout)
		return
	}
	if k.statusFirst(x, x.remaining()) {
		x.bridge.record(x, &r.verdict, "exchange")
		return
	}
	if x.tell(r) && ended && !x.job.given {
		k.written(untold{handle: x.handle()})
	}
}

// tell writes the one answer to the host and the record of it. Whoever closes
// the exchange first does it.
func (x *exchange) tell(r *reply) bool {
	parts := x.answerTo(r)
	if !x.close() {
		return false
	}
	written := x.writeLent(r.share(), parts) // it may wait for the host longer than x
	if !written {
		x.evidence.setBy(byHost)
	}
	x.bridge.record(x, &r.verdict, "exchange")
	return written
}

// close claims the right to answer. After it nothing is sent for this id.
func (x *exchange) close() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closeLocked()
}

func (x *exchange) closeLocked() bool {
	if x.closed {
		return false
	}
	x.closed = true
	close(x.answered)
	return true
}

// write puts an answer onto stdout, or into the batch that it belongs to. It
// reports whether the host is to have it.
func (x *exchange) write(parts [][]byte) bool { return x.writeLent(nil, parts) }

// writeLent is write of parts that are needed until release is called; it is
// nil where they just stay.
func (x *exchange) writeLent(release func(), parts [][]byte) bool {
	x.host.free(x) // with its answer an id is free again
	x.mu.Lock()
	b := x.batch // the next round of a modern host brings its own
	x.mu.Unlock()
	if b != nil {
		return b.add(x.id, release, parts...)
	}
	err := x.host.out.Answer(x.bridge.life, release, parts...)
	var long *stdio.OversizeError
	if errors.As(err, &long) {
		x.bridge.cfg.Log.Warn("an answer was longer than the host can read", "method", x.method, "bytes", long.Size, "--host-line-limit", long.Limit)
		x.host.write(rpcErrorLine(x.id, codeInvalidReply, x.noAnswerOf(int64(long.Size)).String(), []byte(`{"source":"mcpbridge"}`)))
		return false
	}
	if err != nil {
		x.bridge.cfg.Log.Debug("answer was not written", "error", err)
		return false
	}
	return true
}

// reject answers a request with an error of the bridge's; nothing was sent for
// it. data is JSON; nil is the verdict where the code is one of the bridge's own.
func (x *exchange) reject(code int, why string, data []byte) {
	defer x.cancel(nil)
	v := x.notSent(why)
	if data == nil && bridgeCode(code) {
		data = x.errorData(v)
	}
	if !bridgeCode(code) {
		v.Layer, v.Outcome = classify.Protocol, classify.JSONRPCError
		v.RPCError = &classify.RPCError{Code: int64(code), Message: why}
	}
	x.answerOurs([][]byte{rpcErrorLine(x.id, code, why, data)}, v)
}

// answerText ends the exchange with an answer of our own that no delivery
// stands behind.
func (x *exchange) answerText(parts [][]byte) {
	v := &classify.Verdict{Layer: classify.Application, Outcome: classify.Result, Effect: classify.None, ResultType: "complete"}
	if x.method == "tools/call" { // of a tool of the bridge's own, or about a job
		v.Outcome = classify.ToolSuccess
	}
	x.evidence.setBy(byBridge)
	x.answerOurs(parts, v)
}

// answerOurs is answerText with a verdict.
func (x *exchange) answerOurs(parts [][]byte, v *classify.Verdict) {
	if !x.close() {
		return
	}
	if !x.write(parts) {
		x.evidence.setBy(byHost)
	}
	x.bridge.record(x, v, "exchange")
}

// cancelledByHost takes notifications/cancelled: nothing more is sent for this
// id. Hosts send the same notice on a timer of theirs, so a call that may have
// an effect goes on unless --on-cancel forward says otherwise.
func (x *exchange) cancelledByHost(reason string) {
	x.mu.Lock()
	heir := x.heir
	x.mu.Unlock()
	if heir != nil {
		heir.cancelledByHost(reason)
		return
	}
	goesOn := x.goesOn()
	x.mu.Lock()
	if !x.closeLocked() {
		x.mu.Unlock()
		return
	}
	x.abandoned = x.abandoned || goesOn
	b := x.batch
	x.mu.Unlock()
	if b != nil {
		b.less()
	}
	x.host.free(x)
	x.bridge.patience.hostLeft(x.host.clientName(), time.Since(x.began), x.method)
	x.evidence.cancelled(reason)
	x.bridge.keeper.nobodyWaits(x, "host cancelled")
	if goesOn {
		x.bridge.record(x, nil, "exchange")
		return
	}
	x.cancel(calledOff{hostCancelled()})
}

// detach ends x for a host that is gone; a job's delivery goes on.
func (x *exchange) detach() {
	k := x.bridge.keeper
	if h := x.handle(); h == "" || k.exchangeOf(h) != x {
		x.cancel(hostGone("the host is gone"))
		return
	}
	x.mu.Lock()
	x.closeLocked()
	x.abandoned = true
	x.mu.Unlock()
	k.nobodyWaits(x, "host gone")
}

// goesOn reports whether a cancelled call keeps its delivery.
func (x *exchange) goesOn() bool {
	x.mu.Lock()
	tool, class := x.toolName, x.class
	x.mu.Unlock()
	choice := x.bridge.toolConfig(tool).OnCancel
	if choice == "" {
		choice = x.bridge.cfg.OnCancel
	}
	return x.method == "tools/call" && effective(class) && choice == CancelAuto
}

func (x *exchange) isAbandoned() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.abandoned
}

// answerDeadline is called when --answer-within has passed. A delivery that is
// still open is no failure and is not repeated: a call becomes a job, and its
// handle is the answer; any other method is given up.
func (x *exchange) answerDeadline() {
	x.mu.Lock()
	c := x.clock
	x.mu.Unlock()
	if c.notYet(x.host.out.Blocked()) {
		return
	}
	x.settling.Lock()
	defer x.settling.Unlock()
	x.mu.Lock()
	open := x.method == "tools/call" && x.upstreamID != 0
	if x.closed || !open {
		waits := !x.closed
		x.mu.Unlock()
		if waits {
			x.cancel(limitReached("--answer-within"))
		}
		return
	}
	x.closeLocked()
	x.abandoned = true
	x.mu.Unlock()
	x.host.free(x)
	x.evidence.deadline()
	v := &classify.Verdict{Layer: classify.Transport, Outcome: classify.TimedOut, Effect: classify.Possible,
		Why: "no answer within --answer-within; the delivery is still open"}
	job, given := x.bridge.keeper.giveHandle(x)
	switch {
	case given && x.door() == newDoor:
		x.nowGiven()
		x.write(x.taskCreated(&job))
	case given:
		x.nowGiven()
		x.write(x.handleAnswer(&job, false, ""))
	case x.class == retry.Read:
		v.Why = "no answer within --answer-within"
		x.write(x.toolText(x.noAnswer(v), v))
		defer x.cancel(limitReached("--answer-within"))
	default:
		x.write(x.openPastDeadline(v))
	}
	x.bridge.record(x, v, "exchange")
}

// counterName groups the counters: by tool, other methods by their name.
func (x *exchange) counterName() string {
	if x.toolName != "" {
		return x.toolName
	}
	return x.method
}
