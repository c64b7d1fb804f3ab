package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// Find returns a job by its handle; a *NotFoundError if there is none.
func (j *Journal) Find(ctx context.Context, h Handle) (Job, error) {
	var job Job
	err := j.view(ctx, func(t *txn) (err error) {
		job, err = t.find(h)
		return err
	})
	return job, err
}

// FindPrefix returns the one job whose handle begins with prefix (see
// ParsePrefix); ErrAmbiguous if there are more.
func (j *Journal) FindPrefix(ctx context.Context, prefix string) (Job, error) {
	var job Job
	err := j.view(ctx, func(t *txn) error {
		found := t.withPrefix(prefix)
		switch len(found) {
		case 0:
			return &NotFoundError{Handle: Handle(prefix), SetAside: t.tx.SetAside()}
		case 2:
			return fmt.Errorf("job %s: %w begins so", prefix, ErrAmbiguous)
		}
		var err error
		job, err = t.find(found[0])
		return err
	})
	return job, err
}

// A Filter says which jobs to list. Zero fields let everything pass.
type Filter struct {
	Server    string
	Principal string
	Tool      string
	Directory string  // the jobs started there; of others only those open or unknown
	States    []State // nil: any
	Attention bool    // only those open, unknown, or whose end nobody has
	Limit     int     // 0: 1,000
}

const maxList = 1000

// List returns jobs, newest first.
func (j *Journal) List(ctx context.Context, f Filter) ([]Job, error) {
	if f.Limit <= 0 {
		f.Limit = maxList
	}
	var list []Job
	err := j.view(ctx, func(t *txn) error {
		list = nil
		keys := t.newestIn(tableJobs, every)
		if f.Attention {
			keys = t.newestIn(tableLive, (*row).live)
		}
		for k := range keys {
			job, ok := t.jobAt(k)
			if t.err != nil {
				return t.err
			}
			if ok && f.pass(&job) { // a row that leads nowhere hides no other
				list = append(list, job)
			}
			if len(list) == f.Limit || ctx.Err() != nil {
				break
			}
		}
		return ctx.Err()
	})
	return list, err
}

func (f *Filter) pass(j *Job) bool {
	switch {
	case f.Server != "" && j.Server != f.Server,
		f.Principal != "" && j.Principal != f.Principal,
		f.Tool != "" && j.Tool != f.Tool,
		f.Directory != "" && j.Directory != f.Directory && j.State.Settled():
		return false
	case f.States == nil:
		return true
	}
	for _, s := range f.States {
		if j.State == s {
			return true
		}
	}
	return false
}

// watchEvery is how often the store is looked at for changes of others.
const watchEvery = 200 * time.Millisecond

// Wait returns a job when it is no longer what the caller saw, or is settled.
// If ctx ends first it returns the job as it last was, and ctx's error.
func (j *Journal) Wait(ctx context.Context, h Handle, seen Seen) (Job, error) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var job Job
	for {
		here := j.changes()
		stamp, err := j.store.Stamp()
		if err != nil {
			return job, err
		}
		latest, err := j.Find(ctx, h)
		if err != nil {
			return job, err
		}
		if job = latest; job.Seen() != seen || job.State.Settled() {
			return job, nil
		}
		if err := j.nextChange(ctx, here, stamp, tick.C); err != nil {
			return job, err
		}
	}
}

// changes returns a channel that is closed at the next change that this process
// makes.
func (j *Journal) changes() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.changed
}

// nextChange waits until this process or another may have changed something.
func (j *Journal) nextChange(ctx context.Context, here <-chan struct{}, was store.Stamp, tick <-chan time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-here:
			return nil
		case <-tick:
			if now, err := j.store.Stamp(); err != nil || now != was {
				return err
			}
		}
	}
}

// ReadEnd marks that a settled job's end was read by handle. It rides with the
// next change.
func (j *Journal) ReadEnd(h Handle) { j.Note(h, Note{Read: true}) }
