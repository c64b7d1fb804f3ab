package jobs

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// maxBehind is how many filed jobs the index of handles does not have at most. A
// handle is random: its row is on a page that the turn would not change otherwise,
// unless many are put at once.
const maxBehind = 1024

// indexed is what the index of handles has.
type indexed struct {
	upTo   []byte // key of the last job that it has; it has all filed ones up to that
	behind uint64 // how many later ones are filed, about
}

func readIndexed(tx store.Tx) indexed {
	v := tx.Get(tableMarks, markIndexed)
	if len(v) < 8 {
		return indexed{}
	}
	return indexed{behind: binary.BigEndian.Uint64(v), upTo: v[8:]}
}

func (i indexed) encode() []byte {
	return append(binary.BigEndian.AppendUint64(nil, i.behind), i.upTo...)
}

// has reports whether the index has a job that is filed, by its key.
func (i indexed) has(key []byte) bool { return bytes.Compare(key, i.upTo) <= 0 }

// handleEntry is the row that the index of handles has for the key of a job.
func handleEntry(key []byte) entry { return entry{tableHandles, key[timeLength:], key[:timeLength]} }

// unindexed visits the keys of filed jobs that the index of handles does not have,
// the last one first.
func unindexed(tx store.Tx) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		have := readIndexed(tx)
		for k := range tx.ScanBack(tableJobs, nil) {
			if have.has(k) || len(k) > timeLength && !yield(k) {
				return
			}
		}
	}
}

// filedKey returns the key of a filed job, nil if there is none.
func (t *txn) filedKey(h Handle) []byte {
	if at := t.tx.Get(tableHandles, []byte(h)); at != nil {
		return append(bytes.Clone(at), h...)
	}
	if t.unindexed == nil {
		t.unindexed = make(map[Handle][]byte)
		for k := range unindexed(t.tx) {
			t.unindexed[Handle(k[timeLength:])] = k
		}
	}
	return t.unindexed[h]
}

// index brings the index of handles up to date.
func (t *txn) index() {
	var rows []entry
	var last []byte
	for k := range unindexed(t.tx) {
		if last == nil {
			last = k
		}
		rows = append(rows, handleEntry(k))
	}
	if last == nil {
		return
	}
	slices.SortFunc(rows, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	for _, e := range rows {
		t.put(e.table, e.key, e.value)
	}
	t.put(tableMarks, markIndexed, indexed{upTo: last}.encode())
}
