package boltstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// The layout of a bbolt file's first two pages, as of format version 2, in the
// byte order of the machine that wrote it: 16 bytes of page header, then magic,
// version, page size, flags (4 bytes each), root bucket (page and sequence),
// free list page, high-water mark in pages, transaction (8 each), checksum.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	metaStart   = 16
	metaLength  = 64
	metaSummed  = 56 // bytes that the checksum covers
	maxPageSize = 1 << 24
)

// A metaPage is what a turn wants to know before it lets bbolt map the file.
type metaPage struct {
	pageSize  int64
	highWater int64 // pages in use; nothing is stored at or past it
	txid      uint64
}

var (
	errNotDatabase = fmt.Errorf("%w: not a bbolt file", store.ErrDamaged)
	errNewerFormat = errors.New("bbolt format of a newer version")
)

// checkFile reads the meta pages of an open file of the given size and checks
// what bbolt takes on trust: it maps the file and follows page numbers, and to
// touch a page past the end is SIGBUS, which ends a process.
func checkFile(f io.ReaderAt, size int64) (metaPage, error) {
	m, err := readMeta(f)
	if err != nil {
		return metaPage{}, err
	}
	if want := m.highWater * m.pageSize; size < want {
		return metaPage{}, fmt.Errorf("%w: %d bytes, its meta page names %d", store.ErrDamaged, size, want)
	}
	return m, nil
}

// readMeta returns the meta page that bbolt will use: the valid one with the
// higher transaction.
func readMeta(f io.ReaderAt) (metaPage, error) {
	first, err := metaAt(f, 0)
	if errors.Is(err, errNewerFormat) {
		return metaPage{}, err
	}
	if err == nil {
		if second, err := metaAt(f, first.pageSize); err == nil && second.txid > first.txid {
			return second, nil
		}
		return first, nil
	}
	for pos := int64(1024); pos <= maxPageSize; pos *= 2 {
		if m, err := metaAt(f, pos); err == nil && m.pageSize == pos {
			return m, nil
		}
	}
	return metaPage{}, errNotDatabase
}

func metaAt(f io.ReaderAt, page int64) (metaPage, error) {
	var b [metaLength]byte
	if _, err := f.ReadAt(b[:], page+metaStart); err != nil {
		return metaPage{}, errNotDatabase
	}
	order := binary.NativeEndian
	if order.Uint32(b[0:]) != boltMagic {
		return metaPage{}, errNotDatabase
	}
	sum := fnv.New64a()
	_, _ = sum.Write(b[:metaSummed])
	if sum.Sum64() != order.Uint64(b[metaSummed:]) {
		return metaPage{}, errNotDatabase
	}
	if order.Uint32(b[4:]) > boltVersion {
		return metaPage{}, errNewerFormat
	}
	m := metaPage{
		pageSize:  int64(order.Uint32(b[8:])),
		highWater: int64(order.Uint64(b[40:])),
		txid:      order.Uint64(b[48:]),
	}
	if m.pageSize < 1024 || m.pageSize > maxPageSize || m.highWater < 4 || m.highWater > 1<<40 {
		return metaPage{}, errNotDatabase
	}
	return m, nil
}

// txidOf returns the last transaction in a file; 0 if it cannot be read.
func txidOf(path string) uint64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	m, err := readMeta(f)
	if err != nil {
		return 0
	}
	return m.txid
}
