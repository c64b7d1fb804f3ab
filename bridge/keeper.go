package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store"
	"github.com/mcpbridge/mcpbridge/retry"
)

// A keeper keeps the calls of one account in the journal: begun before their
// first byte leaves, ended before the host is told.
type keeper struct {
	bridge  *Bridge
	journal Journal

	mu        sync.Mutex
	anonymous []jobs.Handle             // begun here before anybody signed in, the last maxAnonymous
	live      map[jobs.Handle]*exchange // whose deliveries this process makes
	untold    []untold                  // ends written to the host, not yet taken as told
	telling   bool                      // a timer waits for the host to live on after them
	last      map[jobs.Handle]glance    // handles that were asked for without waiting
	tended    bool                      // recovery and upkeep have begun
	followed  map[jobs.Handle]bool      // status queries under way

	awaiting awaited
}

// A glance is when a job was last looked at, and what was seen.
type glance struct {
	at   time.Time
	seen jobs.Seen
}

const (
	// finishLimit bounds the attempt to journal an end before the host is told
	// the true result all the same.
	finishLimit = 2 * time.Second
	// asksEvery is how often an owner with open deliveries looks for what other
	// processes ask of it.
	asksEvery = 500 * time.Millisecond
	// maxAnonymous bounds the calls of nobody that are shown to who signs in.
	maxAnonymous = 1024
)

// Keys of _meta that speak about the journal.
const (
	metaJob            = ourPrefix + "job"
	metaJournal        = ourPrefix + "journal"
	metaIdempotencyKey = ourPrefix + "idempotencyKey"
	metaJournaled      = ourPrefix + "journaled"
	metaOpenJobs       = ourPrefix + "openJobs"
	metaEarlier        = ourPrefix + "earlierJob"
	metaSetAside       = ourPrefix + "journalSetAside"
)

func newKeeper(b *Bridge) *keeper {
	if b.cfg.Jobs == nil {
		return nil
	}
	return &keeper{
		bridge: b, journal: b.cfg.Jobs,
		live: map[jobs.Handle]*exchange{}, last: map[jobs.Handle]glance{}, followed: map[jobs.Handle]bool{},
	}
}

// account is whom the next job belongs to: it changes when somebody signs in.
func (k *keeper) account() jobs.Account {
	return jobs.Account{Server: k.bridge.cfg.Server, Principal: k.bridge.access.account()}
}

// mayShow reports whether a job is one of this account, or one that this
// process began before somebody signed in.
func (k *keeper) mayShow(job *jobs.Job) bool {
	a := k.account()
	if job.Account == a {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return job.Account == jobs.Account{Server: a.Server, Principal: auth.Anonymous} && slices.Contains(k.anonymous, job.Handle)
}

// noteAccount remembers a job that begins for nobody; k.mu is held.
func (k *keeper) noteAccount(job *jobs.Job) {
	if job.Account.Principal == auth.Anonymous {
		k.anonymous = append(k.anonymous[max(0, len(k.anonymous)-maxAnonymous+1):], job.Handle)
	}
}

// underAccount reports whether the call of x may be sent again after the refusal
// r. If it was journaled for another account than the one that will make it, that
// job ends here, unexecuted, and the call is begun for the right one.
func (k *keeper) underAccount(x *exchange, r *reply) bool {
	if k == nil || x.handle() == "" || x.wasGiven() || x.job.account == k.account() {
		return true
	}
	x.weigh(r)
	k.finish(x, r)
	if m := x.job.asked; m != nil {
		x.setMessage(m)
	}
	x.mu.Lock()
	x.job = journaled{}
	x.mu.Unlock()
	return k.begin(x)
}

// A journaled is what the journal knows of an exchange's call.
type journaled struct {
	handle       jobs.Handle
	account      jobs.Account     // that the job was begun for
	asked        *jsonrpc.Message // the call as it came; nil: nothing was put into it
	given        bool             // the handle was given out
	unprotected  string           // why the call is not journaled although it should be
	meta         []member         // what the answer says about journal and other jobs
	keyed        bool             // the configured idempotency key is in the call
	task         string           // that upstream made of the call
	ended        bool
	deduplicated bool // answered from an earlier job
	resumable    bool // session and event id were journaled
}

// wasGiven reports whether the handle of x was given out.
func (x *exchange) wasGiven() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.job.given
}

// nowGiven notes that the handle of x is given out.
func (x *exchange) nowGiven() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.job.given = true
}

// tellBeside adds what the answer says about journal and other jobs.
func (x *exchange) tellBeside(name string, value []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.job.meta = append(x.job.meta, member{name, value})
}

// begin journals the call of x, or answers it from an earlier job. It reports
// whether the call is to be sent.
func (k *keeper) begin(x *exchange) bool {
	if k == nil || x.method != "tools/call" {
		return true
	}
	k.tend()
	choice := k.choice(x)
	if why := x.misplacedKey(); why != "" && choice != JournalOff && effective(x.class) {
		x.answerOurs(x.keyRefused(why), x.notSent(why))
		return false
	}
	if x.door() == oldDoor && choice != JournalOff {
		return k.openTask(x)
	}
	if choice == JournalOff || !effective(x.class) {
		return k.repeatOfRead(x)
	}
	return k.beginJournaled(x, choice)
}

// beginJournaled is begin for a call that may have an effect. Reads do without
// the room that it takes on their stacks.
func (k *keeper) beginJournaled(x *exchange, choice JournalChoice) bool {
	round, err := k.nextRound(x)
	switch {
	case errors.Is(err, jobs.ErrRoundUsed):
		k.bridge.counters.Deduplicated(x.counterName())
		return k.answerHeld(x, round)
	case err != nil && !errors.Is(err, jobs.ErrNoSuchRound):
		x.answerOurs(x.notJournaled(err), x.notSent("journal unavailable"))
		return false
	case err == nil:
		x.mayHaveRun = true // up to the question
		k.take(x, round)
		return true
	}
	b, err := k.settleContest(x.ctx, k.call(x))
	var unavailable *store.UnavailableError
	switch {
	case errors.Is(err, jobs.ErrKeyConflict):
		x.answerOurs(x.keyConflict(&b.Job), x.notSent(keyUsed))
		return false
	case err != nil && choice == JournalTry && (errors.As(err, &unavailable) || errors.Is(err, store.ErrUncertain)):
		x.job.unprotected = err.Error()
		x.tellBeside(metaJournal, quote("unprotected"))
		k.bridge.cfg.Log.Warn("call is not journaled", "tool", x.toolName, "error", err)
		return true
	case err != nil:
		x.answerOurs(x.notJournaled(err), x.notSent("journal unavailable"))
		return false
	case b.Hold != jobs.NotHeld:
		k.bridge.counters.Deduplicated(x.counterName())
		return k.answerHeld(x, b)
	}
	k.take(x, b)
	return true
}

// effective reports whether calls of a class are journaled before they are
// sent.
func effective(c retry.Class) bool { return c == retry.Write || c == retry.Idempotent }

// choice says what happens to a call that cannot be journaled.
func (k *keeper) choice(x *exchange) JournalChoice {
	if c := k.bridge.cfg.Journal; c != JournalAuto {
		return c
	}
	if k.bridge.keyed(x.toolName) {
		return JournalRequired // the key comes from the journal
	}
	if x.tool != nil && !x.tool.annotated && !k.bridge.rules.Configured(x.toolName) {
		return JournalTry
	}
	if x.tool == nil {
		return JournalTry
	}
	return JournalRequired
}

// call describes the call of x to the journal.
func (k *keeper) call(x *exchange) jobs.Call {
	config := k.bridge.toolConfig(x.toolName)
	m := x.message()
	c := jobs.Call{
		Account: k.account(), Tool: x.toolName, Arguments: m.Field(jsonrpc.Arguments),
		Class: jobClass(x.class), Directory: k.bridge.cfg.Directory,
		Key: x.hostKey(), MakeKey: config.IdempotencyKey != "",
		Unannotated: x.tool == nil || !x.tool.annotated, Destructive: x.tool != nil && x.tool.destructive,
		Guard: config.Guard, Store: k.bridge.cfg.Store,
	}
	if config.Store != nil {
		c.Store = *config.Store
	}
	if len(m.Field(jsonrpc.RequestState)) > 0 || len(m.Field(jsonrpc.InputResponses)) > 0 {
		c.Guard = jobs.GuardOff // a further round is no duplicate
	}
	return c
}

func jobClass(c retry.Class) jobs.Class {
	switch c {
	case retry.Read:
		return jobs.Read
	case retry.PresumedRead:
		return jobs.PresumedRead
	case retry.Idempotent:
		return jobs.Idempotent
	}
	return jobs.Write
}

// hostKey is the idempotency key that the host gave, "" for none.
func (x *exchange) hostKey() string {
	meta := x.asked.Field(jsonrpc.Meta)
	if len(meta) == 0 || meta[0] != '{' {
		return ""
	}
	key, _ := jsonrpc.String(jsonrpc.Get(meta, metaIdempotencyKey))
	return key
}

// take makes x the exchange of a job that was just begun.
func (k *keeper) take(x *exchange, b jobs.Begun) {
	x.mu.Lock()
	x.job.handle, x.job.account = b.Job.Handle, b.Job.Account
	late := x.upstreamID != 0 && !effective(x.class) // a read that was sent before
	left := x.closed && !late
	x.mu.Unlock()
	if left { // while the job was begun: whoever closed x did not know of it
		k.nobodyWaits(x, "host cancelled")
	}
	if len(b.Others) > 0 {
		x.tellBeside(metaOpenJobs, handleList(b.Others))
	}
	if b.Past != "" {
		x.tellBeside(metaEarlier, quote(string(b.Past)))
	}
	x.warnSetAside(b)
	if pointer := k.bridge.toolConfig(x.toolName).IdempotencyKey; pointer != "" && b.Key != "" && !late {
		x.job.asked, x.job.keyed = x.msg, x.misplacedKey() == ""
		x.putKey(pointer, b.Key)
	}
	k.mu.Lock()
	k.live[b.Job.Handle] = x
	k.noteAccount(&b.Job)
	k.mu.Unlock()
}

func handleList(handles []jobs.Handle) []byte {
	out := []byte{'['}
	for i, h := range handles {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendString(out, string(h))
	}
	return append(out, ']')
}

// putKey puts the idempotency key into the arguments, where the tool expects
// it.
func (x *exchange) putKey(pointer, key string) {
	arguments := x.msg.Field(jsonrpc.Arguments)
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	arguments = setPointer(arguments, pointer, quote(key))
	params := jsonrpc.With(objectOr(x.msg.Bytes(x.msg.Params), "{}"), "arguments", arguments)
	raw := jsonrpc.AppendEdited(nil, x.msg.Raw, jsonrpc.Edit{Span: x.msg.Params, New: params})
	if m, err := jsonrpc.Read(raw); err == nil {
		x.setMessage(&m)
	}
}

// finish journals the end of x's call before the host is told. It never makes
// the host wait for longer than finishLimit: with a result in hand the true
// answer beats the durable one. It reports whether the call has ended: a round
// of questions is no end.
func (k *keeper) finish(x *exchange, r *reply) bool {
	if k == nil || x.handle() == "" {
		return false
	}
	if x.job.ended {
		return true
	}
	x.job.ended = true
	if k.leftToOthers(x, r) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
	defer cancel()
	if r.verdict.Outcome == classify.InputRequired && x.theirWords(r) != nil {
		k.awaitRound(ctx, x, r)
		return false
	}
	_, err := k.journal.Finish(ctx, x.handle(), x.endOf(r))
	k.mu.Lock()
	delete(k.live, x.handle())
	k.mu.Unlock()
	if err != nil && !errors.Is(err, jobs.ErrSettled) {
		x.tellBeside(metaJournaled, []byte("false"))
		k.bridge.cfg.Log.Warn("the end of a call could not be journaled yet", "handle", x.handle(), "error", err)
	}
	return true
}

// leftToOthers reports whether the end of a call is left open for another
// process, which can go on with its stream or task: this one is leaving.
func (k *keeper) leftToOthers(x *exchange, r *reply) bool {
	return k != nil && k.bridge.leaving.Load() && r.capture.Ended == classify.Cancelled && x.canBeResumed()
}

func (x *exchange) canBeResumed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.job.resumable
}

// endOf is what the last reply makes of the job.
func (x *exchange) endOf(r *reply) jobs.End {
	v := &r.verdict
	deliveries, _, by := x.evidence.counts()
	e := jobs.End{Effect: jobEffect(v.Effect), EndedBy: by, Note: cut(v.Why, 200), Deliveries: deliveries, Evidence: evidenceOf(v)}
	if r.taskCancelled {
		e.State, e.Effect, e.Evidence = jobs.Cancelled, jobs.Possible, "task_cancelled"
		return e
	}
	switch retry.Settle(*v, x.class, r.moot) {
	case retry.Completed:
		e.State, e.Effect = jobs.Completed, jobs.Reported
		if v.Reply.Kind == jsonrpc.Response {
			e.Result, e.Kind = slices.Clone(v.Reply.Bytes(v.Reply.Result)), jobs.ToolAnswer
		}
	case retry.Failed:
		e.State = jobs.Failed
		if m := x.theirWords(r); m != nil && m.Error != (jsonrpc.Span{}) {
			e.Result, e.Kind = slices.Clone(m.Bytes(m.Error)), jobs.ErrorValue
		}
	case retry.Unanswered:
		e.State, e.Effect = jobs.Failed, jobs.None
	default:
		e.State, e.Effect = jobs.OutcomeUnknown, jobs.Possible
		e.HandleOut = x.bridge.cfg.JobTools != JobToolsNone
		if r.capture.Ended == classify.Cancelled {
			e.Evidence = jobs.BridgeLeft
			if x.wasCalledOff() {
				e.Evidence = jobs.CancelledByHost
			}
		} else if r.moot {
			e.Evidence = jobs.EarlierDelivery
		}
	}
	if e.State == jobs.Failed && e.Effect == jobs.None && e.Kind == jobs.NoResult && v.Outcome == classify.Unreachable {
		e.Evidence = jobs.NotSent
	}
	return e
}

func jobEffect(e classify.Effect) jobs.Effect {
	switch e {
	case classify.None:
		return jobs.None
	case classify.Reported:
		return jobs.Reported
	}
	return jobs.Possible
}

// evidenceOf names what a verdict rests on.
func evidenceOf(v *classify.Verdict) jobs.Evidence {
	switch v.Outcome {
	case classify.ToolSuccess, classify.ToolError:
		return jobs.ToolResult
	case classify.JSONRPCError:
		return jobs.RPCError
	case classify.HTTPError:
		return jobs.Evidence(fmt.Sprintf("http_%d", v.Status))
	case classify.TimedOut:
		return "timeout"
	case classify.StreamIncomplete:
		return "stream_incomplete"
	case classify.Unreachable:
		return jobs.NotSent
	}
	return "invalid_reply"
}

// giveHandle journals that x's handle is about to be given out; a read is
// journaled only now. It reports whether there is a handle to give.
func (k *keeper) giveHandle(x *exchange) (jobs.Job, bool) {
	if k == nil || !x.mayHaveHandle() || x.job.unprotected != "" || k.choice(x) == JournalOff {
		return jobs.Job{}, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
	defer cancel()
	deliveries, _, _ := x.evidence.counts()
	if x.handle() != "" {
		k.journal.Note(x.handle(), jobs.Note{Deliveries: deliveries}) // rides with the next line
		job, err := k.journal.GiveHandle(ctx, x.handle())
		if err != nil {
			k.bridge.cfg.Log.Warn("a handle could not be journaled and is not given out", "handle", x.handle(), "error", err)
			return jobs.Job{}, false
		}
		return job, true
	}
	c := k.call(x)
	c.HandleOut = true
	b, err := k.journal.Begin(ctx, c)
	if err != nil || b.Hold != jobs.NotHeld && b.Job.Handle == "" {
		k.bridge.cfg.Log.Warn("a handle could not be journaled and is not given out", "error", err)
		return jobs.Job{}, false
	}
	if b.Hold == jobs.NotHeld {
		k.take(x, b)
		k.keepTask(x)
		b.Job.Deliveries = deliveries // made before there was a job
		k.journal.Note(b.Job.Handle, jobs.Note{Deliveries: deliveries})
	}
	return b.Job, true
}

// mayHaveHandle reports whether the host of x could do anything with a handle: it
// has the bridge's tools, or asked for tasks.
func (x *exchange) mayHaveHandle() bool {
	return x.bridge.cfg.JobTools != JobToolsNone || x.door() != noDoor
}

// handOut journals that the handle of an earlier job is about to be given out,
// if it is not out. A handle that cannot be journaled must not be given.
func (k *keeper) handOut(job jobs.Job) (jobs.Job, error) {
	if job.HandleOut || job.State.Settled() {
		return job, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
	defer cancel()
	given, err := k.journal.GiveHandle(ctx, job.Handle)
	if err != nil {
		k.bridge.cfg.Log.Warn("a handle could not be journaled and is not given out", "handle", job.Handle, "error", err)
		return job, err
	}
	return given, nil
}

// repeatOfRead answers a read from the job of an equal one that still runs
// here with its handle given out: asking twice need not work twice.
func (k *keeper) repeatOfRead(x *exchange) bool {
	var same *exchange
	for _, other := range k.working() {
		if other != x && other.isOpenRead(x.toolName, x.asked.Field(jsonrpc.Arguments)) {
			same = other
		}
	}
	return same == nil || k.joinRead(x, same)
}

// joinRead answers x with the handle of the same read, if that still is one that
// works.
func (k *keeper) joinRead(x, same *exchange) (send bool) {
	job, err := k.journal.Find(x.ctx, same.handle())
	if err != nil || job.State != jobs.Working {
		return true
	}
	k.bridge.counters.Deduplicated(x.counterName())
	k.answerOpen(x, &job, "")
	return false
}

// working lists the exchanges whose deliveries this process makes for jobs.
func (k *keeper) working() []*exchange {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Values(k.live))
}

// isOpenRead reports whether x is the same call of a tool that only reads, with
// its handle given out.
func (x *exchange) isOpenRead(tool string, arguments []byte) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.job.given && !effective(x.class) && x.toolName == tool && x.asked != nil &&
		string(x.asked.Field(jsonrpc.Arguments)) == string(arguments)
}

// nobodyWaits notes that the host of x has stopped waiting.
func (k *keeper) nobodyWaits(x *exchange, why string) {
	if k != nil && x.handle() != "" {
		k.journal.Note(x.handle(), jobs.Note{NobodyWait: why})
	}
}

// observe keeps what is seen of an open job, to be written with something else.
func (k *keeper) observe(x *exchange, n jobs.Note) {
	if k != nil && x.handle() != "" {
		k.journal.Note(x.handle(), n)
	}
}

// resumableFrom journals the first event id of an answer's stream at once, and
// later ones with something else.
func (x *exchange) resumableFrom(r jobs.Resumption) {
	k := x.bridge.keeper
	if k == nil || x.handle() == "" {
		return
	}
	if x.canBeResumed() {
		k.journal.Note(x.handle(), jobs.Note{EventID: r.EventID})
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
	defer cancel()
	if _, err := k.journal.SetResumption(ctx, x.handle(), r); err != nil {
		k.bridge.cfg.Log.Debug("resumption not journaled", "handle", x.handle(), "error", err)
		return
	}
	x.nowResumable()
}

// nowResumable notes that the journal knows how to go on with this call.
func (x *exchange) nowResumable() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.job.resumable = true
}

// open reports whether deliveries of jobs are still under way here.
func (k *keeper) open() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.live) > 0
}

// exchangeOf is the exchange that works on a job in this process, or nil.
func (k *keeper) exchangeOf(h jobs.Handle) *exchange {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.live[h]
}
