package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// coarse is the coarsest resolution of file times to be expected: two commits
// within it may leave the same time behind.
const coarse = 2 * time.Second

// Stamp is the file's time and size. While the time is young, the last
// transaction is read too, because another commit may have the same time.
func (s *Store) Stamp() (store.Stamp, error) {
	info, err := os.Stat(s.path(fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return "none", nil
	}
	if err != nil {
		return "", s.unavailable(reasonOf(err), err)
	}
	var txid uint64
	if time.Since(info.ModTime()) < coarse {
		txid = txidOf(s.path(fileName))
	}
	return store.Stamp(fmt.Sprintf("%d.%d.%d", info.ModTime().UnixNano(), info.Size(), txid)), nil
}
