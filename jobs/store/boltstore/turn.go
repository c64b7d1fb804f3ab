package boltstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// Keys of the bucket that belongs to this package.
const storeTable store.Table = "store"

var (
	keyVersion    = []byte("version")    // uint32, big endian
	keyGeneration = []byte("generation") // text, drawn when the file was made
	keySetAside   = []byte("set_aside")  // RFC 3339 time; absent if never
)

// boltTimeout bounds the wait for bbolt's own lock, which nobody but a foreign
// program can hold while we hold jobs.lock.
const boltTimeout = time.Second

// lock makes the state directory if it is missing and takes a place in line.
func (s *Store) lock(l *turnLock, limit time.Duration) (func(), error) {
	if err := s.makeDir(); err != nil {
		return nil, err
	}
	return l.acquire(limit)
}

// turn runs a batch under the lock and answers it when it is synced. If it fails
// the error is one for the whole batch, which was not answered then; a request's
// own error is left in the request. A damaged file is set aside and the batch run
// again on a new one, once.
func (s *Store) turn(batch []*request) error {
	err := s.at(AtStart)
	if err == nil {
		err = s.runBatch(batch)
	}
	if errors.Is(err, store.ErrDamaged) {
		if aside := s.setAside(err); aside != nil {
			return s.failure(aside)
		}
		err = s.runBatch(batch)
	}
	return s.failure(err)
}

// failure turns an error of the system into one that says what is wrong with
// the journal.
func (s *Store) failure(err error) error {
	var known *store.UnavailableError
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, errNewerFormat), errors.Is(err, errNewerSchema):
		return s.unavailable(store.Newer, err)
	}
	return s.unavailable(reasonOf(err), err)
}

func (s *Store) runBatch(batch []*request) error {
	f, err := s.openForTurn()
	if err != nil {
		return err
	}
	before := f.meta.txid
	err = f.guard(func() error { return s.commitBatch(f, batch) })
	if err != nil && !errors.Is(err, store.ErrDamaged) && txidOf(s.path(fileName)) != before {
		// The new meta page was written and syncing it failed.
		err = fmt.Errorf("%w: %w", store.ErrUncertain, err)
	}
	if err == nil {
		_ = s.at(AtCommitted)
		s.answer(batch, nil) // closing takes nothing back, so nobody waits for it
		if len(batch) == 1 {
			runtime.Gosched() // nor does who is alone wait for another thread to wake up
		}
	}
	_ = f.close()
	_ = s.at(AtClosed)
	return err
}

// commitBatch commits what every request of the batch changes in one
// transaction. A request that fails is left out and the rest run anew, so that
// nothing of it is kept.
func (s *Store) commitBatch(f *turnFile, batch []*request) error {
	rest := slices.Clone(batch)
	for {
		failed := -1
		err := f.db.Update(func(b *bolt.Tx) error {
			t := &tx{b: b, growing: s.opts.Schema.Growing}
			if err := s.upgrade(t); err != nil {
				return err
			}
			for i, r := range rest {
				if r.err = f.call(func() error { return r.fn(t) }); r.err != nil {
					failed = i
					return r.err
				}
			}
			return s.at(AtApplied)
		})
		switch {
		case err == nil:
			return nil
		case failed < 0 || errors.Is(err, store.ErrDamaged):
			return err
		}
		rest = slices.Delete(rest, failed, failed+1)
		if len(rest) == 0 {
			return nil
		}
	}
}

// View takes the lock shared and reads. A journal that does not exist yet reads
// as empty.
func (s *Store) View(ctx context.Context, fn func(store.Tx) error) error {
	err := s.view(ctx, fn)
	switch {
	case errors.Is(err, store.ErrDamaged), errors.Is(err, errOlderSchema):
		// Only a turn of a writer may put the file away or migrate it.
		return s.Update(ctx, fn)
	}
	return err
}

func (s *Store) view(ctx context.Context, fn func(store.Tx) error) error {
	var l *turnLock
	select {
	case l = <-s.readers:
		defer func() { s.readers <- l }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, err := os.Stat(s.path(fileName)); errors.Is(err, fs.ErrNotExist) {
		return fn(&emptyTx{})
	}
	unlock, err := l.acquire(s.limit)
	var late *lateError
	switch {
	case errors.As(err, &late):
		return s.locked(late)
	case err != nil:
		return s.unavailable(reasonOf(err), err)
	}
	defer unlock()
	return s.read(fn)
}

// read runs fn in a read-only transaction; the lock is held.
func (s *Store) read(fn func(store.Tx) error) error {
	f, err := s.openFile(true)
	if errors.Is(err, fs.ErrNotExist) {
		return fn(&emptyTx{})
	}
	if err != nil {
		return s.viewFailure(err)
	}
	var own error // of fn
	err = f.guard(func() error {
		return f.db.View(func(b *bolt.Tx) error {
			t := &tx{b: b}
			if err := s.checkVersion(t); err != nil {
				return err
			}
			own = f.call(func() error { return fn(t) })
			return nil
		})
	})
	_ = f.close()
	if err != nil {
		return s.viewFailure(err)
	}
	return own
}

func (s *Store) viewFailure(err error) error {
	if errors.Is(err, store.ErrDamaged) || errors.Is(err, errOlderSchema) {
		return err
	}
	return s.failure(err)
}

var (
	errNewerSchema = errors.New("schema of a newer version")
	errOlderSchema = errors.New("schema of an older version")
)

// checkVersion compares the schema's version; it is called in every turn.
func (s *Store) checkVersion(t *tx) error {
	have, err := t.version()
	want := s.opts.Schema.Version()
	switch {
	case err != nil:
		return err
	case have > want:
		return fmt.Errorf("%w: %d, this one knows %d", errNewerSchema, have, want)
	case have < want:
		return errOlderSchema
	}
	return nil
}

// upgrade brings an older schema up to ours, one version at a time, inside the
// transaction that needs it.
func (s *Store) upgrade(t *tx) error {
	err := s.checkVersion(t)
	if !errors.Is(err, errOlderSchema) {
		return err
	}
	have, _ := t.version()
	for _, name := range s.opts.Schema.Tables {
		if _, err := t.b.CreateBucketIfNotExists([]byte(name)); err != nil {
			return fmt.Errorf("create table %s: %w", name, err)
		}
	}
	for n, migrate := range s.opts.Schema.Migrations[have:] {
		if err := migrate(t); err != nil {
			return fmt.Errorf("migrate from version %d: %w", int(have)+n, err)
		}
	}
	return t.Put(storeTable, keyVersion, binary.BigEndian.AppendUint32(nil, s.opts.Schema.Version()))
}

// A turnFile is the open file of one turn.
type turnFile struct {
	db     *bolt.DB
	meta   metaPage
	file   *os.File // bbolt's descriptor, to be closed when bbolt cannot any more
	broken bool     // bbolt panicked and may hold its own locks for ever
	calls  int      // depth of functions that are not ours
}

// openForTurn opens the file for writing and makes it if there is none.
func (s *Store) openForTurn() (*turnFile, error) {
	f, err := s.openFile(false)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.create(time.Time{}); err != nil {
			return nil, err
		}
		f, err = s.openFile(false)
	}
	if err != nil {
		return nil, err
	}
	if err := s.at(AtOpened); err != nil {
		_ = f.close()
		return nil, err
	}
	return f, nil
}

// openFile opens an existing file, checked before bbolt maps it.
func (s *Store) openFile(readOnly bool) (*turnFile, error) {
	path := s.path(fileName)
	t := &turnFile{}
	err := t.guard(func() (err error) {
		t.db, err = bolt.Open(path, 0o600, &bolt.Options{
			Timeout:  boltTimeout,
			ReadOnly: readOnly,
			OpenFile: func(name string, flag int, _ os.FileMode) (*os.File, error) {
				return t.open(name, flag)
			},
		})
		return err
	})
	if err == nil {
		return t, nil
	}
	if t.broken {
		_ = t.abandon()
	}
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("held by a program that does not take turns: %w", err)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum):
		return nil, fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	return nil, err
}

// open never creates the file and never follows anything but a regular one.
func (t *turnFile) open(name string, flag int) (*os.File, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file", name)
	}
	f, err := os.OpenFile(name, flag&^os.O_CREATE, 0)
	if err != nil {
		return nil, err
	}
	if t.meta, err = checkFile(f, info.Size()); err != nil {
		_ = f.Close()
		return nil, err
	}
	t.file = f
	return f, nil
}

// guard runs fn so that a damaged file ends in an error: bbolt panics on pages
// that contradict each other, and a map that lost its file faults.
func (t *turnFile) guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if t.calls > 0 && !damaging(p) {
			err = fmt.Errorf("internal failure: %v", p) // bbolt has rolled back
			return
		}
		t.broken = true
		err = fmt.Errorf("%w: %v", store.ErrDamaged, p)
	}()
	return fn()
}

// call runs a function that is not of this package.
func (t *turnFile) call(fn func() error) error {
	t.calls++
	err := fn()
	t.calls--
	return err
}

// damaging reports whether the panic now being recovered speaks of the file: it
// is a fault at an address of the map, or it began in bbolt. A mistake in a
// caller's function must not put a sound file away.
func damaging(p any) bool {
	if _, fault := p.(interface{ Addr() uintptr }); fault {
		return true
	}
	_, origin, _ := strings.Cut(string(debug.Stack()), "\npanic(")
	for line := range strings.Lines(origin) {
		switch {
		case strings.HasPrefix(line, "go.etcd.io/bbolt"):
			return true
		case strings.HasPrefix(line, "github.com/mcpbridge/"):
			return false
		}
	}
	return false
}

// close gives the file back. After bbolt panicked its own Close could wait for
// ever, so its lock is freed and the descriptor closed; the map stays until the
// process ends, and closing alone would leave the lock with it.
func (t *turnFile) close() error {
	if t.broken {
		return t.abandon()
	}
	return t.db.Close()
}

func (t *turnFile) abandon() error {
	if t.file == nil {
		return nil
	}
	return errors.Join(unlockBolt(t.file), t.file.Close())
}
