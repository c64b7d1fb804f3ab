package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// An End is what a job came to, or why nobody can say.
type End struct {
	State    State // Completed, Failed, Cancelled or OutcomeUnknown
	Effect   Effect
	Evidence Evidence
	EndedBy  string // host, bridge, upstream or network
	Note     string // one line for the timeline, without content

	Result []byte // exactly as upstream gave it; nil if there is none
	Kind   Kind   // what Result is

	Deliveries int

	HandleOut bool // the host is told of the end with the handle

	staged string // name of the result beside the tables
}

func (e *End) check() error {
	switch {
	case !e.State.Settled() && e.State != OutcomeUnknown:
		return fmt.Errorf("end job: %s is no end", e.State)
	case (e.Kind == NoResult) != (e.Result == nil):
		return errors.New("end job: a result needs a kind, and a kind a result")
	}
	return nil
}

// Finish records the end of a job that this process owns. It is called before
// the host is told.
//
// ErrSettled means that the job had ended before (somebody resolved it):
// the end is in its timeline, and sets Conflict if it contradicts what was
// said. ErrNotOwner means that another process has taken the job over; the end
// is in its timeline then. In both cases the returned job is what the journal
// says. After any other error the end is kept in memory and tried again: the
// true answer beats the durable one.
func (j *Journal) Finish(ctx context.Context, h Handle, e End) (Job, error) {
	if err := e.check(); err != nil {
		return Job{}, err
	}
	var job Job
	var err error
	if e.staged, err = j.stage(ctx, h, suffixResult, e.Result); err == nil {
		err = j.update(ctx, func(t *txn) (err error) {
			if job, err = t.find(h); err != nil {
				return err
			}
			err = t.end(&job, e)
			t.save(&job)
			return err
		})
	}
	var unavailable *store.UnavailableError
	switch {
	case errors.Is(err, ErrNotOwner):
		j.letGo(h)
		j.unstage(e.staged)
	case errors.Is(err, ErrSettled):
		j.letGo(h)
		j.unstage(e.staged)
	case errors.As(err, &unavailable), errors.Is(err, store.ErrUncertain), ctx.Err() != nil && err != nil:
		j.addNote(h, Note{end: &e}, noteDelay)
	}
	return job, err
}

// letGo forgets a job that is not ours any more.
func (j *Journal) letGo(h Handle) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.mine, h)
}

// end is Finish inside a transaction.
func (t *txn) end(j *Job, e End) error {
	j.Deliveries = max(j.Deliveries, e.Deliveries)
	if !j.State.Settled() && !t.j.owns(j) {
		t.evidence(j, e, "late end from a former owner")
		return fmt.Errorf("job %s: %w", j.Handle, ErrNotOwner)
	}
	return t.settle(j, j.Seen(), e)
}

// owns reports whether this process is a job's owner.
func (j *Journal) owns(job *Job) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	m, ok := j.mine[job.Handle]
	return ok && m.job.Owner == job.Owner
}

// settle applies an end to a job that the caller saw like that. The first
// settled state stays; what comes later is evidence.
func (t *txn) settle(j *Job, seen Seen, e End) error {
	if err := j.move(e.State, seen, t.now); err != nil {
		if errors.Is(err, ErrSettled) {
			t.evidence(j, e, "later evidence")
		}
		return err
	}
	j.Effect, j.Evidence, j.EndedBy = e.Effect, e.Evidence, e.EndedBy
	j.Questions = nil
	t.useRound(j)
	if e.State == OutcomeUnknown {
		j.Waiter = "" // who waited is told so, or is gone
	}
	j.HandleOut = j.HandleOut || e.HandleOut
	if e.Result != nil && e.State.Settled() {
		t.keepBody(j, &j.Result, suffixResult, e.Result, e.staged)
		j.ResultKind = e.Kind
	}
	j.observe(t.now, e.State.String(), note(e))
	return nil
}

func note(e End) string {
	s := string(e.Evidence)
	if e.Note != "" {
		s += ": " + e.Note
	}
	return s
}

// evidence notes an end that cannot move the job any more.
func (t *txn) evidence(j *Job, e End, what string) {
	j.observe(t.now, what, e.State.String()+", "+note(e))
	j.UpdatedAt = t.now
	said, saidKnown := happened(j.State, j.Effect, j.Resolution)
	now, nowKnown := happened(e.State, e.Effect, "")
	if j.State.Settled() && saidKnown && nowKnown && said != now {
		j.Conflict = true
	}
}

// happened reads from an end whether the call was carried out; known is false
// if the end leaves that open.
func happened(s State, e Effect, resolution string) (yes, known bool) {
	switch {
	case s == Completed:
		return true, true
	case s == Failed && (e == None || resolution == string(DidNotHappen)):
		return false, true
	}
	return false, false
}

// Settle moves a job by evidence of somebody who is not its owner: a status
// tool, an upstream task. It is a compare-and-set on what the caller saw
// (ErrStale), and like Finish leaves a settled job as it is (ErrSettled).
func (j *Journal) Settle(ctx context.Context, h Handle, seen Seen, e End) (Job, error) {
	if err := e.check(); err != nil {
		return Job{}, err
	}
	var err error
	if e.staged, err = j.stage(ctx, h, suffixResult, e.Result); err != nil {
		return Job{}, err
	}
	job, err := j.change(ctx, h, func(t *txn, job *Job) error { return t.settle(job, seen, e) })
	if errors.Is(err, ErrSettled) || errors.Is(err, ErrStale) || errors.Is(err, ErrNotFound) {
		j.unstage(e.staged)
	}
	return job, err
}

// change runs fn on a job and saves it, also if fn refuses.
func (j *Journal) change(ctx context.Context, h Handle, fn func(*txn, *Job) error) (Job, error) {
	var job Job
	err := j.update(ctx, func(t *txn) (err error) {
		if job, err = t.find(h); err != nil {
			return err
		}
		err = fn(t, &job)
		t.save(&job)
		return err
	})
	return job, err
}
