package boltstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// A tx is a store.Tx on one bbolt transaction; each table is a bucket.
type tx struct {
	b       *bolt.Tx
	growing []store.Table
	memo    any
}

// growingFill is how full a page of a growing table gets. The rest is for values
// that get longer; bbolt leaves half of each page for keys in between.
const growingFill = 0.9

func (t *tx) bucket(table store.Table) (*bolt.Bucket, error) {
	b := t.b.Bucket([]byte(table))
	if b == nil {
		return nil, fmt.Errorf("%w: no table %s", store.ErrDamaged, table)
	}
	if slices.Contains(t.growing, table) {
		b.FillPercent = growingFill
	}
	return b, nil
}

func (t *tx) Get(table store.Table, key []byte) []byte {
	b, err := t.bucket(table)
	if err != nil {
		return nil
	}
	return b.Get(key)
}

func (t *tx) Put(table store.Table, key, value []byte) error {
	b, err := t.bucket(table)
	if err != nil {
		return err
	}
	return b.Put(key, value)
}

func (t *tx) Delete(table store.Table, key []byte) error {
	b, err := t.bucket(table)
	if err != nil {
		return err
	}
	return b.Delete(key)
}

func (t *tx) Scan(table store.Table, prefix []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		b, err := t.bucket(table)
		if err != nil {
			return
		}
		c := b.Cursor()
		for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			if !yield(k, v) {
				return
			}
		}
	}
}

// ScanBack goes back until the first key with the prefix, and not until Prev
// returns nil: it does so on every page that was emptied in this transaction
// too, with keys before it (bbolt 1.5).
func (t *tx) ScanBack(table store.Table, prefix []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		b, err := t.bucket(table)
		if err != nil {
			return
		}
		c := b.Cursor()
		first, _ := c.Seek(prefix)
		if first == nil || !bytes.HasPrefix(first, prefix) {
			return
		}
		for k, v := lastOf(c, prefix); ; k, v = c.Prev() {
			if k != nil && !yield(k, v) || bytes.Equal(k, first) {
				return
			}
		}
	}
}

// lastOf places c at the last key with the prefix, of which there is one, or at
// an empty page behind it: then k is nil. (Last never returns where all pages of
// a table are empty.)
func lastOf(c *bolt.Cursor, prefix []byte) (k, v []byte) {
	after := bytes.Clone(prefix)
	for i := len(after) - 1; i >= 0; i-- {
		if after[i]++; after[i] != 0 {
			if k, _ := c.Seek(after[:i+1]); k == nil {
				return c.Last()
			}
			return c.Prev()
		}
	}
	return c.Last()
}

func (t *tx) Generation() string {
	return string(t.Get(storeTable, keyGeneration))
}

func (t *tx) SetAside() time.Time {
	at, err := time.Parse(time.RFC3339Nano, string(t.Get(storeTable, keySetAside)))
	if err != nil {
		return time.Time{}
	}
	return at
}

func (t *tx) version() (uint32, error) {
	v := t.Get(storeTable, keyVersion)
	if len(v) != 4 {
		return 0, fmt.Errorf("%w: no schema version", store.ErrDamaged)
	}
	return binary.BigEndian.Uint32(v), nil
}

func (t *tx) Memo() *any { return &t.memo }

// An emptyTx reads a journal that was never written.
type emptyTx struct{ memo any }

func (*emptyTx) Get(store.Table, []byte) []byte        { return nil }
func (*emptyTx) Put(store.Table, []byte, []byte) error { return errReading }
func (*emptyTx) Delete(store.Table, []byte) error      { return errReading }
func (*emptyTx) Generation() string                    { return "" }
func (*emptyTx) SetAside() time.Time                   { return time.Time{} }
func (t *emptyTx) Memo() *any                          { return &t.memo }

func (*emptyTx) Scan(store.Table, []byte) iter.Seq2[[]byte, []byte] {
	return func(func([]byte, []byte) bool) {}
}

func (*emptyTx) ScanBack(store.Table, []byte) iter.Seq2[[]byte, []byte] {
	return func(func([]byte, []byte) bool) {}
}

var errReading = fmt.Errorf("change while reading")
