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
// ones in a table of their own, where the row of a job has its small bodies too and
// what the indexes would say of it, the others, which are filed many at a time, in a
// table that has indexes. A turn that a host waits for changes few pages that way.
// Who looks for jobs in an index looks through the recent ones too, of which there
// are few.
const (
	recentRoom = 32  // recent jobs that need nobody any more, before they are filed
	maxRecent  = 128 // recent jobs that still need somebody, before all are filed
)

// Flags of a row of the tables.
const (
	flagLasting = 1 << iota // see Job.lasting
	flagLive                // see Job.live
	flagMore                // of a recent job: filing it takes more than to move its record
)

// maxInRow is the largest body that stands in the row of a recent job, in bytes.
const maxInRow = 1 << 10

// A row is one of the tables of records.
type row struct {
	key   []byte
	flags byte
	text  []byte // the record

	// Of a recent job: what the indexes say of a filed one, and its small bodies.
	brief             brief
	prints            []byte // of the call and of the tool
	arguments, result []byte
}

func rowKey(j *Job) []byte { return timeKey(j.CreatedAt, j.Handle) }

// handle names the job of a row.
func (r *row) handle() Handle { return Handle(r.key[timeLength:]) }

// created is when the job of a row was created.
func (r *row) created() time.Time {
	at, _, _ := splitTimeKey(r.key)
	return at
}

func (r *row) live() bool { return r.flags&flagLive != 0 }

// has reports whether a print is that of the job's call or of its tool.
func (r *row) has(p *Print) bool {
	return bytes.Equal(r.prints[:len(p)], p[:]) || bytes.Equal(r.prints[len(p):], p[:])
}

func (j *Job) flags() (f byte) {
	if j.lasting() {
		f |= flagLasting
	}
	if j.live() {
		f |= flagLive
	}
	return f
}

// filedRow is the value of the row of a filed job.
func (j *Job) filedRow(text []byte) []byte { return append([]byte{j.flags()}, text...) }

func readFiled(k, v []byte) (r row, ok bool) {
	if len(k) <= timeLength || len(v) == 0 {
		return row{}, false
	}
	return row{key: k, flags: v[0], text: v[1:]}, true
}

// appendHead begins the value of the row of a recent job; its record comes next.
func (j *Job) appendHead(b, arguments, result []byte) []byte {
	f := j.flags()
	if _, due := j.due(); due || j.live() || j.Arguments.inRow(false) || j.Result.inRow(false) {
		f |= flagMore
	}
	b = appendSized(append(b, f), j.brief())
	b = append(append(b, j.Fingerprint[:]...), j.ToolPrint[:]...)
	return appendSized(appendSized(b, arguments), result)
}

func appendSized(b, text []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func readRecent(k, v []byte) (r row, ok bool) {
	r, ok = readFiled(k, v)
	if !ok {
		return row{}, false
	}
	rest := r.text
	if r.brief, rest, ok = cutSized(rest); !ok || !r.brief.valid() || len(rest) < 2*len(Print{}) {
		return row{}, false
	}
	r.prints, rest = rest[:2*len(Print{})], rest[2*len(Print{}):]
	if r.arguments, rest, ok = cutSized(rest); !ok {
		return row{}, false
	}
	r.result, r.text, ok = cutSized(rest)
	return r, ok
}

func cutSized(b []byte) (text, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	return b[size : size+int(n)], b[size+int(n):], true
}

// row returns the row of a job, and whether it is filed; ok is false if there is
// none.
func (t *txn) row(h Handle) (r row, filed, ok bool) {
	if r, filed, ok = rowAt(t.tx, t.j.rowKey(h)); ok {
		return r, filed, true
	}
	if at := t.tx.Get(tableHandles, []byte(h)); at != nil {
		return rowAt(t.tx, append(bytes.Clone(at), h...))
	}
	for r := range t.recents().newest() {
		if string(r.key[timeLength:]) == string(h) {
			return *r, false, true
		}
	}
	for k := range unindexed(t.tx) {
		if string(k[timeLength:]) == string(h) {
			return rowAt(t.tx, k)
		}
	}
	return row{}, false, false
}

// rowAt reads the row with a key.
func rowAt(tx store.Tx, key []byte) (r row, filed, ok bool) {
	if key == nil {
		return row{}, false, false
	}
	if r, ok = readRecent(key, tx.Get(tableRecent, key)); ok {
		return r, false, true
	}
	r, ok = readFiled(key, tx.Get(tableJobs, key))
	return r, true, ok
}

// recents are the rows of the jobs that are not filed, by creation. They are read
// once in a store.Tx, whose functions look through them one after the other.
type recents struct{ rows []row }

func (t *txn) recents() *recents {
	memo := t.tx.Memo()
	if known, ok := (*memo).(*recents); ok {
		return known
	}
	list := &recents{}
	for k, v := range t.tx.Scan(tableRecent, nil) {
		r, ok := readRecent(k, v)
		if !ok {
			t.fail(fmt.Errorf("%w: recent job %q", store.ErrDamaged, k))
			return &recents{}
		}
		list.rows = append(list.rows, r)
	}
	*memo = list
	return list
}

func (l *recents) find(key []byte) (i int, ok bool) {
	return slices.BinarySearchFunc(l.rows, key, func(r row, key []byte) int { return bytes.Compare(r.key, key) })
}

// newest visits the rows, the one that was created last first. They must not be
// changed meanwhile.
func (l *recents) newest() iter.Seq[*row] {
	return func(yield func(*row) bool) {
		for i := len(l.rows) - 1; i >= 0; i-- {
			if !yield(&l.rows[i]) {
				return
			}
		}
	}
}

// putRecent and deleteRecent change the row of a job that is not filed.
func (t *txn) putRecent(key, value []byte) {
	t.put(tableRecent, key, value)
	list, ok := (*t.tx.Memo()).(*recents)
	if !ok {
		return
	}
	r, ok := readRecent(key, value)
	if !ok {
		t.fail(fmt.Errorf("row of job %s cannot be read again", key[timeLength:]))
		return
	}
	if i, ok := list.find(key); ok {
		list.rows[i] = r
	} else {
		list.rows = slices.Insert(list.rows, i, r)
	}
}

func (t *txn) deleteRecent(key []byte) {
	t.delete(tableRecent, key)
	if list, ok := (*t.tx.Memo()).(*recents); ok {
		if i, ok := list.find(key); ok {
			list.rows = slices.Delete(list.rows, i, i+1)
		}
	}
}

// file files the recent jobs that which says yes to.
func (t *txn) file(which func(*row) bool) {
	var rows []row
	for r := range t.recents().newest() {
		if which(r) {
			rows = append(rows, *r)
		}
	}
	for _, r := range slices.Backward(rows) {
		t.fileOne(&r)
	}
}

func (t *txn) fileOne(r *row) {
	h := r.handle()
	var rows []entry
	if r.flags&flagMore != 0 {
		j, ok := t.jobAt(r.key)
		if !ok {
			return // the row is damaged, which t.err says
		}
		rows = j.entries()
		if j.Arguments.inRow(false) {
			t.put(tableBodies, bodyKey(h, suffixArguments), r.arguments)
		}
		if j.Result.inRow(false) {
			t.put(tableBodies, bodyKey(h, suffixResult), r.result)
		}
	}
	t.put(tableJobs, r.key, append([]byte{r.flags &^ flagMore}, r.text...))
	t.deleteRecent(r.key)
	for _, e := range rows {
		t.put(e.table, e.key, e.value)
	}
	if isIndexed(t.tx, r.key) {
		e := handleEntry(r.key)
		t.put(e.table, e.key, e.value)
	}
	if _, read := t.before[h]; read {
		t.before[h] = stored{filed: true, rows: rows}
	}
}

func every(*row) bool { return true }

// makeRoom files recent jobs if there are many.
func (t *txn) makeRoom() {
	rows, live := t.recents().rows, 0
	for i := range rows {
		if rows[i].live() {
			live++
		}
	}
	switch {
	case live >= maxRecent:
		t.file(every)
	case len(rows)-live >= recentRoom:
		t.file(func(r *row) bool { return !r.live() })
	default:
		return
	}
	behind := 0
	for range unindexed(t.tx) {
		if behind++; behind == maxBehind {
			t.index()
			return
		}
	}
}

// newestIn visits the keys of filed jobs that a table has by creation, and of the
// recent ones that belong to them, the one that was created last first.
func (t *txn) newestIn(table store.Table, belongs func(*row) bool) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var fresh [][]byte
		for r := range t.recents().newest() {
			if belongs(r) {
				fresh = append(fresh, r.key)
			}
		}
		for k := range t.tx.ScanBack(table, nil) {
			for len(fresh) > 0 && bytes.Compare(fresh[0], k) > 0 {
				if !yield(fresh[0]) {
					return
				}
				fresh = fresh[1:]
			}
			if !yield(k) {
				return
			}
		}
		for _, k := range fresh {
			if !yield(k) {
				return
			}
		}
	}
}

// withPrefix lists the handles that begin so, two at most.
func (t *txn) withPrefix(prefix string) (found []Handle) {
	for r := range t.recents().newest() {
		if h := r.handle(); strings.HasPrefix(string(h), prefix) {
			found = append(found, h)
		}
	}
	for k := range unindexed(t.tx) {
		if bytes.HasPrefix(k[timeLength:], []byte(prefix)) {
			found = append(found, Handle(k[timeLength:]))
		}
	}
	for k := range t.tx.Scan(tableHandles, []byte(prefix)) {
		if found = append(found, Handle(k)); len(found) > 1 {
			break
		}
	}
	return found[:min(len(found), 2)]
}
