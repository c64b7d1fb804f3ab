// Package memstore keeps a journal in memory, for as long as the process lives.
// It serves a bridge without a journal on disk, and is the model that other
// stores are tested against.
package memstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// A Store keeps tables in memory. Several handles made by Share stand for
// several processes.
type Store struct {
	*shared
	mu    sync.Mutex
	owner string
}

type shared struct {
	mu     sync.RWMutex
	tables map[store.Table]map[string][]byte
	bodies map[string][]byte
	alive  map[string]bool
	count  uint64
	gen    string
	secret []byte
}

// New returns an empty store of the given schema.
func New(schema store.Schema) (*Store, error) {
	s := &shared{
		tables: make(map[store.Table]map[string][]byte),
		bodies: make(map[string][]byte),
		alive:  make(map[string]bool),
		gen:    rand.Text(),
		secret: make([]byte, 32),
	}
	rand.Read(s.secret)
	for _, t := range schema.Tables {
		s.tables[t] = make(map[string][]byte)
	}
	for n, migrate := range schema.Migrations {
		if err := migrate(&tx{s: s}); err != nil {
			return nil, fmt.Errorf("migrate to version %d: %w", n+1, err)
		}
	}
	return &Store{shared: s}, nil
}

// Share returns another handle on the same contents, with an owner of its own.
func (s *Store) Share() *Store { return &Store{shared: s.shared} }

func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	t := &tx{s: s.shared, writable: true}
	if err := fn(t); err != nil {
		t.undo()
		return err
	}
	s.count++
	return nil
}

func (s *Store) View(ctx context.Context, fn func(store.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.shared.mu.RLock()
	defer s.shared.mu.RUnlock()
	return fn(&tx{s: s.shared})
}

func (s *Store) Stamp() (store.Stamp, error) {
	s.shared.mu.RLock()
	defer s.shared.mu.RUnlock()
	return store.Stamp(strconv.FormatUint(s.count, 10)), nil
}

func (s *Store) Stage(_ context.Context, name string, body []byte) error {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	s.bodies[name] = bytes.Clone(body)
	return nil
}

func (s *Store) Fetch(_ context.Context, name string) ([]byte, error) {
	s.shared.mu.RLock()
	defer s.shared.mu.RUnlock()
	b, ok := s.bodies[name]
	if !ok {
		return nil, fmt.Errorf("body %s: %w", name, store.ErrNoBody)
	}
	return bytes.Clone(b), nil
}

func (s *Store) Discard(names ...string) {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	for _, name := range names {
		delete(s.bodies, name)
	}
}

func (s *Store) Owner(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner == "" {
		s.owner = strings.ToLower(rand.Text())
		s.shared.mu.Lock()
		s.alive[s.owner] = true
		s.shared.mu.Unlock()
	}
	return s.owner, nil
}

// Lost is called with the lock of the contents held, inside Update and View.
func (s *Store) Lost(owner string) bool { return !s.alive[owner] }

func (s *Store) Secret(context.Context) ([]byte, error) { return s.secret, nil }

func (s *Store) Tidy(context.Context, bool, func(store.Tx, string) bool) (bool, error) {
	return true, nil
}

func (s *Store) Erase(context.Context) error {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	for _, t := range s.tables {
		clear(t)
	}
	clear(s.bodies)
	s.gen = rand.Text()
	s.count++
	return nil
}

// Close gives the owner name up; the contents live on in shared handles.
func (s *Store) Close(bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	delete(s.alive, s.owner)
	return nil
}

type tx struct {
	s        *shared
	writable bool
	undos    []undo
	memo     any
}

func (t *tx) Memo() *any { return &t.memo }

type undo struct {
	table store.Table
	key   string
	value []byte // nil: there was none
}

func (t *tx) undo() {
	for _, u := range slices.Backward(t.undos) {
		if u.value == nil {
			delete(t.s.tables[u.table], u.key)
		} else {
			t.s.tables[u.table][u.key] = u.value
		}
	}
}

func (t *tx) remember(table store.Table, key []byte) {
	t.undos = append(t.undos, undo{table, string(key), t.s.tables[table][string(key)]})
}

func (t *tx) Get(table store.Table, key []byte) []byte { return t.s.tables[table][string(key)] }

func (t *tx) Put(table store.Table, key, value []byte) error {
	t.remember(table, key)
	v := append(make([]byte, 0, len(value)), value...)
	t.s.tables[table][string(key)] = v
	return nil
}

func (t *tx) Delete(table store.Table, key []byte) error {
	t.remember(table, key)
	delete(t.s.tables[table], string(key))
	return nil
}

func (t *tx) keys(table store.Table, prefix []byte) []string {
	var keys []string
	for k := range maps.Keys(t.s.tables[table]) {
		if strings.HasPrefix(k, string(prefix)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func (t *tx) Scan(table store.Table, prefix []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for _, k := range t.keys(table, prefix) {
			if !yield([]byte(k), t.s.tables[table][k]) {
				return
			}
		}
	}
}

func (t *tx) ScanBack(table store.Table, prefix []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for _, k := range slices.Backward(t.keys(table, prefix)) {
			if !yield([]byte(k), t.s.tables[table][k]) {
				return
			}
		}
	}
}

func (t *tx) Generation() string  { return t.s.gen }
func (t *tx) SetAside() time.Time { return time.Time{} }
