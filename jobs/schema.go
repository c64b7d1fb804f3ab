package jobs

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// The tables of a journal; doc.go draws them.
const (
	tableMarks   store.Table = "marks"
	tableJobs    store.Table = "jobs"
	tableRecent  store.Table = "recent"
	tableHandles store.Table = "handles"
	tableBodies  store.Table = "bodies"
	tableLive    store.Table = "live"
	tablePrints  store.Table = "prints"
	tableDue     store.Table = "due"
	tableKeys    store.Table = "keys"
	tableRounds  store.Table = "rounds"
	tableAsks    store.Table = "asks"
)

// Schema is what a journal's store holds.
func Schema() store.Schema {
	return store.Schema{
		Tables: []store.Table{tableMarks, tableRecent, tableJobs, tableHandles, tableBodies, tableLive,
			tablePrints, tableDue, tableKeys, tableRounds, tableAsks},
		Growing:    []store.Table{tableRecent, tableJobs, tableLive},
		Migrations: migrations(),
	}
}

// migrations lists the change from each version of the schema to the next. The
// tables themselves are made before; a migration moves what is in them.
func migrations() []func(store.Tx) error {
	return []func(store.Tx) error{
		func(store.Tx) error { return nil }, // 0 to 1: a new journal
		byCreation,
		oneRow,
	}
}

// byCreation goes from version 1, in which records stood by handle, with a row for
// each in due and in times, to 2.
func byCreation(tx store.Tx) error {
	const times store.Table = "times"
	old := make(map[Handle][]byte)
	for k, v := range tx.Scan(tableJobs, nil) {
		old[Handle(k)] = v
	}
	var dues [][]byte
	for k := range tx.Scan(tableDue, nil) {
		dues = append(dues, k)
	}
	var errs []error
	for _, k := range dues {
		errs = append(errs, tx.Delete(tableDue, k))
	}
	var rows []entry
	for h, text := range old {
		var j Job
		if err := json.Unmarshal(text, &j); err != nil {
			return fmt.Errorf("%w: record of job %s", store.ErrDamaged, h)
		}
		errs = append(errs, tx.Delete(tableJobs, []byte(h)), tx.Delete(times, rowKey(&j)))
		rows = append(rows, entry{tableJobs, rowKey(&j), j.filedRow(text)}, handleEntry(rowKey(&j)))
		rows = append(rows, j.entries()...)
	}
	// In order: rows that come one before the other cost a store more the more they are.
	slices.SortFunc(rows, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.table, b.table), bytes.Compare(a.key, b.key))
	})
	for _, e := range rows {
		errs = append(errs, tx.Put(e.table, e.key, e.value))
	}
	return errors.Join(errs...)
}

// oneRow goes from version 2, in which recent records had rows in every index but
// that of handles, which had every filed one, to 3: it files them.
func oneRow(tx store.Tx) error {
	var rows []entry
	for k, v := range tx.Scan(tableRecent, nil) {
		rows = append(rows, entry{tableJobs, k, v})
	}
	var errs []error
	for _, e := range rows {
		if len(e.key) <= timeLength {
			return fmt.Errorf("%w: recent job %q", store.ErrDamaged, e.key)
		}
		at := handleEntry(e.key)
		errs = append(errs, tx.Put(e.table, e.key, e.value), tx.Put(at.table, at.key, at.value),
			tx.Delete(tableRecent, e.key))
	}
	for k := range tx.ScanBack(tableJobs, nil) {
		errs = append(errs, tx.Put(tableMarks, markIndexed, k))
		break
	}
	return errors.Join(append(errs, tx.Delete(tableMarks, []byte("room")))...)
}

// Suffixes of a handle in the bodies table, and of a body's name aside.
const (
	suffixArguments = ".arguments"
	suffixResult    = ".result"
)

// timeLength is the length of a time in a key.
const timeLength = 8

// timeKey orders by time, then by handle.
func timeKey(t time.Time, h Handle) []byte {
	k := make([]byte, 0, timeLength+handleLength)
	k = binary.BigEndian.AppendUint64(k, uint64(max(t.UnixNano(), 0)))
	return append(k, h...)
}

// splitTimeKey undoes timeKey.
func splitTimeKey(k []byte) (time.Time, Handle, bool) {
	if len(k) < timeLength {
		return time.Time{}, "", false
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(k))), Handle(k[timeLength:]), true
}

// printKey orders by print, then by time, then by handle.
func printKey(p Print, t time.Time, h Handle) []byte {
	return append(bytes.Clone(p[:]), timeKey(t, h)...)
}

// A brief is what an index says of a job: enough to pass it over without reading
// its record.
type brief []byte

func (j *Job) brief() brief {
	b := append(make(brief, 0, 3+len(j.Owner)+len(j.Waiter)), byte(j.State), 0, byte(len(j.Owner)))
	if j.HandleOut {
		b[1] = 1
	}
	return append(append(b, j.Owner...), j.Waiter...)
}

func (b brief) valid() bool     { return len(b) >= 3 && len(b) >= 3+int(b[2]) }
func (b brief) state() State    { return State(b[0]) }
func (b brief) open() bool      { return b.state() == Working || b.state() == InputRequired }
func (b brief) handleOut() bool { return b[1] != 0 }
func (b brief) owner() []byte   { return b[3 : 3+int(b[2])] }
func (b brief) waiter() []byte  { return b[3+int(b[2]):] }

// An entry is one row of a table.
type entry struct {
	table store.Table
	key   []byte
	value []byte
}

// entries lists the rows of all indexes but that of handles for a filed job; what
// they are follows from the record.
func (j *Job) entries() []entry {
	e := make([]entry, 0, 4)
	if at, ok := j.due(); ok {
		e = append(e, entry{tableDue, timeKey(at, j.Handle), []byte{}})
	}
	if j.live() {
		b := j.brief()
		e = append(e,
			entry{tableLive, timeKey(j.CreatedAt, j.Handle), b},
			entry{tablePrints, printKey(j.Fingerprint, j.CreatedAt, j.Handle), b},
			entry{tablePrints, printKey(j.ToolPrint, j.CreatedAt, j.Handle), b})
	}
	return e
}
