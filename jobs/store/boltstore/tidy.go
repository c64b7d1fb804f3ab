package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

const (
	minFree    = 8 << 20   // bytes of free pages worth a compaction
	maxCompact = 256 << 20 // bytes in use; more would hold others up for too long
	copyChunk  = 4 << 20   // bytes copied in one transaction
)

// Tidy sweeps bodies and owners and compacts the file, all under the lock. The
// function named is asked about owners and about bodies by their names.
func (s *Store) Tidy(ctx context.Context, wiped bool, named func(store.Tx, string) bool) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if _, err := os.Stat(s.path(fileName)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	line := turnLock{path: s.path(lockName)}
	defer line.close()
	unlock, err := s.lock(&line, s.limit)
	var late *lateError
	switch {
	case errors.As(err, &late):
		return false, s.locked(late)
	case err != nil:
		return false, s.unavailable(reasonOf(err), err)
	}
	defer unlock()
	rewritten, err := s.tidy(wiped, named)
	return rewritten, s.failure(err)
}

func (s *Store) tidy(wiped bool, named func(store.Tx, string) bool) (rewritten bool, err error) {
	f, err := s.openFile(false)
	if err != nil {
		return false, err
	}
	err = f.guard(func() error {
		err := f.db.View(func(b *bolt.Tx) error {
			t := &tx{b: b}
			if err := s.checkVersion(t); err != nil {
				return err
			}
			ask := func(name string) bool { return named(t, name) }
			return errors.Join(s.sweepOwners(ask), s.sweepBodies(ask))
		})
		if err != nil || !s.worthCompacting(f, wiped) {
			return err
		}
		rewritten = true
		return s.copyTo(f.db, s.path(newName))
	})
	if cerr := f.close(); err == nil {
		err = cerr
	}
	if err != nil || !rewritten {
		_ = removeIfThere(s.path(newName))
		return false, err
	}
	if err := s.at(AtCompacted); err != nil {
		return false, err
	}
	return true, renameSynced(s.path(newName), s.path(fileName))
}

func (s *Store) worthCompacting(f *turnFile, wiped bool) bool {
	// The free list holds what the last transactions freed as well.
	free := int64(f.db.Stats().FreePageN) * f.meta.pageSize
	total := f.meta.highWater * f.meta.pageSize
	if total-free > maxCompact {
		return false
	}
	return wiped || free > minFree && free > total/2
}

// copyTo writes a compacted copy and syncs it once, at the end.
func (s *Store) copyTo(src *bolt.DB, path string) error {
	if err := removeIfThere(path); err != nil {
		return err
	}
	dst, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: boltTimeout, NoSync: true})
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	err = bolt.Compact(dst, src, copyChunk)
	if err == nil {
		err = dst.Sync()
	}
	if err := errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}

// Erase removes the journal, its bodies and what was set aside. Owners stay:
// their processes live. The next change begins a new generation.
func (s *Store) Erase(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	line := turnLock{path: s.path(lockName)}
	defer line.close()
	unlock, err := s.lock(&line, s.limit)
	if err != nil {
		return s.unavailable(reasonOf(err), err)
	}
	defer unlock()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return s.unavailable(reasonOf(err), err)
	}
	var errs []error
	for _, e := range entries {
		if e.Name() == fileName || strings.HasPrefix(e.Name(), fileName+".") {
			errs = append(errs, os.Remove(s.path(e.Name())))
		}
	}
	errs = append(errs, os.RemoveAll(s.path(bodiesDir)), syncDir(s.dir))
	if err := errors.Join(errs...); err != nil {
		return s.unavailable(reasonOf(err), err)
	}
	return nil
}

var _ store.Store = (*Store)(nil)
