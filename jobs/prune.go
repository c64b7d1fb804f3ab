package jobs

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

const (
	pruneEvery = time.Hour      // at most once in, per journal
	pruneSlice = 500            // jobs in one change
	wipeWithin = 24 * time.Hour // wiped content leaves the disk within
)

// Pruned says what a prune did.
type Pruned struct {
	Skipped   bool // another one was less than an hour ago, or the clock is in doubt
	Removed   int  // records
	Wiped     int  // bodies of records that stay
	Rewritten bool // the store was compacted
}

// Prune removes what has expired, at most 500 jobs a change, and at most once
// an hour per journal; then it gives back space.
func (j *Journal) Prune(ctx context.Context) (Pruned, error) {
	var total Pruned
	for first := true; ; first = false {
		slice, more, err := j.pruneSlice(ctx, first)
		if err != nil || slice.Skipped {
			total.Skipped = slice.Skipped
			return total, err
		}
		total.Removed += slice.Removed
		total.Wiped += slice.Wiped
		if !more {
			break
		}
	}
	var err error
	total.Rewritten, err = j.tidy(ctx)
	return total, err
}

func (j *Journal) pruneSlice(ctx context.Context, first bool) (p Pruned, more bool, err error) {
	err = j.update(ctx, func(t *txn) error {
		p, more = Pruned{}, false
		if !t.sure || first && t.due.Sub(readMark(t.tx, markPruned)) < pruneEvery {
			p.Skipped = true
			return nil
		}
		if first {
			t.setMark(markPruned, t.due)
		}
		list := t.expired()
		for _, e := range list {
			t.pruneOne(e, &p)
		}
		more = len(list) == pruneSlice
		return nil
	})
	return p, more, err
}

// An expired job is one that something is due for, and the row that says so.
type expired struct {
	handle Handle
	table  store.Table
	key    []byte
}

// expired lists the jobs that something is due for.
func (t *txn) expired() []expired {
	t.file(func(r *row) bool { return r.flags&flagLasting != 0 || t.due.Sub(r.created()) > ordinaryLife })
	t.index()
	var list []expired
	for k := range t.tx.Scan(tableDue, nil) {
		at, h, ok := splitTimeKey(k)
		if !ok {
			continue // a damaged row hides no other
		}
		if at.After(t.due) || len(list) == pruneSlice {
			break
		}
		list = append(list, expired{h, tableDue, k})
	}
	for k, v := range t.tx.Scan(tableJobs, nil) {
		r, ok := readFiled(k, v)
		if !ok {
			continue
		}
		if r.created().Add(ordinaryLife+RecordLife).After(t.due) || len(list) == pruneSlice {
			break
		}
		if r.flags&flagLasting == 0 {
			list = append(list, expired{r.handle(), tableJobs, k})
		}
	}
	return list
}

func (t *txn) pruneOne(e expired, p *Pruned) {
	j, ok := t.job(e.handle)
	if !ok { // removed just now, or nothing leads to it any more: it must not come again
		t.delete(e.table, e.key)
		return
	}
	switch {
	case !j.State.Settled() && j.State != OutcomeUnknown && !t.lost(j.Owner):
		j.UpdatedAt = t.due // still in somebody's hands: look again in a month
		t.save(&j)
	case !j.ExpiresAt().After(t.due):
		t.remove(&j)
		p.Removed++
	default:
		t.save(&j) // wipes
		p.Wiped++
	}
}

// tidy gives back space, and sees to it that what was wiped leaves the disk.
func (j *Journal) tidy(ctx context.Context) (bool, error) {
	wiped := false
	err := j.view(ctx, func(t *txn) error {
		at := readMark(t.tx, markWiped)
		wiped = !at.IsZero() && t.due.Sub(at) >= wipeWithin
		return nil
	})
	if err != nil {
		return false, err
	}
	rewritten, err := j.store.Tidy(ctx, wiped, j.named)
	if err != nil || !rewritten {
		return rewritten, err
	}
	return true, j.update(ctx, func(t *txn) error {
		t.delete(tableMarks, markWiped)
		return nil
	})
}

// named reports whether a job names an owner, or a body beside the tables. What
// cannot be read may.
func (j *Journal) named(tx store.Tx, name string) bool {
	t := j.newTxn(tx)
	if h, _, body := strings.Cut(name, "."); body {
		r, _, ok := t.row(Handle(h))
		return t.err != nil || ok && bytes.Contains(r.text, []byte(name))
	}
	for _, v := range tx.Scan(tableLive, nil) {
		if brief(v).names(name) {
			return true
		}
	}
	for r := range t.recents().newest() {
		if r.brief.names(name) {
			return true
		}
	}
	return t.err != nil
}

// names reports whether an owner is one of a job that is not settled.
func (b brief) names(owner string) bool {
	return b.valid() && (string(b.owner()) == owner || string(b.waiter()) == owner) && !b.state().Settled()
}

// Forgotten says what Forget did.
type Forgotten struct {
	Removed int
	Kept    int // open or unknown, and not to be removed
}

// Forget removes the jobs of an account; those that are open or unknown only if
// that is said, for nothing holds a repeat of their calls back any more. An empty
// account is all of them, with everything that was set aside if none is kept.
func (j *Journal) Forget(ctx context.Context, a Account, open bool) (Forgotten, error) {
	var total Forgotten
	for {
		var slice Forgotten
		err := j.update(ctx, func(t *txn) error {
			var list []Handle
			list, slice.Kept = t.ofAccount(a, open)
			for _, h := range list {
				if job, ok := t.job(h); ok {
					t.remove(&job)
				}
			}
			slice.Removed = len(list)
			return nil
		})
		if err != nil {
			return total, err
		}
		total.Removed, total.Kept = total.Removed+slice.Removed, slice.Kept
		if slice.Removed < pruneSlice {
			break
		}
	}
	if a == (Account{}) && total.Kept == 0 {
		return total, j.store.Erase(ctx)
	}
	_, err := j.store.Tidy(ctx, true, j.named)
	return total, err
}

// ofAccount lists the oldest jobs of an account, and counts those that are passed
// over on the way because they are not settled.
func (t *txn) ofAccount(a Account, open bool) (list []Handle, kept int) {
	t.file(every)
	t.index()
	for k := range t.tx.Scan(tableJobs, nil) {
		job, ok := t.jobAt(k)
		switch {
		case !ok || a != (Account{}) && job.Account != a:
			continue
		case !open && !job.State.Settled():
			kept++
			continue
		}
		if list = append(list, job.Handle); len(list) == pruneSlice {
			break
		}
	}
	return list, kept
}
