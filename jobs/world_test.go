package jobs_test

import (
	"context"
	"testing"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/memstore"
)

// FuzzRepeats plays the same call again and again to a few processes that
// finish, forget, tell, hand out and die in any order, and keeps its own account
// of what everybody knows. A call may go out exactly if every earlier one is
// told, proven not to have happened, or still waited for by somebody alive.
func FuzzRepeats(f *testing.F) {
	f.Add([]byte{0, 7, 8})
	f.Add([]byte{0, 5, 8, 1, 16, 4, 0, 8, 24})
	f.Add([]byte{0, 3, 5, 8, 7, 0})
	f.Add([]byte{0, 8, 7, 15, 16, 1, 9, 6, 14, 0})
	f.Add([]byte{0, 135, 1, 8, 143, 4, 0, 135, 7, 0, 151, 12})
	f.Fuzz(func(t *testing.T, moves []byte) {
		s, err := memstore.New(jobs.Schema())
		if err != nil {
			t.Fatal(err)
		}
		w := &repeatWorld{t: t, store: s}
		for i := range w.procs {
			w.start(i)
		}
		for _, m := range moves[:min(len(moves), 60)] {
			w.step(int(m%8), int(m/8))
		}
		if err := w.procs[0].Check(context.Background()); err != nil {
			t.Error(err)
		}
		for _, p := range w.procs {
			if err := p.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
}

type repeatWorld struct {
	t     *testing.T
	store *memstore.Store
	procs [3]*jobs.Journal
	life  [3]int // which life of the process this is
	sent  []*sentCall
}

// A place is one life of one process.
type place struct{ proc, life int }

type sentCall struct {
	handle         jobs.Handle
	owner, waiter  place
	waited, out    bool
	ended, unknown bool
	none, told     bool
}

func (w *repeatWorld) start(i int) {
	w.procs[i] = jobs.New(w.store.Share(), jobs.Options{})
	w.life[i]++
}

func (w *repeatWorld) alive(p place) bool { return w.life[p.proc] == p.life }

// free says that nothing about an earlier call speaks against sending it again.
func (w *repeatWorld) free(c *sentCall) bool {
	return c.ended && (c.told || c.none) || c.waited && w.alive(c.waiter) && !c.holdsAnyway(w)
}

// holdsAnyway: the handle is out, or the process that would learn the end is
// gone.
func (c *sentCall) holdsAnyway(w *repeatWorld) bool {
	return !c.ended && (c.out || !c.unknown && !w.alive(c.owner))
}

func (w *repeatWorld) step(what, n int) {
	if what == 7 && n > 15 {
		w.must(w.procs[n%3].File(context.Background()))
		return
	}
	if what == 7 {
		w.must(w.procs[n%3].Close(context.Background()))
		w.start(n % 3)
		return
	}
	if what == 0 {
		w.begin(n % 3)
		return
	}
	if len(w.sent) == 0 {
		return
	}
	c := w.sent[n%len(w.sent)]
	j := w.procs[c.owner.proc]
	ours := w.alive(c.owner)
	ctx := context.Background()
	switch {
	case what == 1 && ours && !c.ended:
		_, err := j.Finish(ctx, c.handle, completed(`{}`))
		w.must(err)
		c.ended = true
	case what == 2 && ours && !c.ended:
		_, err := j.Finish(ctx, c.handle, jobs.End{State: jobs.Failed, Effect: jobs.None, Evidence: jobs.NotSent})
		w.must(err)
		c.ended, c.none = true, true
	case what == 3 && ours && !c.ended:
		_, err := j.Finish(ctx, c.handle, jobs.End{State: jobs.OutcomeUnknown, Evidence: "cut"})
		w.must(err)
		c.unknown, c.waited = true, false // who waited is told so
	case what == 4 && c.ended && w.alive(c.waiter):
		w.procs[c.waiter.proc].Note(c.handle, jobs.Note{Told: true})
		w.must(w.procs[c.waiter.proc].Flush(ctx))
		c.told = true
	case what == 5 && w.alive(c.waiter):
		w.procs[c.waiter.proc].Note(c.handle, jobs.Note{NobodyWait: "host gone"})
		w.must(w.procs[c.waiter.proc].Flush(ctx))
		c.waited = false
	case what == 6 && ours && !c.ended:
		_, err := j.GiveHandle(ctx, c.handle)
		w.must(err)
		c.out, c.waited = true, false
	}
}

func (w *repeatWorld) begin(proc int) {
	b, err := w.procs[proc].Begin(context.Background(), numbered(1, 0))
	w.must(err)
	here := place{proc, w.life[proc]}
	if b.Hold == jobs.NotHeld {
		for _, c := range w.sent {
			if !w.free(c) {
				w.t.Fatalf("sent again, although of %s is known: %+v", c.handle, *c)
			}
		}
		w.sent = append(w.sent, &sentCall{handle: b.Job.Handle, owner: here, waiter: here, waited: true})
		return
	}
	for _, c := range w.sent {
		if c.handle != b.Job.Handle {
			continue
		}
		if w.free(c) {
			w.t.Fatalf("held back (%v), although of %s is known: %+v", b.Hold, c.handle, *c)
		}
		w.held(c, b, here)
	}
}

// held brings the account up to date with what an answer from c does.
func (w *repeatWorld) held(c *sentCall, b jobs.Begun, here place) {
	switch {
	case b.Hold == jobs.KeptEnd:
		if !c.ended || c.told || c.none {
			w.t.Fatalf("a kept end of %+v", *c)
		}
		c.waiter, c.waited = here, true
	case !c.unknown && !w.alive(c.owner):
		if b.Hold != jobs.Unknown || b.Job.Evidence != jobs.BridgeLost {
			w.t.Fatalf("the owner is gone, and the answer is %v, %v", b.Hold, b.Job.Evidence)
		}
		c.unknown, c.owner = true, here
		c.waited = c.waited && w.alive(c.waiter)
	}
}

func (w *repeatWorld) must(err error) {
	if err != nil {
		w.t.Helper()
		w.t.Fatal(err)
	}
}
