package boltstore

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// Pages that were emptied earlier in a transaction stay in place until it is
// committed; both scans go past them and end.
func TestScanPastEmptiedPages(t *testing.T) {
	t.Parallel()
	const n = 1200 // keys: many pages
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%c%05d", 'a'+i*3/n, i))
	}
	value := []byte(strings.Repeat("v", 200))
	random := rand.New(rand.NewPCG(1, 2))
	for name, keep := range map[string]func(i int) bool{
		"none":       func(int) bool { return false },
		"all":        func(int) bool { return true },
		"first":      func(i int) bool { return i == 0 },
		"last":       func(i int) bool { return i == n-1 },
		"middle":     func(i int) bool { return i == n/2 },
		"both ends":  func(i int) bool { return i == 0 || i == n-1 },
		"few":        func(int) bool { return random.IntN(200) == 0 },
		"second one": func(i int) bool { return i*3/n == 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			update := func(f func(tx store.Tx) error) {
				t.Helper()
				if err := s.Update(context.Background(), f); err != nil {
					t.Fatal(err)
				}
			}
			update(func(tx store.Tx) error {
				for _, k := range all {
					if err := tx.Put(table, []byte(k), value); err != nil {
						return err
					}
				}
				return tx.Delete(table, []byte("migrated 0"))
			})
			update(func(tx store.Tx) error {
				var left []string
				for i, k := range all {
					if keep(i) {
						left = append(left, k)
					} else if err := tx.Delete(table, []byte(k)); err != nil {
						return err
					}
				}
				checkScans(t, tx, left)
				return nil
			})
		})
	}
}

func checkScans(t *testing.T, tx store.Tx, left []string) {
	t.Helper()
	for _, prefix := range []string{"", "a", "b", "c", "a00000", "zz", "\xff", "\xff\xff"} {
		var want []string
		for _, k := range left {
			if strings.HasPrefix(k, prefix) {
				want = append(want, k)
			}
		}
		if got := keysOf(tx.Scan(table, []byte(prefix))); !slices.Equal(got, want) {
			t.Errorf("scan of %q: %d keys, want %d", prefix, len(got), len(want))
		}
		slices.Reverse(want)
		if got := keysOf(tx.ScanBack(table, []byte(prefix))); !slices.Equal(got, want) {
			t.Errorf("scan back of %q: %d keys, want %d", prefix, len(got), len(want))
		}
	}
}

func keysOf(scan iter.Seq2[[]byte, []byte]) []string {
	var keys []string
	for k := range scan {
		keys = append(keys, string(k))
	}
	return keys
}
