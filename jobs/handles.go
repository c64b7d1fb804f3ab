package jobs

import (
	"bytes"
	"iter"
	"slices"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// maxBehind is how many filed jobs the index of handles does not have at most, but
// for those of one filing. A handle is random: its row is on a page that the turn
// would not change otherwise, unless many are put at once.
const maxBehind = 1024

// isIndexed reports whether the index of handles has a job that is filed, by its key:
// it has all up to markIndexed.
func isIndexed(tx store.Tx, key []byte) bool {
	return bytes.Compare(key, tx.Get(tableMarks, markIndexed)) <= 0
}

// handleEntry is the row that the index of handles has for the key of a job.
func handleEntry(key []byte) entry { return entry{tableHandles, key[timeLength:], key[:timeLength]} }

// unindexed visits the keys of filed jobs that the index of handles does not have,
// the last one first.
func unindexed(tx store.Tx) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		upTo := tx.Get(tableMarks, markIndexed)
		for k := range tx.ScanBack(tableJobs, nil) {
			if bytes.Compare(k, upTo) <= 0 || len(k) > timeLength && !yield(k) {
				return
			}
		}
	}
}

// index brings the index of handles up to date.
func (t *txn) index() {
	var rows []entry
	for k := range unindexed(t.tx) {
		rows = append(rows, handleEntry(k))
	}
	slices.SortFunc(rows, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	for _, e := range rows {
		t.put(e.table, e.key, e.value)
	}
	for k := range t.tx.ScanBack(tableJobs, nil) { // whose time may be before that of a clock that was ahead
		if !bytes.Equal(k, t.tx.Get(tableMarks, markIndexed)) {
			t.put(tableMarks, markIndexed, k)
		}
		return
	}
	t.delete(tableMarks, markIndexed)
}
