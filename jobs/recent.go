package jobs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// The records of jobs that were begun last stand in a table of their own, and are
// filed among the others, with a row in the index of creation, many at a time. A
// turn that a host waits for changes few pages that way: those of a small table
// that each turn changes, not one here and there of a large one for each record.
const (
	recentRoom = 32  // jobs that are begun between two filings, at least
	maxRecent  = 512 // if more than that cannot be filed yet they are all the same
)

// Flags of a row of the table.
const (
	flagLasting = 1 << iota // see Job.lasting
	flagLive                // see Job.live
)

// A recentRow is a row of the table: what filing has to know of a record, and the
// record.
type recentRow struct {
	handle  Handle
	created time.Time
	flags   byte
	text    []byte
}

const recentHead = 8 + 1

// recentValue is the value of a job's row; text is its record.
func recentValue(j *Job, text []byte) []byte {
	var flags byte
	if j.lasting() {
		flags |= flagLasting
	}
	if j.live() {
		flags |= flagLive
	}
	v := make([]byte, 0, recentHead+len(text))
	v = binary.BigEndian.AppendUint64(v, uint64(max(j.CreatedAt.UnixNano(), 0)))
	return append(append(v, flags), text...)
}

func readRecent(k, v []byte) (recentRow, error) {
	if len(v) < recentHead {
		return recentRow{}, fmt.Errorf("%w: recent job %s", store.ErrDamaged, k)
	}
	return recentRow{
		handle:  Handle(k),
		created: time.Unix(0, int64(binary.BigEndian.Uint64(v))),
		flags:   v[8],
		text:    v[recentHead:],
	}, nil
}

// times is the row that the index of creation has for the record once it is filed.
func (r *recentRow) times() entry {
	e := entry{tableTimes, timeKey(r.created, r.handle), []byte{}}
	if r.flags&flagLasting != 0 {
		e.value = isLasting
	}
	return e
}

// recordText returns the record of a job, nil if there is none, and whether it is
// filed.
func recordText(tx store.Tx, h Handle) (text []byte, filed bool) {
	if v := tx.Get(tableRecent, []byte(h)); len(v) >= recentHead {
		return v[recentHead:], false
	}
	return tx.Get(tableJobs, []byte(h)), true
}

// recents lists the rows of the table.
func (t *txn) recents() []recentRow {
	var rows []recentRow
	for k, v := range t.tx.Scan(tableRecent, nil) {
		r, err := readRecent(k, v)
		if err != nil {
			t.fail(err)
			return nil
		}
		rows = append(rows, r)
	}
	return rows
}

// file files the recent records that which says yes to, and counts the rest.
func (t *txn) file(which func(*recentRow) bool) (left int) {
	for _, r := range t.recents() {
		if !which(&r) {
			left++
			continue
		}
		e := r.times()
		t.put(tableJobs, []byte(r.handle), r.text)
		t.put(e.table, e.key, e.value)
		t.delete(tableRecent, []byte(r.handle))
		if s, read := t.before[r.handle]; read {
			t.before[r.handle] = stored{rows: append(s.rows, e), filed: true}
		}
	}
	return left
}

func every(*recentRow) bool { return true }

// makeRoom takes a place among the recent records for one more.
func (t *txn) makeRoom() {
	room := uint64(recentRoom)
	if v := t.tx.Get(tableMarks, markRoom); len(v) == 8 {
		room = binary.BigEndian.Uint64(v)
	}
	if room == 0 {
		left := t.file(func(r *recentRow) bool { return r.flags&flagLive == 0 })
		if left > maxRecent {
			left = t.file(every)
		}
		room = recentRoom + uint64(left)
	}
	t.put(tableMarks, markRoom, binary.BigEndian.AppendUint64(nil, room-1))
}

// newest visits all jobs, the one that was created last first.
func (t *txn) newest() iter.Seq[Handle] {
	return func(yield func(Handle) bool) {
		var fresh []entry
		for _, r := range t.recents() {
			fresh = append(fresh, r.times())
		}
		slices.SortFunc(fresh, func(a, b entry) int { return bytes.Compare(b.key, a.key) })
		next := func(k []byte) bool {
			_, h, ok := splitTimeKey(k)
			return ok && yield(h)
		}
		for k := range t.tx.ScanBack(tableTimes, nil) {
			for len(fresh) > 0 && bytes.Compare(fresh[0].key, k) > 0 {
				if !next(fresh[0].key) {
					return
				}
				fresh = fresh[1:]
			}
			if !next(k) {
				return
			}
		}
		for _, e := range fresh {
			if !next(e.key) {
				return
			}
		}
	}
}
