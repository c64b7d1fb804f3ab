package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// maxInline is the largest body kept in a table; larger ones live beside it. A
// store whose tables hold large values gets slow for good once they are freed.
const maxInline = 64 << 10

// usualRow is room for the row of an ordinary job, in bytes.
const usualRow = 1400

// A txn is one look at, or change of, the journal. The first failure of the
// store sticks in err, as in a bufio.Writer; everything after is without
// meaning and the whole change is dropped.
type txn struct {
	tx  store.Tx
	j   *Journal
	now time.Time // by the wall clock; for time stamps
	due time.Time // the latest time that is certain to have come; for windows and limits

	sure bool   // the wall clock is not in doubt
	gen  string // generation of the store
	err  error

	before  map[Handle]stored  // the jobs read, as they are stored
	touched map[Handle]*record // jobs saved
	gone    []Handle           // jobs removed
	forget  []string           // bodies aside to discard after the change
	alive   map[string]bool    // owners looked at
}

// stored is how a job is stored.
type stored struct {
	filed bool
	rows  []entry // that the indexes have of a filed one

	arguments, result []byte // that stand in the row of a recent one
}

func (s stored) table() store.Table {
	if s.filed {
		return tableJobs
	}
	return tableRecent
}

func (t *txn) fail(err error) {
	if t.err == nil && err != nil {
		t.err = err
	}
}

func (t *txn) put(table store.Table, key, value []byte) { t.fail(t.tx.Put(table, key, value)) }
func (t *txn) delete(table store.Table, key []byte)     { t.fail(t.tx.Delete(table, key)) }

// job reads a record; ok is false if there is none.
func (t *txn) job(h Handle) (Job, bool) {
	if r, filed, ok := t.row(h); ok {
		return t.read(h, &r, filed)
	}
	return Job{}, false
}

// jobAt reads the record of the row with a key.
func (t *txn) jobAt(key []byte) (Job, bool) {
	if r, filed, ok := rowAt(t.tx, key); ok {
		return t.read(r.handle(), &r, filed)
	}
	return Job{}, false
}

func (t *txn) read(h Handle, r *row, filed bool) (j Job, ok bool) {
	if j, ok = t.j.records.get(h, r.text); !ok {
		decoded := new(Job)
		if err := json.Unmarshal(r.text, decoded); err != nil || decoded.Handle != h {
			t.fail(fmt.Errorf("%w: record of job %s", store.ErrDamaged, h))
			return Job{}, false
		}
		j = *decoded
	}
	s := stored{filed: filed, arguments: r.arguments, result: r.result}
	if filed {
		s.rows = j.entries()
	}
	t.before[h] = s
	return j, true
}

// find is job with the error that callers get.
func (t *txn) find(h Handle) (Job, error) {
	j, ok := t.job(h)
	if !ok {
		return Job{}, &NotFoundError{Handle: h, SetAside: t.tx.SetAside()}
	}
	return j, nil
}

// save writes a record and brings its index rows up to date. It first wipes
// what the record's state no longer allows to be kept.
func (t *txn) save(j *Job) {
	t.wipe(j)
	s := t.before[j.Handle]
	key, v := rowKey(j), make([]byte, 0, usualRow+len(s.arguments)+len(s.result))
	if s.filed {
		v = append(v, j.flags())
	} else {
		v = j.appendHead(v, s.arguments, s.result)
	}
	head := len(v)
	v, err := j.appendRecord(v)
	if err != nil {
		t.fail(fmt.Errorf("encode job %s: %w", j.Handle, err))
		return
	}
	if s.filed {
		t.put(tableJobs, key, v)
		s.rows = t.reindex(s.rows, j.entries())
	} else {
		t.putRecent(key, v)
	}
	if !j.Round.IsZero() {
		t.keepRound(j.Round, j.Handle)
	}
	t.before[j.Handle] = s
	t.touched[j.Handle] = &record{v[head:], j.clone()}
}

// keepRound sees to it that the round that a job waits for has a row, unless it is
// that of another job.
func (t *txn) keepRound(round Print, h Handle) {
	if t.tx.Get(tableRounds, round[:]) == nil {
		t.put(tableRounds, round[:], []byte(h))
	}
}

// reindex makes rows of indexes what they should be, and returns those.
func (t *txn) reindex(old, rows []entry) []entry {
	for _, e := range old {
		if !slices.ContainsFunc(rows, func(n entry) bool { return n.table == e.table && bytes.Equal(n.key, e.key) }) {
			t.delete(e.table, e.key)
		}
	}
	for _, e := range rows {
		if !slices.ContainsFunc(old, func(o entry) bool {
			return o.table == e.table && bytes.Equal(o.key, e.key) && bytes.Equal(o.value, e.value)
		}) {
			t.put(e.table, e.key, e.value)
		}
	}
	return rows
}

// remove deletes everything of a job.
func (t *txn) remove(j *Job) {
	t.dropBody(j, &j.Arguments, suffixArguments)
	t.dropBody(j, &j.Result, suffixResult)
	was := t.before[j.Handle]
	for _, e := range was.rows {
		t.delete(e.table, e.key)
	}
	if was.filed {
		t.delete(tableJobs, rowKey(j))
		t.delete(tableHandles, []byte(j.Handle))
	} else {
		t.deleteRecent(rowKey(j))
	}
	if k := j.KeyPrint; !k.IsZero() && string(t.tx.Get(tableKeys, k[:])) == string(j.Handle) {
		t.delete(tableKeys, k[:])
	}
	if !j.Round.IsZero() {
		t.dropRound(j, j.Round)
	}
	for _, round := range j.UsedRounds {
		t.dropRound(j, round)
	}
	t.dropAsks(j.Handle)
	t.gone = append(t.gone, j.Handle)
}

// wipe drops the bodies that a record may not keep any longer.
func (t *txn) wipe(j *Job) {
	if j.Arguments.Kept && !j.keepsArguments() {
		t.dropBody(j, &j.Arguments, suffixArguments)
	}
	if j.Result.Kept && j.State.Settled() && !j.resultUntil().After(t.due) {
		t.dropBody(j, &j.Result, suffixResult)
	}
}

func (t *txn) dropBody(j *Job, b *Body, suffix string) {
	if !b.Kept {
		return
	}
	if s := t.before[j.Handle]; b.inRow(s.filed) {
		*s.body(suffix) = nil
		t.before[j.Handle] = s
	} else if b.Aside != "" {
		t.forget = append(t.forget, b.Aside)
	} else {
		t.delete(tableBodies, bodyKey(j.Handle, suffix))
	}
	b.Kept, b.Aside = false, ""
	t.markWiped()
}

// keepBody stores a body, or names the one that was staged.
func (t *txn) keepBody(j *Job, b *Body, suffix string, content []byte, staged string) {
	*b = Body{Size: int64(len(content)), Kept: true, Aside: staged}
	if s := t.before[j.Handle]; b.inRow(s.filed) {
		*s.body(suffix) = content
		t.before[j.Handle] = s
	} else if b.Aside == "" {
		t.put(tableBodies, bodyKey(j.Handle, suffix), content)
	}
}

// getBody reads a body, of a job that was read, that is not beside the tables.
func (t *txn) getBody(h Handle, b *Body, suffix string) []byte {
	if s := t.before[h]; b.inRow(s.filed) {
		return *s.body(suffix)
	}
	return t.tx.Get(tableBodies, bodyKey(h, suffix))
}

// inRow reports whether a body stands in the row of its job.
func (b *Body) inRow(filed bool) bool {
	return !filed && b.Kept && b.Aside == "" && b.Size <= maxInRow
}

func (s *stored) body(suffix string) *[]byte {
	if suffix == suffixResult {
		return &s.result
	}
	return &s.arguments
}

func bodyKey(h Handle, suffix string) []byte { return []byte(string(h) + suffix) }

// lost reports whether an owner is gone; the answer holds for the whole txn.
func (t *txn) lost(owner string) bool {
	if owner == "" {
		return true
	}
	alive, known := t.alive[owner]
	if !known {
		alive = !t.j.store.Lost(owner)
		t.alive[owner] = alive
	}
	return !alive
}

// waited reports whether a living process has a host that waits for the job.
func (t *txn) waited(j *Job) bool { return j.Waiter != "" && !t.lost(j.Waiter) }
