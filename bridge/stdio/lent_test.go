//go:build unix

package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// What is lent comes back once, when it is written and not before.
func TestLentUntilWritten(t *testing.T) {
	eachPipe(t, func(t *testing.T, r, f *os.File) {
		w := NewWriter(f, WriterOptions{})
		lent := bytes.Repeat([]byte("a"), 1<<20)
		var returned atomic.Int32
		release := func() {
			returned.Add(1)
			for i := range lent { // whoever still reads it writes this
				lent[i] = 'z'
			}
		}
		if err := w.Answer(t.Context(), release, []byte("{"), lent, []byte("}")); err != nil {
			t.Fatal(err)
		}
		if returned.Load() != 0 {
			t.Fatal("given back while it waits")
		}
		run(t, w)
		if got := readLine(t, bufio.NewReaderSize(r, 2<<20)); got != "{"+strings.Repeat("a", 1<<20)+"}" {
			t.Errorf("torn: %d bytes", len(got))
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := returned.Load(); n != 1 {
			t.Errorf("given back %d times", n)
		}
	})
}

// However a line ends, what it was lent comes back once.
func TestLentComesBack(t *testing.T) {
	t.Parallel()
	r, f := newPipe(t)
	w := NewWriter(f, WriterOptions{Queue: 1 << 20, LineLimit: 4 << 20})
	var returned atomic.Int32
	release := func() { returned.Add(1) }
	answer := func(ctx context.Context, size int) error { return w.Answer(ctx, release, make([]byte, size)) }
	back := func(what string, want int32) {
		t.Helper()
		if n := returned.Swap(0); n != want {
			t.Errorf("%s: given back %d times, want %d", what, n, want)
		}
	}
	if err := answer(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	back("written at once", 1)
	var long *OversizeError
	if err := answer(t.Context(), 4<<20); !errors.As(err, &long) || long.Size != 4<<20 || long.Limit != 4<<20 {
		t.Errorf("too long: %v", err)
	}
	back("too long", 1)
	if err := answer(t.Context(), 900_000); err != nil { // begun: a part is in the pipe
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := answer(ctx, 900_000); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	back("given up", 1)
	ended := make(chan error, 1)
	go func() { ended <- answer(t.Context(), 900_000) }()
	eventually(t, "an answer waits", func() bool { return waiting(w) == 1 })
	r.Close()
	if err := w.Flush(t.Context()); err == nil {
		t.Error("nobody reads, and it was written")
	}
	receive(t, ended)
	if err := answer(t.Context(), 900_000); err == nil {
		t.Error("answered after the failure")
	}
	back("the writer failed", 3)
}

// A line is measured as it leaves.
func TestLineLimit(t *testing.T) {
	t.Parallel()
	r, f := newPipe(t)
	const limit = 1000
	dropped := make(chan int, 1)
	w := NewWriter(f, WriterOptions{LineLimit: limit, Oversize: func(size int) { dropped <- size }})
	grows := []byte(strings.Repeat("\u2028", 170)) // 510 bytes in, 1020 out
	var long *OversizeError
	if err := w.Answer(t.Context(), nil, []byte(`"`), grows, []byte(`"`)); !errors.As(err, &long) || long.Size != 1022 {
		t.Errorf("grown by its escapes: %v", err)
	}
	w.Notify("", grows)
	if n := receive(t, dropped); n != 1020 || w.Dropped() != 1 {
		t.Errorf("dropped %d of %d bytes", w.Dropped(), n)
	}
	shrinks := append(bytes.Repeat([]byte("\n"), limit), '1') // one byte out
	if err := w.Answer(t.Context(), nil, shrinks, make([]byte, limit-2)); err != nil {
		t.Errorf("shrunk by its line ends: %v", err)
	}
	if got := readLine(t, bufio.NewReader(r)); len(got) != limit-1 {
		t.Errorf("%d bytes", len(got))
	}
}

// A host that does not read has so many answers queued and no more; the others
// wait with whoever has them, and all arrive whole once it reads.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	r, f := newPipe(t)
	w := NewWriter(f, WriterOptions{})
	run(t, w)
	const answers, size = 30, 1 << 20
	var queued, back atomic.Int32
	for n := range answers {
		go func() {
			if err := w.Answer(t.Context(), func() { back.Add(1) }, bytes.Repeat([]byte{byte('A' + n)}, size)); err == nil {
				queued.Add(1)
			}
		}()
	}
	eventually(t, "all are queued or wait", func() bool { return int(queued.Load())+waiting(w) == answers })
	w.mu.Lock()
	cost, held := w.q.cost, w.q.answers
	w.mu.Unlock()
	if cost > DefaultQueue || cost < DefaultQueue-2*size || held != int(queued.Load()) {
		t.Errorf("%d bytes in %d lines are queued, %d callers went on", cost, held, queued.Load())
	}
	if back.Load() != 0 {
		t.Errorf("%d were given back", back.Load())
	}
	in := bufio.NewReaderSize(r, 64<<10)
	seen := map[byte]bool{}
	for range answers {
		line := readLine(t, in)
		if line != strings.Repeat(line[:1], size) || seen[line[0]] {
			t.Fatalf("torn or twice: %.20q of %d bytes", line, len(line))
		}
		seen[line[0]] = true
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if back.Load() != answers {
		t.Errorf("%d were given back", back.Load())
	}
}
