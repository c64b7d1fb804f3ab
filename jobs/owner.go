package jobs

import (
	"bytes"
	"context"
	"fmt"
	"slices"
)

// Lost lists the open jobs of an account whose owner is gone, oldest first, at
// most limit.
func (j *Journal) Lost(ctx context.Context, a Account, limit int) ([]Job, error) {
	var list []Job
	err := j.view(ctx, func(t *txn) error {
		list = nil
		for _, k := range t.openLost() {
			if job, ok := t.jobAt(k); ok && job.Account == a {
				list = append(list, job)
			}
			if len(list) == limit {
				break
			}
		}
		return nil
	})
	return list, err
}

// openLost lists the keys of the open jobs whose owner is gone, oldest first.
func (t *txn) openLost() (keys [][]byte) {
	look := func(key []byte, b brief) {
		if b.valid() && b.open() && t.lost(string(b.owner())) {
			keys = append(keys, key)
		}
	}
	for r := range t.recents().newest() {
		look(r.key, r.brief)
	}
	for k, v := range t.tx.Scan(tableLive, nil) {
		look(k, v)
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys
}

// Claim makes a job ours whose owner is gone, from exactly the owner that the
// caller saw; whoever loses gets ErrStale and does nothing. The network is used
// only afterwards.
//
// A job with an upstream task or a stream that can be resumed stays open, and
// is for the caller to go on with. Any other becomes outcome_unknown: its
// record is older than its first byte and proves nothing.
func (j *Journal) Claim(ctx context.Context, h Handle, from string) (Job, error) {
	self, err := j.self(ctx)
	if err != nil {
		return Job{}, err
	}
	job, err := j.change(ctx, h, func(t *txn, job *Job) error {
		switch {
		case job.Owner != from:
			return fmt.Errorf("claim job %s: %w", h, ErrStale)
		case job.State.Settled():
			return fmt.Errorf("claim job %s: %w", h, ErrSettled)
		case !t.lost(from):
			return fmt.Errorf("claim job %s: %w", h, ErrNotLost)
		}
		t.takeOver(job, self)
		return nil
	})
	if err == nil && !job.State.Settled() {
		j.hold(job, nil)
	}
	return job, err
}

// takeOver makes self the owner of a job whose owner is gone. It reports
// whether there is something to go on with; if not, the outcome is unknown.
func (t *txn) takeOver(j *Job, self string) bool {
	if t.lost(j.Waiter) {
		j.Waiter = ""
	}
	j.Owner, j.UpdatedAt = self, t.now
	j.observe(t.now, "taken over", "its bridge is gone")
	if j.State == OutcomeUnknown || j.Resumable() {
		return j.State != OutcomeUnknown
	}
	if err := t.settle(j, j.Seen(), End{State: OutcomeUnknown, Evidence: BridgeLost, EndedBy: "bridge"}); err != nil {
		t.fail(err)
	}
	return false
}

// Resumable reports whether another process could go on with an open job: by
// upstream's task, its stream, or the next round of its host.
func (j *Job) Resumable() bool {
	return j.UpstreamTask != "" || len(j.SealedResume) > 0 || !j.Round.IsZero()
}

// OwnerLost reports whether a job is open and its owner gone.
func (j *Journal) OwnerLost(ctx context.Context, job Job) (lost bool, err error) {
	err = j.view(ctx, func(t *txn) error {
		lost = !job.State.Settled() && t.lost(job.Owner)
		return nil
	})
	return lost, err
}
