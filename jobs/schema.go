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
		rows = append(append(rows, entry{tableJobs, rowKey(&j), rowValue(&j, text)}), j.entries(true)...)
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

// A brief is the value of an index entry: enough to pass a job over without
// reading its record.
type brief struct {
	state     State
	handleOut bool
	owner     string
	waiter    string
}

func (j *Job) brief() brief {
	return brief{state: j.State, handleOut: j.HandleOut, owner: j.Owner, waiter: j.Waiter}
}

func (b brief) encode() []byte {
	v := []byte{byte(b.state), 0, byte(len(b.owner))}
	if b.handleOut {
		v[1] = 1
	}
	v = append(v, b.owner...)
	return append(v, b.waiter...)
}

func decodeBrief(v []byte) (brief, bool) {
	if len(v) < 3 || len(v) < 3+int(v[2]) {
		return brief{}, false
	}
	owner, waiter := v[3:3+int(v[2])], v[3+int(v[2]):]
	return brief{state: State(v[0]), handleOut: v[1] != 0, owner: string(owner), waiter: string(waiter)}, true
}

// An entry is one row that an index has for a job.
type entry struct {
	table store.Table
	key   []byte
	value []byte
}

// entries lists the rows of all indexes for a job; what they are follows from
// the record, and from whether it is filed.
func (j *Job) entries(filed bool) []entry {
	e := make([]entry, 0, 5)
	if filed {
		e = append(e, handleEntry(rowKey(j), j.Handle))
	}
	if at, ok := j.due(); ok {
		e = append(e, entry{tableDue, timeKey(at, j.Handle), []byte{}})
	}
	if j.live() {
		b := j.brief().encode()
		e = append(e,
			entry{tableLive, timeKey(j.CreatedAt, j.Handle), b},
			entry{tablePrints, printKey(j.Fingerprint, j.CreatedAt, j.Handle), b},
			entry{tablePrints, printKey(j.ToolPrint, j.CreatedAt, j.Handle), b})
	}
	return e
}
