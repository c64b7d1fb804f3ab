package boltstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// filled returns a store with enough in it to have branch pages, overflow pages
// and a free list, and the size of a page.
func filled(t testing.TB, dir string, change ...func(*Options)) (*Store, int64) {
	t.Helper()
	s := open(t, dir, change...)
	for round := range 3 {
		err := s.Update(context.Background(), func(tx store.Tx) error {
			for n := range 300 {
				if err := tx.Put(table, fmt.Appendf(nil, "key %04d", n), []byte(strings.Repeat("v", 100+round))); err != nil {
					return err
				}
			}
			return tx.Put(table, []byte("long"), []byte(strings.Repeat("w", 20_000)))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s, int64(os.Getpagesize())
}

// readAll is a change that reads everything, so that damage anywhere is met.
func readAll(tx store.Tx) error {
	for range tx.Scan(table, nil) {
		continue
	}
	return tx.Put(table, []byte("new"), []byte("1"))
}

// rewriteMeta changes both meta pages of a file and their checksums.
func rewriteMeta(t testing.TB, path string, change func(meta []byte)) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for page := range 2 {
		meta := b[page*os.Getpagesize()+metaStart:][:metaLength]
		change(meta)
		sum := fnv.New64a()
		sum.Write(meta[:metaSummed])
		binary.NativeEndian.PutUint64(meta[metaSummed:], sum.Sum64())
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// damages are the ways in which a file is broken; each gets the whole content.
var damages = map[string]func(b []byte, page int64) []byte{
	"not a database":    func(b []byte, _ int64) []byte { return []byte(strings.Repeat("no database", 5000)) },
	"empty":             func(b []byte, _ int64) []byte { return nil },
	"one byte":          func(b []byte, _ int64) []byte { return b[:1] },
	"one page":          func(b []byte, page int64) []byte { return b[:page] },
	"truncated":         func(b []byte, page int64) []byte { return b[:6*page] },
	"cut inside a page": func(b []byte, page int64) []byte { return b[:6*page+100] },
	"all zero":          func(b []byte, _ int64) []byte { return make([]byte, len(b)) },
	"both metas zero": func(b []byte, page int64) []byte {
		clear(b[:2*page])
		return b
	},
	"high-water mark past the end": func(b []byte, page int64) []byte { return b },
}

func TestDamagedFilesAreSetAside(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var reports []Damage
			dir := t.TempDir()
			s, page := filled(t, dir, func(o *Options) {
				o.SetAside = func(d Damage) {
					mu.Lock()
					defer mu.Unlock()
					reports = append(reports, d)
				}
			})
			before := generation(t, s)
			b, err := os.ReadFile(s.path(fileName))
			if err != nil {
				t.Fatal(err)
			}
			b = damage(b, page)
			if err := os.WriteFile(s.path(fileName), b, 0o600); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(name, "high-water") {
				rewriteMeta(t, s.path(fileName), func(meta []byte) { binary.NativeEndian.PutUint64(meta[40:], 1<<20) })
				if b, err = os.ReadFile(s.path(fileName)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.View(context.Background(), readAllView); err != nil {
				t.Fatalf("reading: %v", err)
			}
			mustPut(t, s, "after", "1")
			if len(reports) != 1 || !errors.Is(reports[0].Err, store.ErrDamaged) {
				t.Fatalf("reported: %+v", reports)
			}
			if kept, err := os.ReadFile(reports[0].Path); err != nil || string(kept) != string(b) {
				t.Errorf("what was set aside is not what was there: %d bytes, %v", len(kept), err)
			}
			if generation(t, s) == before {
				t.Error("the new journal has the old generation")
			}
			checkSetAside(t, s, reports[0])
		})
	}
}

func readAllView(tx store.Tx) error {
	for range tx.Scan(table, nil) {
		continue
	}
	return nil
}

func generation(t testing.TB, s *Store) (g string) {
	t.Helper()
	if err := s.View(context.Background(), func(tx store.Tx) error { g = tx.Generation(); return nil }); err != nil {
		t.Fatal(err)
	}
	return g
}

func checkSetAside(t *testing.T, s *Store, d Damage) {
	t.Helper()
	err := s.View(context.Background(), func(tx store.Tx) error {
		if at := tx.SetAside(); !at.Equal(d.Time) {
			t.Errorf("the new journal says it was set aside at %v, not %v", at, d.Time)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryPageDamaged breaks each page of a file in turn, in two ways. No turn
// may end the process or hang, and afterwards the journal works. Damage inside
// the later pages of a long value, and to free pages, cannot be seen here.
func TestEveryPageDamaged(t *testing.T) {
	t.Parallel()
	s, page := filled(t, t.TempDir())
	good, err := os.ReadFile(s.path(fileName))
	if err != nil {
		t.Fatal(err)
	}
	aside := 0
	for n := range int64(len(good)) / page {
		for _, fill := range []byte{0, 0xFF} {
			dir := t.TempDir()
			bad := append([]byte(nil), good...)
			for i := n * page; i < (n+1)*page; i++ {
				bad[i] = fill
			}
			if err := os.WriteFile(filepath.Join(dir, fileName), bad, 0o600); err != nil {
				t.Fatal(err)
			}
			d := open(t, dir)
			for range 2 {
				if err := d.Update(context.Background(), readAll); err != nil {
					t.Fatalf("page %d filled with %#x: %v", n, fill, err)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*damaged*")); len(left) > 0 {
				aside++
			}
		}
	}
	if aside < 4 {
		t.Errorf("only %d damaged files were noticed", aside)
	}
}

// TestFileShrinksUnderTheMap cuts the file while a turn has it mapped: the next
// look at it is a fault, which must not end the process.
func TestFileShrinksUnderTheMap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var once sync.Once
	armed := false
	s, page := filled(t, dir)
	cut := open(t, dir, func(o *Options) {
		o.At = func(p Point) error {
			if p == AtOpened && armed {
				once.Do(func() {
					if err := os.Truncate(filepath.Join(dir, fileName), 5*page); err != nil {
						t.Error(err)
					}
				})
			}
			return nil
		}
	})
	armed = true
	if err := cut.Update(context.Background(), readAll); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*damaged*")); len(left) != 1 {
		t.Errorf("set aside: %v", left)
	}
	mustPut(t, s, "after", "1")
}

func TestNotARegularFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	elsewhere := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(elsewhere, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if err := os.Symlink(elsewhere, s.path(fileName)); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	reasonFor(t, put(s, "a", "1"), store.Broken)
	if b, _ := os.ReadFile(elsewhere); string(b) != "precious" {
		t.Errorf("a symbolic link was followed: %q", b)
	}
	if err := os.Remove(s.path(fileName)); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "a", "1")
}
