package jobs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// The records of jobs that were begun last stand in a table of their own, by
// creation, and are filed among the others, by handle, many at a time. A turn that
// a host waits for changes few pages that way: the last of a small table, not one
// here and there of a large one for each record.
const (
	recentRoom = 32  // jobs that are begun between two filings, at least
	maxRecent  = 512 // if more than that cannot be filed yet they are all the same
)

// Flags of a row of the table.
const (
	flagLasting = 1 << iota // see Job.lasting
	flagLive                // see Job.live
)

// A recentRow is a row of the table. Its key is that of the row which the index of
// creation has once the record is filed.
type recentRow struct {
	key    []byte
	handle Handle
	flags  byte
	text   []byte
}

func recentKey(j *Job) []byte { return timeKey(j.CreatedAt, j.Handle) }

// recentValue is the value of a job's row; text is its record.
func recentValue(j *Job, text []byte) []byte {
	var flags byte
	if j.lasting() {
		flags |= flagLasting
	}
	if j.live() {
		flags |= flagLive
	}
	return append(append(make([]byte, 0, 1+len(text)), flags), text...)
}

func readRecent(k, v []byte) (r recentRow, ok bool) {
	_, h, ok := splitTimeKey(k)
	if !ok || len(v) == 0 {
		return recentRow{}, false
	}
	return recentRow{key: k, handle: h, flags: v[0], text: v[1:]}, true
}

// times is the row that the index of creation has for the record once it is filed.
func (r *recentRow) times() entry {
	e := entry{tableTimes, r.key, []byte{}}
	if r.flags&flagLasting != 0 {
		e.value = isLasting
	}
	return e
}

// text returns the record of a job, nil if there is none, and whether it is filed.
func (t *txn) text(h Handle) (text []byte, filed bool) {
	if key := t.j.records.key(h); key != nil {
		if r, ok := readRecent(key, t.tx.Get(tableRecent, key)); ok {
			return r.text, false
		}
	}
	return recordText(t.tx, h)
}

// recordText is text for whoever does not know when the job was created.
func recordText(tx store.Tx, h Handle) (text []byte, filed bool) {
	if text := tx.Get(tableJobs, []byte(h)); text != nil {
		return text, true
	}
	for k, v := range tx.Scan(tableRecent, nil) {
		if r, ok := readRecent(k, v); ok && r.handle == h {
			return r.text, false
		}
	}
	return nil, false
}

// recents lists the rows of the table, the job that was created first first.
func (t *txn) recents() []recentRow {
	var rows []recentRow
	for k, v := range t.tx.Scan(tableRecent, nil) {
		r, ok := readRecent(k, v)
		if !ok {
			t.fail(fmt.Errorf("%w: recent job %q", store.ErrDamaged, k))
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
		t.delete(tableRecent, r.key)
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
		fresh := t.recents()
		slices.Reverse(fresh)
		for k := range t.tx.ScanBack(tableTimes, nil) {
			for len(fresh) > 0 && bytes.Compare(fresh[0].key, k) > 0 {
				if !yield(fresh[0].handle) {
					return
				}
				fresh = fresh[1:]
			}
			if _, h, ok := splitTimeKey(k); !ok || !yield(h) {
				return
			}
		}
		for _, r := range fresh {
			if !yield(r.handle) {
				return
			}
		}
	}
}

// withPrefix lists the handles that begin so, two at most.
func (t *txn) withPrefix(prefix string) (found []Handle) {
	for _, r := range t.recents() {
		if strings.HasPrefix(string(r.handle), prefix) {
			found = append(found, r.handle)
		}
	}
	for k := range t.tx.Scan(tableJobs, []byte(prefix)) {
		if found = append(found, Handle(k)); len(found) > 1 {
			break
		}
	}
	return found[:min(len(found), 2)]
}
