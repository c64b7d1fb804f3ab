package jobs

import (
	"encoding/binary"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// Keys of the marks table; each value is a time in nanoseconds, big endian, but
// for that of markIndexed, which is the key of a job.
var (
	markClock  = []byte("clock")  // latest time that was certain
	markAhead  = []byte("ahead")  // first reading of a clock that is far ahead
	markPruned = []byte("pruned") // last prune
	markWiped  = []byte("wiped")  // oldest content that was wiped and may still be in free pages

	markIndexed = []byte("indexed") // the last job that the index of handles has
)

const (
	clockJump  = 24 * time.Hour // further ahead than this is in doubt
	clockAgree = time.Hour      // a reading this much later confirms it
	clockStep  = time.Second    // smaller advances are not written down
)

// readMark returns a mark; zero if it is not set.
func readMark(tx store.Tx, key []byte) time.Time {
	v := tx.Get(tableMarks, key)
	if len(v) != 8 {
		return time.Time{}
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(v)))
}

func (t *txn) setMark(key []byte, at time.Time) {
	t.put(tableMarks, key, binary.BigEndian.AppendUint64(nil, uint64(at.UnixNano())))
}

// A clock is what the journal remembers of time.
type clock struct {
	kept  time.Time // latest certain time; zero in a new journal
	ahead time.Time // first reading far ahead of it; zero if there is none
}

// judge takes a reading of the wall clock. It returns what to remember, the
// latest time certain to have come, and whether the reading is not in doubt.
//
// A clock that is behind is not believed: the kept time counts. One that is
// more than a day ahead lifts no guard and prunes nothing until a second
// reading, an hour later, agrees; a machine that slept for a weekend pays an
// hour of patience for that.
func (c clock) judge(wall time.Time) (next clock, certain time.Time, sure bool) {
	switch {
	case c.kept.IsZero():
		return clock{kept: wall}, wall, true
	case wall.Before(c.kept):
		return clock{kept: c.kept}, c.kept, true
	case !wall.After(c.kept.Add(clockJump)):
		return clock{kept: wall}, wall, true
	case c.ahead.IsZero(), wall.Before(c.ahead):
		return clock{kept: c.kept, ahead: wall}, c.kept, false
	case wall.Before(c.ahead.Add(clockAgree)):
		return c, c.kept, false
	}
	return clock{kept: wall}, wall, true
}

// readClock sets the times of a txn; write says that it may write them down.
func (t *txn) readClock(write bool) {
	t.now = t.j.opts.Now().Round(0).UTC()
	was := clock{kept: readMark(t.tx, markClock), ahead: readMark(t.tx, markAhead)}
	next, certain, sure := was.judge(t.now)
	t.due, t.sure = certain.UTC(), sure
	if !write {
		return
	}
	if next.kept.Sub(was.kept) >= clockStep {
		t.setMark(markClock, next.kept)
	}
	switch {
	case next.ahead.Equal(was.ahead):
	case next.ahead.IsZero():
		t.delete(tableMarks, markAhead)
	default:
		t.setMark(markAhead, next.ahead)
	}
}

func (t *txn) markWiped() {
	if readMark(t.tx, markWiped).IsZero() {
		t.setMark(markWiped, t.now)
	}
}
