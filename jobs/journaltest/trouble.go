package journaltest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// Stores opens one set of contents, each time as a process of its own would.
type Stores func(t testing.TB) store.Store

// RunTrouble runs what a journal must do on any store while that store fails: full
// disk, no right to write, a lock that is not had, contents of a newer version or
// of which nothing is left. How a store comes to fail is for its own tests.
func RunTrouble(t *testing.T, newStores func(t testing.TB) Stores) {
	for reason := store.Broken; reason <= store.Newer; reason++ {
		for _, c := range troubles {
			t.Run(fmt.Sprintf("%s: %s", reason, c.name), func(t *testing.T) {
				t.Parallel()
				r := &trouble{T: t, open: newStores(t), reason: reason, clock: &Clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
				r.sick = &sickStore{Store: r.open(t)}
				r.j = jobs.New(r.sick, jobs.Options{Now: r.clock.Now})
				t.Cleanup(func() { r.ok(r.j.Close(ctx)) })
				c.run(r)
				r.heal()
				r.ok(r.j.Flush(ctx))
				if err := r.j.Check(ctx); err != nil {
					t.Errorf("the journal contradicts itself: %v", err)
				}
			})
		}
	}
	t.Run("contents are lost", func(t *testing.T) {
		t.Parallel()
		contentsLost(t, newStores(t))
	})
}

var troubles = []struct {
	name string
	run  func(*trouble)
}{
	{"a call is not begun", refusedBegin},
	{"a call that may have been begun is not", uncertainBegin},
	{"an end is kept until it can be written", lateFinish},
	{"notes are kept until they can be written", lateNotes},
	{"looking says why it cannot", refusedLook},
	{"nothing is settled, claimed or pruned", refusedChanges},
}

type trouble struct {
	*testing.T
	open   Stores
	sick   *sickStore
	j      *jobs.Journal
	reason store.Reason
	clock  *Clock
}

// A sickStore fails while it is told to.
type sickStore struct {
	store.Store
	fails     atomic.Pointer[store.UnavailableError]
	uncertain atomic.Bool // it keeps the change, and does not know that it did
}

func (s *sickStore) Update(ctx context.Context, fn func(store.Tx) error) error {
	if e := s.fails.Load(); e != nil {
		return e
	}
	err := s.Store.Update(ctx, fn)
	if err == nil && s.uncertain.Load() {
		return fmt.Errorf("sync: %w", store.ErrUncertain)
	}
	return err
}

func (s *sickStore) View(ctx context.Context, fn func(store.Tx) error) error {
	if e := s.fails.Load(); e != nil {
		return e
	}
	return s.Store.View(ctx, fn)
}

func (s *sickStore) Tidy(ctx context.Context, wiped bool, named func(store.Tx, string) bool) (bool, error) {
	if e := s.fails.Load(); e != nil {
		return false, e
	}
	return s.Store.Tidy(ctx, wiped, named)
}

func (r *trouble) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *trouble) fail() { r.sick.fails.Store(&store.UnavailableError{Op: "test", Reason: r.reason}) }
func (r *trouble) heal() { r.sick.fails.Store(nil); r.sick.uncertain.Store(false) }

// refused wants the store's reason.
func (r *trouble) refused(err error) {
	r.Helper()
	var e *store.UnavailableError
	if !errors.As(err, &e) || e.Reason != r.reason {
		r.Fatalf("got error %v, want that of a store that is %s", err, r.reason)
	}
}

func (r *trouble) begin(arguments string) jobs.Job {
	r.Helper()
	b, err := r.j.Begin(ctx, call(arguments))
	if err != nil || b.Hold != jobs.NotHeld {
		r.Fatalf("begin: %v, %v", b.Hold, err)
	}
	return b.Job
}

func (r *trouble) count(want int) {
	r.Helper()
	list, err := r.j.List(ctx, jobs.Filter{})
	if err != nil || len(list) != want {
		r.Fatalf("%d jobs, %v; want %d", len(list), err, want)
	}
}

func refusedBegin(r *trouble) {
	r.begin(`{"n":1}`)
	r.fail()
	_, err := r.j.Begin(ctx, call(`{"n":2}`))
	r.refused(err)
	r.heal()
	r.count(1)
	r.begin(`{"n":2}`)
}

func uncertainBegin(r *trouble) {
	r.begin(`{"n":1}`)
	r.sick.uncertain.Store(true)
	if _, err := r.j.Begin(ctx, call(`{"n":2}`)); !errors.Is(err, store.ErrUncertain) {
		r.Fatal(err)
	}
	r.fail()
	r.refused(r.j.Flush(ctx))
	r.heal()
	r.ok(r.j.Flush(ctx))
	r.count(1)
}

func lateFinish(r *trouble) {
	job := r.begin(`{}`)
	r.fail()
	_, err := r.j.Finish(ctx, job.Handle, done(`"kept"`))
	r.refused(err)
	r.refused(r.j.Flush(ctx))
	r.heal()
	if now, err := r.j.Find(ctx, job.Handle); err != nil || now.State != jobs.Working {
		r.Fatalf("meanwhile it is %v, %v", now.State, err)
	}
	r.ok(r.j.Flush(ctx))
	if got, _, err := r.j.Result(ctx, job.Handle); err != nil || string(got) != `"kept"` {
		r.Fatalf("then its result is %s, %v", got, err)
	}
}

func lateNotes(r *trouble) {
	job := r.begin(`{}`)
	_, err := r.j.Finish(ctx, job.Handle, done(`{}`))
	r.ok(err)
	r.fail()
	r.j.Note(job.Handle, jobs.Note{Told: true})
	r.refused(r.j.Flush(ctx))
	r.heal()
	r.ok(r.j.Flush(ctx))
	if now, err := r.j.Find(ctx, job.Handle); err != nil || !now.Told {
		r.Fatalf("told %v, %v", now.Told, err)
	}
}

func refusedLook(r *trouble) {
	job := r.begin(`{}`)
	r.fail()
	_, err := r.j.Find(ctx, job.Handle)
	r.refused(err)
	_, err = r.j.List(ctx, jobs.Filter{})
	r.refused(err)
	_, err = r.j.Wait(ctx, job.Handle, job.Seen())
	r.refused(err)
	_, err = r.j.OwnerLost(ctx, job)
	r.refused(err)
}

func refusedChanges(r *trouble) {
	job := r.begin(`{}`)
	r.fail()
	_, err := r.j.GiveHandle(ctx, job.Handle)
	r.refused(err)
	_, err = r.j.Settle(ctx, job.Handle, job.Seen(), jobs.End{State: jobs.Failed, Evidence: jobs.StatusTool})
	r.refused(err)
	_, err = r.j.Claim(ctx, job.Handle, job.Owner)
	r.refused(err)
	_, err = r.j.Ask(ctx, job.Handle, jobs.AskCancel, nil)
	r.refused(err)
	_, err = r.j.Prune(ctx)
	r.refused(err)
	_, err = r.j.Forget(ctx, jobs.Account{}, true)
	r.refused(err)
	r.heal()
	if now, err := r.j.Find(ctx, job.Handle); err != nil || now.State != jobs.Working || now.HandleOut {
		r.Fatalf("it is %+v, %v", now, err)
	}
}

// contentsLost takes a store's contents away under two processes that own open
// jobs: both write theirs anew, with the arguments; what was settled is gone.
func contentsLost(t *testing.T, open Stores) {
	start := func() *jobs.Journal {
		j := jobs.New(open(t), jobs.Options{})
		t.Cleanup(func() {
			if err := j.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		return j
	}
	a, b := start(), start()
	r := &trouble{T: t, j: a}
	mine, settled := r.begin(`{"n":1}`), r.begin(`{"n":2}`)
	_, err := a.Finish(ctx, settled.Handle, done(`{}`))
	r.ok(err)
	r.j = b
	theirs := r.begin(`{"n":3}`)
	s := open(t)
	r.ok(s.Erase(ctx))
	r.ok(s.Close(false))
	_, err = a.Finish(ctx, mine.Handle, done(`{}`))
	r.ok(err)
	_, err = b.GiveHandle(ctx, theirs.Handle)
	r.ok(err)
	if got, err := a.Arguments(ctx, theirs.Handle); err != nil || string(got) != `{"n":3}` {
		t.Errorf("arguments of an open job: %s, %v", got, err)
	}
	if _, err := a.Find(ctx, settled.Handle); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("what was settled: %v", err)
	}
	r.count(2)
	if err := a.Check(ctx); err != nil {
		t.Errorf("the journal contradicts itself: %v", err)
	}
}
