package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/classify/sse"
)

// A store counts what is reserved, and holds files in memory.
type store struct {
	limit, used, files int
	broken             error // of what a file does
	open               int
}

func (s *store) Take(n int) bool {
	if s.used+n > s.limit {
		return false
	}
	s.used += n
	return true
}

func (s *store) Give(n int) { s.used -= n }

func (s *store) File() (sse.File, error) {
	s.files++
	s.open++
	return &file{store: s}, nil
}

type file struct {
	bytes.Buffer
	store *store
}

func (f *file) Write(p []byte) (int, error) {
	if f.store.broken != nil && f.Len()+len(p) > 100_000 {
		return 0, f.store.broken
	}
	return f.Buffer.Write(p)
}

func (f *file) Map() ([]byte, error) { return f.Bytes(), nil }

func (f *file) Close() error {
	f.store.open--
	return nil
}

// Events come out the same whether there is room for them or not, and what they
// took is given back.
func TestStore(t *testing.T) {
	t.Parallel()
	var stream strings.Builder
	sizes := []int{10, 5_000, 20_000, 300_000, 3_000_000, 1, 90_000}
	for i, n := range sizes {
		fmt.Fprintf(&stream, "id: %d\ndata: %s\ndata: end\n\n", i, strings.Repeat(string(rune('a'+i)), n))
	}
	for limit, files := range map[int]int{0: 4, 64 << 10: 3, 1 << 20: 1, 16 << 20: 0} {
		s := &store{limit: limit}
		in := sse.NewReader(strings.NewReader(stream.String()), 4<<20)
		in.HoldIn(s)
		for i, n := range sizes {
			e, err := in.Next()
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Repeat(string(rune('a'+i)), n) + "\nend"; string(e.Data) != want {
				t.Errorf("limit %d, event %d: %d bytes, want %d", limit, i, len(e.Data), len(want))
			}
			if s.used > 0 && s.used != len(e.Data) || s.open > 1 {
				t.Errorf("limit %d: %d bytes and %d files are held for %d bytes", limit, s.used, s.open, len(e.Data))
			}
			if e.Release != nil {
				e.Release()
			}
			if s.used != 0 || s.open != 0 {
				t.Errorf("limit %d: %d bytes and %d files are left", limit, s.used, s.open)
			}
		}
		if s.files != files {
			t.Errorf("limit %d: %d files, want %d", limit, s.files, files)
		}
	}
}

// An event that the store cannot take is lost with its reason, and no other.
func TestStoreThatFails(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	big := strings.Repeat("x", 200_000)
	for name, end := range map[string]string{"finished": "\n\ndata: next\n\n", "at the end": ""} {
		s := &store{broken: full}
		in := sse.NewReader(strings.NewReader("id: 7\ndata: "+big+end), 1<<20)
		in.HoldIn(s)
		e, err := in.Next()
		var lost *sse.StoreError
		if !errors.As(err, &lost) || !errors.Is(err, full) || e.Data != nil || e.ID != "7" {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		if s.used != 0 || s.open != 0 {
			t.Errorf("%s: %d bytes and %d files are left", name, s.used, s.open)
		}
		e, err = in.Next()
		if end != "" && string(e.Data) != "next" || end == "" && err != io.EOF {
			t.Errorf("%s: then %q, %v", name, e.Data, err)
		}
	}
}
