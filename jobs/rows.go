package jobs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// Records stand by creation, so that those of one moment share pages: the last
// ones in a table of their own, the others, which are filed there many at a time,
// in a table that has an index of handles. A turn that a host waits for changes few
// pages that way: the last of a small table, not one here and there of a large one
// and of its index for each record.
const (
	recentRoom = 32  // jobs that are begun between two filings, at least
	maxRecent  = 512 // if more than that cannot be filed yet they are all the same
)

// Flags of a row of the tables.
const (
	flagLasting = 1 << iota // see Job.lasting
	flagLive                // see Job.live
)

// A row is one of the tables of records.
type row struct {
	key    []byte
	handle Handle
	flags  byte
	text   []byte // the record
}

func rowKey(j *Job) []byte { return timeKey(j.CreatedAt, j.Handle) }

// appendRow appends the value of a job's row, which is its flags and its record.
func (j *Job) appendRow(b []byte) ([]byte, error) { return j.appendRecord(append(b, j.flags())) }

// rowValue is appendRow for a record that is encoded already.
func rowValue(j *Job, text []byte) []byte { return append([]byte{j.flags()}, text...) }

func (j *Job) flags() (f byte) {
	if j.lasting() {
		f |= flagLasting
	}
	if j.live() {
		f |= flagLive
	}
	return f
}

func readRow(k, v []byte) (r row, ok bool) {
	_, h, ok := splitTimeKey(k)
	if !ok || len(v) == 0 {
		return row{}, false
	}
	return row{key: k, handle: h, flags: v[0], text: v[1:]}, true
}

// created is when the job of a row was created.
func (r *row) created() time.Time {
	at, _, _ := splitTimeKey(r.key)
	return at
}

// text returns the record of a job, nil if there is none, and whether it is filed.
func (t *txn) text(h Handle) (text []byte, filed bool) {
	key := t.recent[h]
	if key == nil {
		key = t.j.rowKey(h)
	}
	if text = recentText(t.tx, key); text != nil {
		return text, false
	}
	if text = filedText(t.tx, h); text != nil || t.recent != nil {
		return text, true
	}
	t.recents() // when it was created is not known here
	return recentText(t.tx, t.recent[h]), false
}

// recentText returns a record that is not filed, nil if there is none.
func recentText(tx store.Tx, key []byte) []byte {
	if key == nil {
		return nil
	}
	r, _ := readRow(key, tx.Get(tableRecent, key))
	return r.text
}

// filedText returns a record that is filed, nil if there is none.
func filedText(tx store.Tx, h Handle) []byte {
	at := tx.Get(tableHandles, []byte(h))
	if at == nil {
		return nil
	}
	key := append(bytes.Clone(at), h...)
	r, _ := readRow(key, tx.Get(tableJobs, key))
	return r.text
}

// handleEntry is the row that the index of handles has for a filed record.
func handleEntry(key []byte, h Handle) entry { return entry{tableHandles, []byte(h), key[:timeLength]} }

// recents lists the rows of records that are not filed, by creation, and remembers
// their keys.
func (t *txn) recents() []row {
	var rows []row
	t.recent = make(map[Handle][]byte)
	for k, v := range t.tx.Scan(tableRecent, nil) {
		r, ok := readRow(k, v)
		if !ok {
			t.fail(fmt.Errorf("%w: recent job %q", store.ErrDamaged, k))
			return nil
		}
		rows = append(rows, r)
		t.recent[r.handle] = r.key
	}
	return rows
}

// file files the recent records that which says yes to, and counts the rest.
func (t *txn) file(which func(*row) bool) (left int) {
	for _, r := range t.recents() {
		if !which(&r) {
			left++
			continue
		}
		e := handleEntry(r.key, r.handle)
		t.put(tableJobs, r.key, t.tx.Get(tableRecent, r.key))
		t.put(e.table, e.key, e.value)
		t.delete(tableRecent, r.key)
		if s, read := t.before[r.handle]; read {
			t.before[r.handle] = stored{rows: append(s.rows, e), filed: true}
		}
	}
	return left
}

func every(*row) bool { return true }

// makeRoom takes a place among the recent records for one more.
func (t *txn) makeRoom() {
	room := uint64(recentRoom)
	if v := t.tx.Get(tableMarks, markRoom); len(v) == 8 {
		room = binary.BigEndian.Uint64(v)
	}
	if room == 0 {
		left := t.file(func(r *row) bool { return r.flags&flagLive == 0 })
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
		for k := range t.tx.ScanBack(tableJobs, nil) {
			for len(fresh) > 0 && bytes.Compare(fresh[0].key, k) > 0 {
				if !yield(fresh[0].handle) {
					return
				}
				fresh = fresh[1:]
			}
			if _, h, ok := splitTimeKey(k); ok && !yield(h) {
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
	for k := range t.tx.Scan(tableHandles, []byte(prefix)) {
		if found = append(found, Handle(k)); len(found) > 1 {
			break
		}
	}
	return found[:min(len(found), 2)]
}
