// Package journaltest holds the tests that a journal must pass on any store.
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
)

// A World opens journals on one store, each as a process of its own would.
type World func(t testing.TB, opts jobs.Options) *jobs.Journal

// Run runs every test, each in a new world.
func Run(t *testing.T, newWorld func(t testing.TB) World) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := &harness{T: t, world: newWorld(t), clock: &Clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
			h.j = h.open()
			t.Cleanup(func() {
				if err := h.open().Check(context.Background()); err != nil {
					t.Errorf("the journal contradicts itself: %v", err)
				}
			})
			c.run(h)
		})
	}
}

var cases = []struct {
	name string
	run  func(*harness)
}{
	{"ordinary call leaves a record and no content", ordinaryCall},
	{"handle keeps the result for seven days", handleKeepsResult},
	{"a status tool's word stays when the handle is given out", handleOfAsked},
	{"two equal calls whose callers wait are both sent", bothWait},
	{"repeat of a running call gets its handle", repeatRunning},
	{"repeat of a call nobody waits for gets its handle", repeatAbandoned},
	{"repeat of an unknown outcome is held back for its window", repeatUnknown},
	{"an unannotated tool has a short window", repeatUnannotated},
	{"kept end answers one repeat", repeatKept},
	{"kept end is free again when its teller dies", keptTellerDies},
	{"a proven failure holds nothing back", repeatProven},
	{"reads are never held back", repeatRead},
	{"guard by tool, and off", guardModes},
	{"others of the same tool are named", othersNamed},
	{"arguments are compared in canonical form", canonicalArguments},
	{"accounts are apart", accountsApart},
	{"idempotency keys", idempotencyKeys},
	{"made keys follow the call", madeKeys},
	{"a dead owner's call is unknown", deadOwner},
	{"a dead owner's resumable call is claimed once", claimOnce},
	{"a claim by a process that dies is claimed again", claimAgain},
	{"a late end is evidence", lateEnd},
	{"first settled state stays", firstStays},
	{"resolution by person and model", resolution},
	{"a person is asked once", putToUser},
	{"send again", sendAgain},
	{"send again by a model needs a person", sendAgainDestructive},
	{"asks reach the owner and come back", asks},
	{"questions", questions},
	{"rounds", rounds},
	{"a round that nobody sends is ended", roundEnded},
	{"an end that was told stays told", toldEnds},
	{"wait sees another process", waitOther},
	{"notes ride", notesRide},
	{"a repeat right behind the host's leaving is held", repeatRightBehind},
	{"store modes", storeModes},
	{"large bodies", largeBodies},
	{"expiry", expiry},
	{"expiry of a job that lasted", lastingExpiry},
	{"expiry of a job begun by a clock that was wrong", aheadExpiry},
	{"clock jumps", clockJumps},
	{"list and find", listAndFind},
	{"jobs that are filed are found and changed like the others", filed},
	{"forget an account", forget},
	{"concurrent begins hold exactly one", concurrentRepeats},
}

// A Clock is a wall clock that tests set.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now is for jobs.Options.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves the clock.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type harness struct {
	*testing.T
	world World
	clock *Clock
	j     *jobs.Journal
}

var ctx = context.Background()

func (h *harness) open() *jobs.Journal {
	j := h.world(h.T, jobs.Options{Now: h.clock.Now})
	h.Cleanup(func() { h.ok(j.Close(ctx)) })
	return j
}

// die closes a journal as the death of its process does: owned jobs stay open.
func (h *harness) die(j *jobs.Journal) { h.ok(j.Close(ctx)) }

func (h *harness) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// later lets time pass without putting the clock in doubt.
func (h *harness) later(d time.Duration) {
	h.Helper()
	const step = 12 * time.Hour
	for ; d > 0; d -= step {
		h.clock.Add(min(d, step))
		h.j.Note(jobs.NewHandle(), jobs.Note{Event: "time passes"})
		h.ok(h.j.Flush(ctx))
	}
}

func (h *harness) refused(err, want error) {
	h.Helper()
	if !errors.Is(err, want) {
		h.Fatalf("got error %v, want %v", err, want)
	}
}

func call(arguments string, change ...func(*jobs.Call)) jobs.Call {
	c := jobs.Call{
		Account:   jobs.Account{Server: "crm", Principal: "anonymous"},
		Tool:      "add",
		Arguments: []byte(arguments),
		Directory: "/project",
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func (h *harness) begin(j *jobs.Journal, c jobs.Call) jobs.Begun {
	h.Helper()
	b, err := j.Begin(ctx, c)
	h.ok(err)
	return b
}

func (h *harness) sent(j *jobs.Journal, c jobs.Call) jobs.Job {
	h.Helper()
	b := h.begin(j, c)
	if b.Hold != jobs.NotHeld {
		h.Fatalf("held back: %v by %s", b.Hold, b.Job.Handle)
	}
	return b.Job
}

func (h *harness) held(j *jobs.Journal, c jobs.Call, want jobs.Hold, by jobs.Handle) jobs.Begun {
	h.Helper()
	b := h.begin(j, c)
	if b.Hold != want || b.Job.Handle != by {
		h.Fatalf("got %v by %s, want %v by %s", b.Hold, b.Job.Handle, want, by)
	}
	return b
}

func done(result string) jobs.End {
	return jobs.End{State: jobs.Completed, Effect: jobs.Reported, Evidence: jobs.ToolResult, EndedBy: "upstream",
		Result: []byte(result), Kind: jobs.ToolAnswer}
}

var unknown = jobs.End{State: jobs.OutcomeUnknown, Evidence: "stream_incomplete", EndedBy: "network"}
var notSent = jobs.End{State: jobs.Failed, Effect: jobs.None, Evidence: jobs.NotSent, EndedBy: "network"}

func (h *harness) finish(j *jobs.Journal, handle jobs.Handle, e jobs.End) jobs.Job {
	h.Helper()
	job, err := j.Finish(ctx, handle, e)
	h.ok(err)
	return job
}

func (h *harness) told(j *jobs.Journal, handle jobs.Handle) {
	h.Helper()
	j.Note(handle, jobs.Note{Told: true})
	h.ok(j.Flush(ctx))
}

func (h *harness) abandoned(j *jobs.Journal, handle jobs.Handle) {
	h.Helper()
	j.Note(handle, jobs.Note{NobodyWait: "host cancelled"})
	h.ok(j.Flush(ctx))
}

func (h *harness) find(handle jobs.Handle) jobs.Job {
	h.Helper()
	job, err := h.j.Find(ctx, handle)
	h.ok(err)
	return job
}

func (h *harness) result(handle jobs.Handle, want string) {
	h.Helper()
	got, _, err := h.j.Result(ctx, handle)
	h.ok(err)
	if string(got) != want {
		h.Fatalf("result of %s is %.80q, want %.80q", handle, got, want)
	}
}

func (h *harness) state(handle jobs.Handle, want jobs.State, effect jobs.Effect) jobs.Job {
	h.Helper()
	job := h.find(handle)
	if job.State != want || job.Effect != effect {
		h.Fatalf("%s is %v (%v), want %v (%v); timeline %v", handle, job.State, job.Effect, want, effect, job.Timeline)
	}
	return job
}

func ordinaryCall(h *harness) {
	job := h.sent(h.j, call(`{"a":1}`))
	got, err := h.j.Arguments(ctx, job.Handle)
	h.ok(err)
	if string(got) != `{"a":1}` {
		h.Fatalf("arguments are %q", got)
	}
	h.finish(h.j, job.Handle, done(`{"content":[]}`))
	h.result(job.Handle, `{"content":[]}`)
	_, err = h.j.Arguments(ctx, job.Handle)
	h.refused(err, jobs.ErrNoArguments)
	h.told(h.j, job.Handle)
	_, _, err = h.j.Result(ctx, job.Handle)
	h.refused(err, jobs.ErrNoResult)
	got2 := h.state(job.Handle, jobs.Completed, jobs.Reported)
	if got2.Result.Size != 14 || got2.Arguments.Size != 7 {
		h.Fatalf("sizes are %+v %+v", got2.Arguments, got2.Result)
	}
	h.sent(h.j, call(`{"a":1}`))
}

func handleOfAsked(h *harness) {
	job := h.finish(h.j, h.sent(h.j, call(`{}`)).Handle, jobs.End{State: jobs.OutcomeUnknown, Evidence: "timeout"})
	_, err := h.j.Working(ctx, job.Handle, job.Seen(), "get_export said running")
	h.ok(err)
	given, err := h.j.GiveHandle(ctx, job.Handle)
	h.ok(err)
	if !given.HandleOut || given.Evidence != jobs.StatusTool {
		h.Fatalf("after the handle was given out: %+v", given)
	}
}

func handleKeepsResult(h *harness) {
	job := h.sent(h.j, call(`{}`))
	given, err := h.j.GiveHandle(ctx, job.Handle)
	h.ok(err)
	if !given.HandleOut || given.Evidence != jobs.AnswerDeadline {
		h.Fatalf("after the handle was given out: %+v", given)
	}
	h.finish(h.j, job.Handle, done(`1`))
	h.j.ReadEnd(job.Handle)
	h.ok(h.j.Flush(ctx))
	h.result(job.Handle, `1`)
	h.clock.Add(6 * 24 * time.Hour)
	h.prune() // takes the jump of the clock as doubtful
	h.clock.Add(2 * time.Hour)
	h.prune()
	h.result(job.Handle, `1`)
	h.clock.Add(23 * time.Hour)
	h.prune()
	_, _, err = h.j.Result(ctx, job.Handle)
	h.refused(err, jobs.ErrNoResult)
	h.find(job.Handle)
}

func (h *harness) prune() jobs.Pruned {
	h.Helper()
	p, err := h.j.Prune(ctx)
	h.ok(err)
	return p
}

func bothWait(h *harness) {
	first := h.sent(h.j, call(`{}`))
	second := h.sent(h.j, call(`{}`))
	if first.Handle == second.Handle {
		h.Fatal("one handle for two calls")
	}
	h.sent(h.open(), call(`{}`))
}

func repeatRunning(h *harness) {
	job := h.sent(h.j, call(`{}`))
	_, err := h.j.GiveHandle(ctx, job.Handle)
	h.ok(err)
	h.held(h.j, call(`{}`), jobs.StillRun, job.Handle)
	h.held(h.open(), call(`{}`), jobs.StillRun, job.Handle)
	h.sent(h.j, call(`{"other":1}`))
}

func repeatAbandoned(h *harness) {
	job := h.sent(h.j, call(`{}`))
	h.abandoned(h.j, job.Handle)
	h.held(h.open(), call(`{}`), jobs.StillRun, job.Handle)
}

func repeatUnknown(h *harness) {
	job := h.sent(h.j, call(`{}`))
	h.finish(h.j, job.Handle, unknown)
	h.abandoned(h.j, job.Handle)
	b := h.held(h.j, call(`{}`), jobs.Unknown, job.Handle)
	if want := h.clock.Now().Add(24 * time.Hour); !b.Until.Equal(want) {
		h.Fatalf("held until %v, want %v", b.Until, want)
	}
	h.clock.Add(23 * time.Hour)
	h.held(h.open(), call(`{}`), jobs.Unknown, job.Handle)
	h.clock.Add(2 * time.Hour)
	b = h.begin(h.j, call(`{}`))
	if b.Hold != jobs.NotHeld || b.Past != job.Handle {
		h.Fatalf("after the window: %v, past %q", b.Hold, b.Past)
	}
	if b = h.begin(h.j, call(`{}`)); b.Past != "" {
		h.Fatalf("the window was mentioned twice: %q", b.Past)
	}
}

func repeatUnannotated(h *harness) {
	bare := func(c *jobs.Call) { c.Unannotated = true }
	job := h.sent(h.j, call(`{}`, bare))
	h.finish(h.j, job.Handle, unknown)
	h.abandoned(h.j, job.Handle)
	h.clock.Add(9 * time.Minute)
	h.held(h.j, call(`{}`, bare), jobs.Unknown, job.Handle)
	h.clock.Add(2 * time.Minute)
	h.sent(h.j, call(`{}`, bare))
}

func repeatKept(h *harness) {
	job := h.sent(h.j, call(`{}`))
	h.abandoned(h.j, job.Handle)
	h.finish(h.j, job.Handle, done(`7`))
	other := h.open()
	h.held(other, call(`{}`), jobs.KeptEnd, job.Handle)
	h.result(job.Handle, `7`)
	h.told(other, job.Handle)
	h.sent(h.j, call(`{}`))
}

func keptTellerDies(h *harness) {
	job := h.sent(h.j, call(`{}`))
	h.abandoned(h.j, job.Handle)
	h.finish(h.j, job.Handle, done(`7`))
	teller := h.open()
	h.held(teller, call(`{}`), jobs.KeptEnd, job.Handle)
	h.die(teller)
	h.held(h.j, call(`{}`), jobs.KeptEnd, job.Handle)
	h.sent(h.open(), call(`{}`)) // h.j is telling its host

	old := h.sent(h.j, call(`{"b":1}`))
	h.abandoned(h.j, old.Handle)
	h.finish(h.j, old.Handle, done(`8`))
	h.later(25 * time.Hour)
	if b := h.begin(h.j, call(`{"b":1}`)); b.Hold != jobs.NotHeld || b.Past != old.Handle {
		h.Fatalf("a day later: %v, past %q", b.Hold, b.Past)
	}
}

func repeatProven(h *harness) {
	job := h.sent(h.j, call(`{}`))
	h.abandoned(h.j, job.Handle)
	h.finish(h.j, job.Handle, notSent)
	h.sent(h.j, call(`{}`))
	failed := h.sent(h.j, call(`{"b":1}`))
	h.abandoned(h.j, failed.Handle)
	h.finish(h.j, failed.Handle, jobs.End{State: jobs.Failed, Evidence: jobs.RPCError, Result: []byte(`{"code":1}`), Kind: jobs.ErrorValue})
	h.held(h.j, call(`{"b":1}`), jobs.KeptEnd, failed.Handle)
	expired := h.sent(h.j, call(`{"c":1}`))
	h.finish(h.j, expired.Handle, jobs.End{State: jobs.Failed, Evidence: jobs.InputExpired})
	h.abandoned(h.j, expired.Handle)
	h.sent(h.j, call(`{"c":1}`))
}

func repeatRead(h *harness) {
	for _, class := range []jobs.Class{jobs.Read, jobs.PresumedRead} {
		read := func(c *jobs.Call) { c.Class, c.Tool = class, class.String() }
		job := h.sent(h.j, call(`{}`, read))
		h.abandoned(h.j, job.Handle)
		h.sent(h.j, call(`{}`, read))
		_, err := h.j.GiveHandle(ctx, job.Handle)
		h.ok(err)
		h.held(h.j, call(`{}`, read), jobs.StillRun, job.Handle)
		h.finish(h.j, job.Handle, unknown)
		h.sent(h.j, call(`{}`, read))
	}
}

func guardModes(h *harness) {
	tool := func(c *jobs.Call) { c.Guard = jobs.GuardTool }
	off := func(c *jobs.Call) { c.Guard = jobs.GuardOff }
	job := h.sent(h.j, call(`{"a":1}`, tool))
	h.finish(h.j, job.Handle, unknown)
	h.abandoned(h.j, job.Handle)
	if b := h.held(h.j, call(`{"b":2}`, tool), jobs.Unknown, job.Handle); !b.OtherArguments {
		h.Fatal("it does not say that the arguments were others")
	}
	if b := h.held(h.j, call(`{"a":1}`, tool), jobs.Unknown, job.Handle); b.OtherArguments {
		h.Fatal("it says that the arguments were others")
	}
	h.sent(h.j, call(`{"b":2}`))
	h.sent(h.j, call(`{"a":1}`, off))

	ended := h.sent(h.j, call(`{"a":1}`, tool, func(c *jobs.Call) { c.Tool = "other" }))
	h.abandoned(h.j, ended.Handle)
	h.finish(h.j, ended.Handle, done(`1`))
	other := h.sent(h.j, call(`{"b":2}`, tool, func(c *jobs.Call) { c.Tool = "other" })) // no answer to this one
	h.finish(h.j, other.Handle, notSent)
	h.held(h.j, call(`{"a":1}`, tool, func(c *jobs.Call) { c.Tool = "other" }), jobs.KeptEnd, ended.Handle)
}

func othersNamed(h *harness) {
	first := h.sent(h.j, call(`{"a":1}`))
	h.clock.Add(time.Second)
	second := h.sent(h.j, call(`{"a":2}`))
	h.finish(h.j, second.Handle, unknown)
	h.clock.Add(time.Second)
	b := h.begin(h.j, call(`{"a":3}`))
	if want := []jobs.Handle{second.Handle, first.Handle}; !slices.Equal(b.Others, want) {
		h.Fatalf("others are %v, want %v", b.Others, want)
	}
	if b = h.begin(h.j, call(`{}`, func(c *jobs.Call) { c.Tool = "other" })); b.Others != nil {
		h.Fatalf("others of another tool: %v", b.Others)
	}
}

func canonicalArguments(h *harness) {
	job := h.sent(h.j, call(`{"b":[1.0,"\u0041"],"a":9007199254740993}`))
	h.abandoned(h.j, job.Handle)
	h.held(h.j, call(" {\"a\": 9007199254740993, \"b\":[1e0,\"A\"]}"), jobs.StillRun, job.Handle)
	h.sent(h.j, call(`{"b":[1.0,"A"],"a":9007199254740992}`))
	h.sent(h.j, call(`{"b":["1","A"],"a":9007199254740993}`))
	bare := h.sent(h.j, call(``, func(c *jobs.Call) { c.Arguments = nil }))
	h.abandoned(h.j, bare.Handle)
	h.held(h.j, call(`{}`), jobs.StillRun, bare.Handle)
	_, err := h.j.Begin(ctx, call(`{"a":1,"a":2}`))
	if err == nil {
		h.Fatal("duplicate names were accepted")
	}
}

func accountsApart(h *harness) {
	job := h.sent(h.j, call(`{}`))
	h.abandoned(h.j, job.Handle)
	for _, change := range []func(*jobs.Call){
		func(c *jobs.Call) { c.Server = "crm2" },
		func(c *jobs.Call) { c.Principal = "other" },
		func(c *jobs.Call) { c.Tool = "add2" },
		func(c *jobs.Call) { c.Server, c.Principal = "cr", "manonymous" },
	} {
		h.sent(h.j, call(`{}`, change))
	}
}

func idempotencyKeys(h *harness) {
	keyed := func(c *jobs.Call) { c.Class, c.Key = jobs.Idempotent, "k1" }
	b := h.begin(h.j, call(`{"a":1}`, keyed))
	if b.Hold != jobs.NotHeld || b.Key != "k1" {
		h.Fatalf("first call: %v, key %q", b.Hold, b.Key)
	}
	first := b.Job
	conflict, err := h.j.Begin(ctx, call(`{"a":2}`, keyed))
	h.refused(err, jobs.ErrKeyConflict)
	if conflict.Job.Handle != first.Handle {
		h.Fatalf("conflict names %q", conflict.Job.Handle)
	}
	h.held(h.j, call(`{"a":1}`, keyed), jobs.Joined, first.Handle)
	h.finish(h.j, first.Handle, done(`7`))
	h.told(h.j, first.Handle)
	h.held(h.open(), call(`{"a":1}`, keyed), jobs.KeyedEnd, first.Handle)
	h.result(first.Handle, `7`)
	h.sent(h.j, call(`{"a":1}`, keyed, func(c *jobs.Call) { c.Principal = "other" }))
	second := h.sent(h.j, call(`{"a":1}`, keyed, func(c *jobs.Call) { c.Key = "k2" }))
	h.finish(h.j, second.Handle, notSent)
	third := h.sent(h.j, call(`{"a":1}`, keyed, func(c *jobs.Call) { c.Key = "k2" }))
	h.finish(h.j, third.Handle, unknown)
	h.clock.Add(25 * time.Hour)
	h.held(h.j, call(`{"a":1}`, keyed, func(c *jobs.Call) { c.Key = "k2" }), jobs.Unknown, third.Handle)
	_, _, err = h.j.Result(ctx, first.Handle)
	h.ok(err) // wiped by the next prune, not before
	h.clock.Add(time.Hour)
	h.prune()
	_, _, err = h.j.Result(ctx, first.Handle)
	h.refused(err, jobs.ErrNoResult)
}

func madeKeys(h *harness) {
	made := func(c *jobs.Call) { c.Class, c.MakeKey = jobs.Idempotent, true }
	first := h.begin(h.j, call(`{}`, made))
	second := h.begin(h.j, call(`{}`, made))
	if first.Key == "" || first.Key == second.Key {
		h.Fatalf("keys of two calls are %q and %q", first.Key, second.Key)
	}
	h.finish(h.j, second.Job.Handle, done(`1`))
	h.told(h.j, second.Job.Handle)
	h.finish(h.j, first.Job.Handle, unknown)
	h.abandoned(h.j, first.Job.Handle)
	h.held(h.j, call(`{}`, made), jobs.Unknown, first.Job.Handle)
	h.later(25 * time.Hour)
	if again := h.begin(h.open(), call(`{}`, made)); again.Hold != jobs.NotHeld || again.Key != first.Key {
		h.Fatalf("repeat: %v with key %q, want the first call's %q", again.Hold, again.Key, first.Key)
	}
}

func deadOwner(h *harness) {
	victim := h.open()
	job := h.sent(victim, call(`{}`))
	lost, err := h.j.Lost(ctx, job.Account, 10)
	h.ok(err)
	if len(lost) != 0 {
		h.Fatalf("lost while its owner lives: %v", lost[0].Handle)
	}
	_, err = h.j.Claim(ctx, job.Handle, job.Owner)
	h.refused(err, jobs.ErrNotLost)
	h.die(victim)
	lost, err = h.j.Lost(ctx, job.Account, 10)
	h.ok(err)
	if len(lost) != 1 || lost[0].Handle != job.Handle {
		h.Fatalf("lost: %v", lost)
	}
	b := h.held(h.j, call(`{}`), jobs.Unknown, job.Handle)
	if b.Claimed || b.Job.Evidence != jobs.BridgeLost {
		h.Fatalf("claimed %v, evidence %v", b.Claimed, b.Job.Evidence)
	}
	h.state(job.Handle, jobs.OutcomeUnknown, jobs.Possible)
}

func claimOnce(h *harness) {
	victim := h.open()
	task := h.sent(victim, call(`{"a":1}`))
	_, err := victim.SetTask(ctx, task.Handle, "upstream-1")
	h.ok(err)
	stream := h.sent(victim, call(`{"a":2}`))
	_, err = victim.SetResumption(ctx, stream.Handle, jobs.Resumption{Session: "s", EventID: "1", Protocol: "2025-11-25"})
	h.ok(err)
	victim.Note(stream.Handle, jobs.Note{EventID: "2"})
	h.die(victim)

	b := h.held(h.j, call(`{"a":1}`), jobs.StillRun, task.Handle)
	if !b.Claimed || b.Job.UpstreamTask != "upstream-1" || b.Job.State != jobs.Working {
		h.Fatalf("begin did not take the job over: %+v", b)
	}
	rivals := []*jobs.Journal{h.j, h.open(), h.open()}
	won := 0
	for _, r := range rivals {
		job, err := r.Claim(ctx, stream.Handle, stream.Owner)
		if err == nil {
			won++
			resume, ok, err := r.Resumption(ctx, job)
			h.ok(err)
			if !ok || resume.EventID != "2" || resume.Session != "s" {
				h.Fatalf("resumption is %+v", resume)
			}
			continue
		}
		h.refused(err, jobs.ErrStale)
	}
	if won != 1 {
		h.Fatalf("%d of %d won the claim", won, len(rivals))
	}
	h.finish(h.j, stream.Handle, done(`3`))
	h.state(stream.Handle, jobs.Completed, jobs.Reported)
}

func claimAgain(h *harness) {
	victim := h.open()
	job := h.sent(victim, call(`{}`))
	_, err := victim.SetTask(ctx, job.Handle, "upstream-1")
	h.ok(err)
	h.die(victim)
	for range 3 {
		claimer := h.open()
		got, err := claimer.Claim(ctx, job.Handle, job.Owner)
		h.ok(err)
		if got.Owner == job.Owner || got.State != jobs.Working {
			h.Fatalf("claimed: owner %s, %v", got.Owner, got.State)
		}
		_, err = h.j.Claim(ctx, job.Handle, job.Owner)
		h.refused(err, jobs.ErrStale)
		job = got
		h.die(claimer)
	}
	_, err = h.j.Claim(ctx, job.Handle, job.Owner)
	h.ok(err)
	h.finish(h.j, job.Handle, done(`1`))
}

func lateEnd(h *harness) {
	job := h.sent(h.j, call(`{}`))
	_, err := h.open().Finish(ctx, job.Handle, done(`1`))
	h.refused(err, jobs.ErrNotOwner)
	got := h.state(job.Handle, jobs.Working, jobs.Possible)
	if last := got.Timeline[len(got.Timeline)-1]; !strings.Contains(last.What, "late end") {
		h.Fatalf("timeline ends with %+v", last)
	}
	_, err = h.open().SetTask(ctx, job.Handle, "x")
	h.refused(err, jobs.ErrNotOwner)
	h.finish(h.j, job.Handle, done(`2`))
	h.result(job.Handle, `2`)
}

func firstStays(h *harness) {
	job := h.sent(h.j, call(`{}`))
	seen := job.Seen()
	job = h.finish(h.j, job.Handle, unknown)
	_, err := h.j.Settle(ctx, job.Handle, seen, done(`1`))
	h.refused(err, jobs.ErrStale)
	job, err = h.j.Working(ctx, job.Handle, job.Seen(), "the status tool says it runs")
	h.ok(err)
	_, _, err = h.j.Resolve(ctx, job.Handle, job.Seen(), jobs.Resolution{Word: jobs.Happened})
	h.refused(err, jobs.ErrNotUnknown)
	job = h.finish(h.j, job.Handle, unknown)
	job, _, err = h.j.Resolve(ctx, job.Handle, job.Seen(), jobs.Resolution{Word: jobs.DidNotHappen})
	h.ok(err)
	if job.State != jobs.Failed || job.Effect != jobs.None || job.Conflict {
		h.Fatalf("resolved to %v (%v), conflict %v", job.State, job.Effect, job.Conflict)
	}
	for range 3 {
		got, err := h.j.Finish(ctx, job.Handle, done(strings.Repeat("9", 70<<10)))
		h.refused(err, jobs.ErrSettled)
		if !got.Conflict || got.State != jobs.Failed {
			h.Fatalf("late contradiction: %v, conflict %v", got.State, got.Conflict)
		}
	}
	_, _, err = h.j.Result(ctx, job.Handle)
	h.refused(err, jobs.ErrNoResult)
	job = h.find(job.Handle)
	_, err = h.j.Working(ctx, job.Handle, job.Seen(), "")
	h.refused(err, jobs.ErrSettled)
}

func resolution(h *harness) {
	for _, c := range []struct {
		r      jobs.Resolution
		state  jobs.State
		effect jobs.Effect
		ev     jobs.Evidence
	}{
		{jobs.Resolution{Word: jobs.Happened}, jobs.Completed, jobs.Reported, jobs.ResolvedByUser},
		{jobs.Resolution{Word: jobs.DidNotHappen}, jobs.Failed, jobs.None, jobs.ResolvedByUser},
		{jobs.Resolution{Word: jobs.Happened, ByModel: true, Why: "w"}, jobs.Completed, jobs.Possible, jobs.ResolvedByModel},
		{jobs.Resolution{Word: jobs.DidNotHappen, ByModel: true, Why: "w"}, jobs.Failed, jobs.Possible, jobs.ResolvedByModel},
	} {
		job := h.sent(h.j, call(`{}`))
		job = h.finish(h.j, job.Handle, unknown)
		h.abandoned(h.j, job.Handle)
		h.held(h.j, call(`{}`), jobs.Unknown, job.Handle)
		job = h.find(job.Handle)
		got, _, err := h.open().Resolve(ctx, job.Handle, job.Seen(), c.r)
		h.ok(err)
		if got.State != c.state || got.Effect != c.effect || got.Evidence != c.ev {
			h.Errorf("%+v: %v %v %v", c.r, got.State, got.Effect, got.Evidence)
		}
		h.told(h.j, h.sent(h.j, call(`{}`)).Handle) // the guard is lifted
		h.ok(h.clear())
	}
	job := h.sent(h.j, call(`{"x":1}`))
	job = h.finish(h.j, job.Handle, unknown)
	_, _, err := h.j.Resolve(ctx, job.Handle, job.Seen(), jobs.Resolution{Word: jobs.Happened, ByModel: true, Why: " "})
	h.refused(err, jobs.ErrNeedsWhy)
	if _, _, err = h.j.Resolve(ctx, job.Handle, job.Seen(), jobs.Resolution{Word: "maybe"}); err == nil {
		h.Fatal("an unknown word was taken")
	}
}

// clear ends all open jobs as proven failures.
func (h *harness) clear() error {
	for _, job := range h.j.Mine() {
		if _, err := h.j.Finish(ctx, job.Handle, notSent); err != nil && !errors.Is(err, jobs.ErrSettled) {
			return err
		}
	}
	return nil
}

func putToUser(h *harness) {
	job := h.sent(h.j, call(`{}`))
	_, err := h.j.PutToUser(ctx, job.Handle)
	h.refused(err, jobs.ErrNotUnknown)
	h.finish(h.j, job.Handle, jobs.End{State: jobs.OutcomeUnknown, Evidence: "timeout"})
	for n, j := range []*jobs.Journal{h.open(), h.open(), h.j} {
		first, err := j.PutToUser(ctx, job.Handle)
		h.ok(err)
		if first != (n == 0) {
			h.Fatalf("process %d is the first: %v", n, first)
		}
	}
}

func sendAgain(h *harness) {
	made := func(c *jobs.Call) { c.Class, c.MakeKey = jobs.Idempotent, true }
	keyed := func(c *jobs.Call) { c.Key = "k" }
	for i, change := range []func(*jobs.Call){made, keyed, func(*jobs.Call) {}} {
		args := fmt.Sprintf(`{"n":%d}`, i)
		first := h.begin(h.j, call(args, change))
		job := h.finish(h.j, first.Job.Handle, unknown)
		old, b, err := h.open().Resolve(ctx, job.Handle, job.Seen(), jobs.Resolution{Word: jobs.SendAgain, Why: "w"})
		h.ok(err)
		if old.State != jobs.Failed || old.Effect != jobs.Possible || old.SupersededBy != b.Job.Handle {
			h.Errorf("old job: %v %v by %q", old.State, old.Effect, old.SupersededBy)
		}
		if b.Job.Supersedes != old.Handle || b.Hold != jobs.NotHeld || b.Key != first.Key {
			h.Errorf("new job: supersedes %q, %v, key %q (was %q)", b.Job.Supersedes, b.Hold, b.Key, first.Key)
		}
		got, err := h.j.Arguments(ctx, b.Job.Handle)
		h.ok(err)
		if string(got) != args {
			h.Errorf("arguments are %q", got)
		}
		_, _, err = h.j.Resolve(ctx, job.Handle, old.Seen(), jobs.Resolution{Word: jobs.SendAgain})
		if err == nil {
			h.Error("sent again twice")
		}
	}
	secret := h.sent(h.j, call(`{"s":1}`, func(c *jobs.Call) { c.Store = jobs.StoreNone }))
	secret = h.finish(h.j, secret.Handle, unknown)
	_, _, err := h.j.Resolve(ctx, secret.Handle, secret.Seen(), jobs.Resolution{Word: jobs.SendAgain})
	h.refused(err, jobs.ErrNoArguments)
	h.state(secret.Handle, jobs.OutcomeUnknown, jobs.Possible)
}

func sendAgainDestructive(h *harness) {
	job := h.sent(h.j, call(`{}`, func(c *jobs.Call) { c.Destructive = true }))
	job = h.finish(h.j, job.Handle, unknown)
	r := jobs.Resolution{Word: jobs.SendAgain, ByModel: true, Why: "w"}
	_, _, err := h.j.Resolve(ctx, job.Handle, job.Seen(), r)
	h.refused(err, jobs.ErrNeedsPerson)
	job = h.state(job.Handle, jobs.OutcomeUnknown, jobs.Possible)
	r.Agreed = true
	_, b, err := h.j.Resolve(ctx, job.Handle, job.Seen(), r)
	h.ok(err)
	h.state(b.Job.Handle, jobs.Working, jobs.Possible)
}

func asks(h *harness) {
	owner := h.open()
	job := h.sent(owner, call(`{}`))
	asked, err := h.j.Ask(ctx, job.Handle, jobs.AskCancel, nil)
	h.ok(err)
	second, err := h.j.Ask(ctx, job.Handle, jobs.AskAnswer, []byte(`{"x":1}`))
	h.ok(err)
	if none, err := h.j.Asks(ctx); err != nil || len(none) != 0 {
		h.Fatalf("asks of somebody else's job: %v, %v", none, err)
	}
	list, err := owner.Asks(ctx)
	h.ok(err)
	if len(list) != 2 || list[0].Kind != jobs.AskCancel || string(list[1].Body) != `{"x":1}` || list[1].Number != second.Number {
		h.Fatalf("the owner finds %+v", list)
	}
	answer := make(chan jobs.Ask, 1)
	go func() {
		a, _ := h.j.AwaitAsk(ctx, asked)
		answer <- a
	}()
	h.ok(owner.AskDone(ctx, list[0], "told upstream"))
	if a := <-answer; !a.Done || a.Said != "told upstream" {
		h.Fatalf("the asker learns %+v", a)
	}
	if list, err = owner.Asks(ctx); err != nil || len(list) != 1 {
		h.Fatalf("then the owner finds %+v, %v", list, err)
	}
	h.finish(owner, job.Handle, done(`1`))
	_, err = h.j.Ask(ctx, job.Handle, jobs.AskCancel, nil)
	h.refused(err, jobs.ErrSettled)
}

func questions(h *harness) {
	job := h.sent(h.j, call(`{}`))
	for _, id := range []string{"q1", "q2"} {
		_, err := h.j.AskHost(ctx, job.Handle, jobs.Question{ID: id, Request: []byte(`{}`)})
		h.ok(err)
	}
	if got := h.state(job.Handle, jobs.InputRequired, jobs.Possible); len(got.Questions) != 2 {
		h.Fatalf("questions: %+v", got.Questions)
	}
	_, err := h.j.Answered(ctx, job.Handle, "q1")
	h.ok(err)
	h.state(job.Handle, jobs.InputRequired, jobs.Possible)
	_, err = h.j.Answered(ctx, job.Handle, "q1")
	h.refused(err, jobs.ErrNoQuestion)
	_, err = h.j.Answered(ctx, job.Handle, "q2")
	h.ok(err)
	h.state(job.Handle, jobs.Working, jobs.Possible)
}

func rounds(h *harness) {
	job := h.sent(h.j, call(`{}`))
	_, err := h.j.Await(ctx, job.Handle, []byte("state-1"))
	h.ok(err)
	other := h.open()
	c := call(`{}`)
	stranger := c
	stranger.Account = jobs.Account{Server: "crm", Principal: "other"}
	_, err = other.NextRound(ctx, stranger, []byte("state-1"))
	h.refused(err, jobs.ErrNoSuchRound)
	next, err := other.NextRound(ctx, c, []byte("state-1"))
	h.ok(err)
	if next.Handle != job.Handle || next.Rounds != 1 || next.State != jobs.Working {
		h.Fatalf("next round: %+v", next)
	}
	used, err := other.NextRound(ctx, c, []byte("state-1"))
	h.refused(err, jobs.ErrRoundUsed)
	if used.Handle != job.Handle || used.State != jobs.Working {
		h.Fatalf("a used round: %+v", used)
	}
	_, err = other.NextRound(ctx, call(`{"other":1}`), []byte("state-1"))
	h.refused(err, jobs.ErrNoSuchRound)
	_, err = other.NextRound(ctx, c, []byte("state-2"))
	h.refused(err, jobs.ErrNoSuchRound)
	_, err = h.j.Finish(ctx, job.Handle, done(`1`))
	h.refused(err, jobs.ErrNotOwner)
	h.finish(other, job.Handle, done(`2`))
	h.result(job.Handle, `2`)
	used, err = h.j.NextRound(ctx, c, []byte("state-1"))
	h.refused(err, jobs.ErrRoundUsed)
	if used.Handle != job.Handle || used.State != jobs.Completed {
		h.Fatalf("a used round of a job that has ended: %+v", used)
	}
	// A state that another call is given too is that call's.
	second := h.sent(h.j, call(`{"second":1}`))
	_, err = h.j.Await(ctx, second.Handle, []byte("state-1"))
	h.ok(err)
	_, err = h.j.NextRound(ctx, call(`{"second":1}`), []byte("state-1"))
	h.ok(err)
	// A state that is given out in the place of one that was not used ends that.
	for _, state := range []string{"state-3", "state-4"} {
		_, err = h.j.Await(ctx, second.Handle, []byte(state))
		h.ok(err)
	}
	_, err = h.j.NextRound(ctx, call(`{"second":1}`), []byte("state-3"))
	h.refused(err, jobs.ErrRoundUsed)
	_, err = h.j.NextRound(ctx, call(`{"second":1}`), []byte("state-4"))
	h.ok(err)
	h.ok(h.j.Check(ctx))
}

func roundEnded(h *harness) {
	for ask, evidence := range map[string]jobs.Evidence{jobs.AskCancel: jobs.CancelledByHost, jobs.AskStopWaiting: jobs.InputExpired} {
		c := call(fmt.Sprintf(`{"ask":%q}`, ask))
		job := h.sent(h.j, c)
		_, err := h.j.EndRound(ctx, job.Handle, job.Seen(), ask)
		h.refused(err, jobs.ErrStale)
		job, err = h.j.Await(ctx, job.Handle, []byte(ask))
		h.ok(err)
		other := h.open()
		_, err = other.EndRound(ctx, job.Handle, jobs.Seen{State: job.State, Version: job.Version - 1}, ask)
		h.refused(err, jobs.ErrStale)
		_, err = other.EndRound(ctx, job.Handle, job.Seen(), ask)
		h.ok(err)
		if job = h.state(job.Handle, jobs.Failed, jobs.Possible); job.Evidence != evidence || !job.Read {
			h.Fatalf("ended as %+v", job)
		}
		_, err = h.j.NextRound(ctx, c, []byte(ask))
		h.refused(err, jobs.ErrRoundUsed)
	}
}

func toldEnds(h *harness) {
	job := h.sent(h.j, call(`{}`))
	for _, c := range []struct{ where, word, want string }{{"here", "failed", "failed"}, {"there", "done", "done"}, {"here", "done", "failed"}} {
		told, err := h.open().TellEnd(ctx, job.Handle, c.where, c.word)
		h.ok(err)
		if told.ToldEnds[c.where] != c.want {
			h.Fatalf("told %v, want %s", told.ToldEnds, c.want)
		}
	}
	h.finish(h.j, job.Handle, done(`{}`))
	if got := h.find(job.Handle).ToldEnds; len(got) != 2 || got["here"] != "failed" {
		h.Fatalf("after the end: %v", got)
	}
	_, err := h.j.TellEnd(ctx, job.Handle, "elsewhere", "failed")
	h.refused(err, jobs.ErrSettled)
}

func waitOther(h *harness) {
	job := h.sent(h.j, call(`{}`))
	got := make(chan jobs.Job, 1)
	waiter := h.open()
	go func() {
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		job, err := waiter.Wait(limited, job.Handle, job.Seen())
		if err != nil {
			h.Error(err)
		}
		got <- job
	}()
	h.finish(h.j, job.Handle, done(`1`))
	if job := <-got; job.State != jobs.Completed {
		h.Fatalf("the waiter sees %v", job.State)
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	open := h.sent(h.j, call(`{"b":1}`))
	job, err := waiter.Wait(short, open.Handle, open.Seen())
	h.refused(err, context.DeadlineExceeded)
	_ = job
}

func notesRide(h *harness) {
	job := h.sent(h.j, call(`{}`))
	h.j.Note(job.Handle, jobs.Note{Progress: &jobs.Progress{Progress: 1, Total: 10}, Deliveries: 1, Event: "first byte"})
	h.j.Note(job.Handle, jobs.Note{Progress: &jobs.Progress{Progress: 3, Total: 10, Message: "half"}, Deliveries: 2})
	if got := h.find(job.Handle); got.Progress != nil {
		h.Fatalf("a note did not wait: %+v", got.Progress)
	}
	h.sent(h.j, call(`{"other":1}`))
	got := h.find(job.Handle)
	if got.Progress == nil || got.Progress.Progress != 3 || got.Deliveries != 2 || got.Version != job.Version {
		h.Fatalf("after the next change: progress %+v, deliveries %d, version %d", got.Progress, got.Deliveries, got.Version)
	}
	if !slices.ContainsFunc(got.Timeline, func(e jobs.Event) bool { return e.What == "first byte" }) {
		h.Fatalf("timeline: %+v", got.Timeline)
	}
	for i := range 100 {
		h.j.Note(job.Handle, jobs.Note{Event: fmt.Sprint("event ", i)})
		h.ok(h.j.Flush(ctx))
	}
	if got = h.find(job.Handle); len(got.Timeline) > 40 || got.Timeline[0].What != "begun" {
		h.Fatalf("timeline has %d events and begins with %q", len(got.Timeline), got.Timeline[0].What)
	}
}

// repeatRightBehind: that nobody waits is written in the background, and counts for
// a repeat that comes meanwhile.
func repeatRightBehind(h *harness) {
	for n := range 200 {
		c := call(fmt.Sprintf(`{"n":%d}`, n))
		job := h.sent(h.j, c)
		h.j.Note(job.Handle, jobs.Note{NobodyWait: "host cancelled"})
		if n%3 == 0 {
			runtime.Gosched()
		}
		h.held(h.j, c, jobs.StillRun, job.Handle)
	}
}

func storeModes(h *harness) {
	mode := func(m jobs.StoreMode) func(*jobs.Call) {
		return func(c *jobs.Call) { c.Store, c.Tool = m, m.String() }
	}
	none := h.sent(h.j, call(`{"secret":1}`, mode(jobs.StoreNone)))
	_, err := h.j.Arguments(ctx, none.Handle)
	h.refused(err, jobs.ErrNoArguments)
	_, err = h.j.GiveHandle(ctx, none.Handle)
	h.ok(err)
	h.finish(h.j, none.Handle, done(`1`))
	h.result(none.Handle, `1`)
	h.j.ReadEnd(none.Handle)
	h.ok(h.j.Flush(ctx))
	_, _, err = h.j.Result(ctx, none.Handle)
	h.refused(err, jobs.ErrNoResult)

	full := h.sent(h.j, call(`{"a":1}`, mode(jobs.StoreFull)))
	h.finish(h.j, full.Handle, done(`2`))
	h.told(h.j, full.Handle)
	h.result(full.Handle, `2`)
	_, err = h.j.Arguments(ctx, full.Handle)
	h.ok(err)
}

func largeBodies(h *harness) {
	big := `{"a":"` + strings.Repeat("x", 200<<10) + `"}`
	job := h.sent(h.j, call(big))
	got, err := h.j.Arguments(ctx, job.Handle)
	h.ok(err)
	if string(got) != big {
		h.Fatalf("arguments have %d bytes, want %d", len(got), len(big))
	}
	_, err = h.j.GiveHandle(ctx, job.Handle)
	h.ok(err)
	h.held(h.open(), call(big), jobs.StillRun, job.Handle)
	h.finish(h.j, job.Handle, done(big))
	h.result(job.Handle, big)
	_, err = h.j.Arguments(ctx, job.Handle)
	h.refused(err, jobs.ErrNoArguments)
}

func expiry(h *harness) {
	for i := range 3 {
		job := h.sent(h.j, call(fmt.Sprintf(`{"n":%d}`, i)))
		h.finish(h.j, job.Handle, done(`1`))
		h.told(h.j, job.Handle)
	}
	lost := h.open()
	h.sent(lost, call(`{"lost":1}`))
	h.die(lost)
	alive := h.sent(h.j, call(`{"alive":1}`))
	if p := h.prune(); p.Removed != 0 {
		h.Fatalf("pruned at once: %+v", p)
	}
	h.later(38 * 24 * time.Hour)
	if p := h.prune(); p.Removed != 4 {
		h.Fatalf("after 38 days: %+v, want 4 removed", p)
	}
	h.state(alive.Handle, jobs.Working, jobs.Possible)
	h.clock.Add(time.Minute)
	if p := h.prune(); !p.Skipped {
		h.Fatalf("a minute later: %+v", p)
	}
}

// lastingExpiry: a record goes a month after its last change, however long after
// its creation that was.
func lastingExpiry(h *harness) {
	short, long := h.sent(h.j, call(`{"short":1}`)), h.sent(h.j, call(`{"long":1}`))
	h.finish(h.j, short.Handle, done(`1`))
	h.told(h.j, short.Handle)
	h.later(10 * 24 * time.Hour)
	h.finish(h.j, long.Handle, done(`1`))
	h.told(h.j, long.Handle)
	h.later(20*24*time.Hour + 2*time.Hour)
	if p := h.prune(); p.Removed != 1 {
		h.Fatalf("a month after the first ended: %+v, want 1 removed", p)
	}
	h.find(long.Handle)
	h.later(10 * 24 * time.Hour)
	if p := h.prune(); p.Removed != 1 {
		h.Fatalf("a month after the second ended: %+v, want 1 removed", p)
	}
}

// aheadExpiry: a job that was begun in a future that did not come yet goes a month
// after its last change as well.
func aheadExpiry(h *harness) {
	h.finish(h.j, h.sent(h.j, call(`{"before":1}`)).Handle, unknown) // so that the journal knows a time
	h.clock.Add(10_000 * time.Hour)
	job := h.sent(h.j, call(`{}`))
	h.clock.Add(-10_000 * time.Hour) // it was wrong
	h.finish(h.j, job.Handle, done(`1`))
	h.told(h.j, job.Handle)
	h.later(30*24*time.Hour + 2*time.Hour)
	if p := h.prune(); p.Removed != 2 {
		h.Fatalf("after a month: %+v, want 2 removed", p)
	}
}

func clockJumps(h *harness) {
	job := h.sent(h.j, call(`{}`))
	h.finish(h.j, job.Handle, unknown)
	h.abandoned(h.j, job.Handle)
	h.clock.Add(1000 * time.Hour)
	h.held(h.j, call(`{}`), jobs.Unknown, job.Handle) // in doubt: the guard stays
	if p := h.prune(); !p.Skipped {
		h.Fatalf("pruned by a doubtful clock: %+v", p)
	}
	h.clock.Add(-1000 * time.Hour) // it was wrong
	h.held(h.j, call(`{}`), jobs.Unknown, job.Handle)
	h.clock.Add(-1000 * time.Hour) // behind: the kept time counts
	h.held(h.j, call(`{}`), jobs.Unknown, job.Handle)
	h.clock.Add(2100 * time.Hour)
	h.held(h.j, call(`{}`), jobs.Unknown, job.Handle)
	h.clock.Add(61 * time.Minute) // a second reading agrees
	h.sent(h.j, call(`{}`))
}

func listAndFind(h *harness) {
	var all []jobs.Handle
	for i := range 5 {
		h.clock.Add(time.Second)
		c := call(fmt.Sprintf(`{"n":%d}`, i))
		if i == 4 {
			c.Directory = "/elsewhere"
		}
		all = append(all, h.sent(h.j, c).Handle)
	}
	h.finish(h.j, all[0], done(`1`))
	h.told(h.j, all[0])
	h.finish(h.j, all[1], done(`1`))
	h.finish(h.j, all[2], unknown)
	for _, c := range []struct {
		f    jobs.Filter
		want []int
	}{
		{jobs.Filter{}, []int{4, 3, 2, 1, 0}},
		{jobs.Filter{Limit: 2}, []int{4, 3}},
		{jobs.Filter{Attention: true}, []int{4, 3, 2, 1}},
		{jobs.Filter{States: []jobs.State{jobs.OutcomeUnknown}}, []int{2}},
		{jobs.Filter{Directory: "/elsewhere"}, []int{4, 3, 2}},
		{jobs.Filter{Server: "other"}, nil},
		{jobs.Filter{Principal: "other"}, nil},
		{jobs.Filter{Tool: "add", Server: "crm", Principal: "anonymous", Limit: 1}, []int{4}},
	} {
		list, err := h.j.List(ctx, c.f)
		h.ok(err)
		var got []int
		for _, job := range list {
			got = append(got, slices.Index(all, job.Handle))
		}
		if !slices.Equal(got, c.want) {
			h.Errorf("%+v lists %v, want %v", c.f, got, c.want)
		}
	}
	job, err := h.j.FindPrefix(ctx, string(all[3][:20]))
	h.ok(err)
	if job.Handle != all[3] {
		h.Errorf("prefix finds %s", job.Handle)
	}
	_, err = h.j.FindPrefix(ctx, "job_")
	h.refused(err, jobs.ErrAmbiguous)
	_, err = h.j.Find(ctx, jobs.NewHandle())
	h.refused(err, jobs.ErrNotFound)
}

// filed begins more jobs than stand among the recent ones, in two processes; some
// end at once and some much later.
func filed(h *harness) {
	const n = 300
	other := h.open()
	var all, open []jobs.Handle
	owner := map[jobs.Handle]*jobs.Journal{}
	for i := range n {
		h.clock.Add(time.Millisecond)
		j := h.j
		if i%5 == 0 {
			j = other
		}
		job := h.sent(j, call(fmt.Sprintf(`{"n":%d}`, i)))
		all, owner[job.Handle] = append(all, job.Handle), j
		if i%7 == 0 {
			open = append(open, job.Handle)
			continue
		}
		h.finish(j, job.Handle, done(fmt.Sprint(i)))
		h.told(j, job.Handle)
	}
	slices.Reverse(all)
	list, err := h.j.List(ctx, jobs.Filter{})
	h.ok(err)
	if got := handles(list); !slices.Equal(got, all) {
		h.Fatalf("%d jobs are listed, not the %d that were begun, newest first", len(got), len(all))
	}
	page, err := h.j.List(ctx, jobs.Filter{Limit: n / 2})
	h.ok(err)
	if got := handles(page); !slices.Equal(got, all[:n/2]) {
		h.Fatal("the newest page is not the newest half")
	}
	slices.Reverse(open)
	list, err = h.j.List(ctx, jobs.Filter{Attention: true})
	h.ok(err)
	if got := handles(list); !slices.Equal(got, open) {
		h.Fatalf("%d jobs need somebody, want %d", len(got), len(open))
	}
	for _, handle := range open {
		found, err := other.FindPrefix(ctx, string(handle[:len(handle)-6]))
		h.ok(err)
		if found.Handle != handle {
			h.Fatalf("job %s was found as %s", handle, found.Handle)
		}
		h.finish(owner[handle], handle, done("late"))
		h.result(handle, "late")
		h.told(owner[handle], handle)
	}
	h.later(31 * 24 * time.Hour)
	if p := h.prune(); p.Removed != n {
		h.Fatalf("after a month: %+v, want %d removed", p, n)
	}
}

func handles(list []jobs.Job) []jobs.Handle {
	var out []jobs.Handle
	for _, j := range list {
		out = append(out, j.Handle)
	}
	return out
}

func forget(h *harness) {
	mine := h.sent(h.j, call(`{}`))
	other := h.sent(h.j, call(`{}`, func(c *jobs.Call) { c.Principal = "other" }))
	done := h.sent(h.j, call(`{"settled":true}`))
	h.finish(h.j, done.Handle, jobs.End{State: jobs.Failed, Effect: jobs.None, Evidence: jobs.NotSent})
	for _, c := range []struct {
		open          bool
		removed, kept int
	}{{false, 1, 1}, {false, 0, 1}, {true, 1, 0}} {
		f, err := h.j.Forget(ctx, mine.Account, c.open)
		h.ok(err)
		if f.Removed != c.removed || f.Kept != c.kept {
			h.Fatalf("forgot %+v, want %+v", f, c)
		}
	}
	var err error
	_, err = h.j.Find(ctx, mine.Handle)
	h.refused(err, jobs.ErrNotFound)
	h.find(other.Handle)
	f, err := h.j.Forget(ctx, jobs.Account{}, false)
	h.ok(err)
	if f.Removed != 0 || f.Kept != 1 {
		h.Fatalf("forgot %+v of all", f)
	}
	h.find(other.Handle)
	_, err = h.j.Forget(ctx, jobs.Account{}, true)
	h.ok(err)
	list, err := h.j.List(ctx, jobs.Filter{})
	h.ok(err)
	if len(list) != 0 {
		h.Fatalf("%d jobs after all were forgotten", len(list))
	}
}

func concurrentRepeats(h *harness) {
	job := h.sent(h.j, call(`{}`))
	h.abandoned(h.j, job.Handle)
	h.finish(h.j, job.Handle, done(`1`))
	const n = 16
	holds := make(chan jobs.Hold, n)
	for i := range n {
		j := h.j
		if i%2 == 0 {
			j = h.open()
		}
		go func() {
			b, err := j.Begin(ctx, call(`{}`))
			if err != nil {
				h.Error(err)
			}
			holds <- b.Hold
		}()
	}
	kept := 0
	for range n {
		if <-holds == jobs.KeptEnd {
			kept++
		}
	}
	if kept != 1 {
		h.Fatalf("the kept end answered %d of %d repeats", kept, n)
	}
}
