//go:build unix

package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAnswerIsWrittenByItsCaller(t *testing.T) {
	eachPipe(t, func(t *testing.T, r, f *os.File) {
		w := NewWriter(f, WriterOptions{}) // no Run
		if err := w.Answer(t.Context(), nil, []byte(`{"id":`), []byte("1,\r\n"), []byte("\"a\":\"\u2028\"}")); err != nil {
			t.Fatal(err)
		}
		w.Notify("p", []byte("{}"))
		in := bufio.NewReader(r)
		if got := readLine(t, in); got != `{"id":1,"a":"\u2028"}` {
			t.Errorf("got %q", got)
		}
		if got := readLine(t, in); got != "{}" {
			t.Errorf("got %q", got)
		}
		if _, yes := w.Blocked(); yes {
			t.Error("blocked")
		}
	})
}

func TestLargeLines(t *testing.T) {
	eachPipe(t, func(t *testing.T, r, f *os.File) {
		w := NewWriter(f, WriterOptions{})
		stop := run(t, w)
		got := readAll(r)
		big := bytes.Repeat([]byte("\"’é\", x"), 16<<20/10)
		for _, parts := range [][][]byte{{[]byte("{"), big, []byte("}")}, {[]byte("small")}, {[]byte("[\n"), big[:1<<20], []byte("\n]")}} {
			if err := w.Answer(t.Context(), nil, parts...); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		f.Close()
		want := fmt.Sprintf("{%s}\nsmall\n[%s]\n", big, big[:1<<20])
		if b := receive(t, got); string(b) != want {
			t.Errorf("%d bytes, want %d", len(b), len(want))
		}
	})
}

func TestLinesAreNeverTorn(t *testing.T) {
	eachPipe(t, func(t *testing.T, r, f *os.File) {
		const callers, each = 50, 20
		w := NewWriter(f, WriterOptions{Queue: 1 << 20})
		stop := run(t, w)
		got := readAll(r)
		var all sync.WaitGroup
		for c := range callers {
			all.Go(func() {
				for n := range each {
					body := strings.Repeat(string(rune('a'+c%26)), (c*each+n)*7919%90_000)
					if err := w.Answer(t.Context(), nil, fmt.Appendf(nil, "%d %d ", c, n), []byte(body)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		f.Close()
		next := make([]int, callers)
		for line := range strings.Lines(string(receive(t, got))) {
			words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
			c, _ := strconv.Atoi(words[0])
			n, err := strconv.Atoi(words[1])
			if err != nil || n != next[c] {
				t.Fatalf("caller %d: line %d came as number %d", c, n, next[c])
			}
			next[c]++
			if words[2] != strings.Repeat(string(rune('a'+c%26)), (c*each+n)*7919%90_000) {
				t.Fatalf("torn: %.80q", line)
			}
		}
		for c, n := range next {
			if n != each {
				t.Errorf("caller %d: %d lines", c, n)
			}
		}
	})
}

func TestFullPipeHoldsNobodyUp(t *testing.T) {
	eachPipe(t, func(t *testing.T, r, f *os.File) {
		w := NewWriter(f, WriterOptions{})
		stop := run(t, w)
		before := time.Now()
		big := fill(t, w)
		since, yes := w.Blocked()
		if !yes || since.Before(before) || since.After(time.Now()) {
			t.Errorf("blocked %v since %v", yes, since)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Flush(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("flush: %v", err)
		}
		if err := stop(); err != nil {
			t.Errorf("run: %v", err)
		}
		go w.Flush(t.Context()) // goes on where Run stopped
		if got := readLine(t, bufio.NewReaderSize(r, 4<<20)); got != string(big) {
			t.Errorf("%d bytes of %d", len(got), len(big))
		}
		eventually(t, "unblocked", func() bool { _, yes := w.Blocked(); return !yes })
	})
}

func TestHostThatLeaves(t *testing.T) {
	eachPipe(t, func(t *testing.T, r, f *os.File) {
		w := NewWriter(f, WriterOptions{Queue: 1 << 20})
		fill(t, w)
		ended := make(chan error, 2)
		go func() { ended <- w.Run(t.Context()) }()
		go func() { ended <- w.Answer(t.Context(), nil, []byte("waits")) }()
		eventually(t, "an answer waits", func() bool { return waiting(w) == 1 })
		r.Close()
		for range 2 {
			if err := receive(t, ended); !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("ended with %v", err)
			}
		}
		receive(t, w.Done())
		if err := w.Answer(t.Context(), nil, nil); err == nil || err != w.Err() {
			t.Errorf("afterwards: %v", err)
		}
		w.Notify("", []byte("x"))
		if err := w.Flush(t.Context()); err != w.Err() {
			t.Errorf("flush: %v", err)
		}
	})
}

func TestHostThatLeftBefore(t *testing.T) {
	eachPipe(t, func(t *testing.T, r, f *os.File) {
		w := NewWriter(f, WriterOptions{})
		r.Close()
		if err := w.Answer(t.Context(), nil, []byte("x")); !errors.Is(err, unix.EPIPE) {
			t.Errorf("got %v", err)
		}
		receive(t, w.Done())
	})
}

func waiting(w *Writer) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting)
}

// A process that lets its stdout go while a line waits must free the pipe: the
// host waits for its end.
func TestLetGoOfAFullPipe(t *testing.T) {
	eachPipe(t, func(t *testing.T, r, f *os.File) {
		w := NewWriter(f, WriterOptions{})
		run(t, w)
		fill(t, w)
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, null)
		control(t, f, func(to int) {
			control(t, null, func(from int) { err = dupOver(from, to) })
		})
		if err != nil {
			t.Fatal(err)
		}
		if b := receive(t, readAll(r)); len(b) == 0 || len(b) >= 1<<20 {
			t.Errorf("the host got %d bytes", len(b))
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Errorf("the rest: %v", err)
		}
	})
}

// Whatever takes the place of stdout, a write does not wait.
func TestOtherFileUnderTheDescriptor(t *testing.T) {
	t.Parallel()
	for _, from := range pipeMakers {
		for _, to := range pipeMakers {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				t.Parallel()
				_, f := from.make(t)
				r, other := to.make(t)
				w := NewWriter(f, WriterOptions{})
				if err := w.Answer(t.Context(), nil, []byte("old")); err != nil {
					t.Fatal(err)
				}
				control(t, f, func(to int) {
					control(t, other, func(from int) {
						if err := dupOver(from, to); err != nil {
							t.Error(err)
						}
					})
				})
				fill(t, w)
				run(t, w)
				if got := readLine(t, bufio.NewReaderSize(r, 2<<20)); len(got) != 1<<20 {
					t.Errorf("%d bytes", len(got))
				}
			})
		}
	}
}

// Without a write that does not wait, what is sure to fit is written.
func TestPipeOfAnOldSystem(t *testing.T) {
	t.Parallel()
	r, f := newPipe(t)
	w := NewWriter(f, WriterOptions{})
	w.sink.(*pollSink).plain = true
	big := fill(t, w)
	stop := run(t, w)
	got := readAll(r)
	if err := w.Answer(t.Context(), nil, []byte("next")); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	f.Close()
	if b := receive(t, got); string(b) != string(big)+"\nnext\n" {
		t.Errorf("%d bytes", len(b))
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, f)
	w := NewWriter(f, WriterOptions{})
	big := bytes.Repeat([]byte("x"), 3<<20)
	if err := errors.Join(w.Answer(t.Context(), nil, big), w.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != string(big)+"\n" {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestNotificationsGoFirstAndAnswersWait(t *testing.T) {
	eachPipe(t, func(t *testing.T, r, f *os.File) {
		const size = 10_000
		pad := bytes.Repeat([]byte("x"), size)
		w := NewWriter(f, WriterOptions{Queue: 5 * (size + 1000)})
		big := fill(t, w) // over the bound by itself, so it must be read first
		in := bufio.NewReaderSize(r, 64)
		stop := run(t, w)
		if readLine(t, in) != string(big) {
			t.Fatal("torn")
		}
		stop()
		block := fillExactly(t, w)
		for n := range 7 { // 5 find room
			w.Notify("", fmt.Appendf(nil, "note %d ", n), pad)
		}
		if n := w.Dropped(); n != 2 {
			t.Errorf("%d dropped, want 2", n)
		}
		for n := range 4 { // takes the place of 4 notes
			if err := w.Answer(t.Context(), nil, fmt.Appendf(nil, "answer %d ", n), pad); err != nil {
				t.Fatal(err)
			}
		}
		if n := w.Dropped(); n != 6 {
			t.Errorf("%d dropped, want 6", n)
		}
		answered := make(chan error, 2)
		go func() { answered <- w.Answer(t.Context(), nil, []byte("large "), pad, pad) }()
		eventually(t, "the large answer waits", func() bool { return waiting(w) == 1 })
		go func() { answered <- w.Answer(t.Context(), nil, []byte("small")) }()
		eventually(t, "the small answer waits behind it", func() bool { return waiting(w) == 2 })
		run(t, w)
		skip(t, in, block)
		for _, want := range []string{"note 6", "answer 0", "answer 1", "answer 2", "answer 3", "large", "small"} {
			if got := readLine(t, in); !strings.HasPrefix(got, want) {
				t.Errorf("got %.20q, want %q", got, want)
			}
		}
		for range 2 {
			if err := receive(t, answered); err != nil {
				t.Error(err)
			}
		}
	})
}

// fillExactly fills the file so that not one byte fits and nothing is queued,
// and returns how many bytes that took.
func fillExactly(t *testing.T, w *Writer) (size int) {
	t.Helper()
	for _, block := range [][]byte{make([]byte, 4096), make([]byte, 1)} {
		for {
			n, err := w.sink.write(block)
			if err != nil {
				t.Fatal(err)
			}
			if size += n; n < len(block) {
				break
			}
		}
	}
	return size
}

func skip(t *testing.T, in *bufio.Reader, n int) {
	t.Helper()
	if _, err := io.CopyN(io.Discard, in, int64(n)); err != nil {
		t.Fatal(err)
	}
}

func TestAnswerLargerThanTheQueue(t *testing.T) {
	t.Parallel()
	r, f := newPipe(t)
	w := NewWriter(f, WriterOptions{Queue: 1000})
	block := fillExactly(t, w)
	if err := w.Answer(t.Context(), nil, []byte("first")); err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 1<<20)
	answered := make(chan error, 1)
	go func() { answered <- w.Answer(t.Context(), nil, []byte(big)) }()
	eventually(t, "it waits", func() bool { return waiting(w) == 1 })
	run(t, w)
	in := bufio.NewReader(r)
	skip(t, in, block)
	if got := readLine(t, in); got != "first" {
		t.Errorf("got %.20q", got)
	}
	if got := readLine(t, in); got != big {
		t.Errorf("got %d bytes", len(got))
	}
	if err := receive(t, answered); err != nil {
		t.Error(err)
	}
}

func TestAnswerThatGivesUp(t *testing.T) {
	t.Parallel()
	r, f := newPipe(t)
	w := NewWriter(f, WriterOptions{Queue: 2000})
	block := fillExactly(t, w)
	w.Answer(t.Context(), nil, []byte("first"))
	cause := errors.New("nobody wants it")
	ctx, cancel := context.WithCancelCause(t.Context())
	answered, behind := make(chan error, 1), make(chan error, 1)
	go func() { answered <- w.Answer(ctx, nil, make([]byte, 5000)) }()
	eventually(t, "it waits", func() bool { return waiting(w) == 1 })
	go func() { behind <- w.Answer(t.Context(), nil, []byte("second")) }()
	eventually(t, "another waits", func() bool { return waiting(w) == 2 })
	cancel(cause)
	if err := receive(t, answered); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	if err := receive(t, behind); err != nil { // there is room for it
		t.Error(err)
	}
	run(t, w)
	in := bufio.NewReader(r)
	skip(t, in, block)
	for _, want := range []string{"first", "second"} {
		if got := readLine(t, in); got != want {
			t.Errorf("got %.20q, want %q", got, want)
		}
	}
}

// As long as there is room every notification is written, whatever its key.
func TestNothingIsCoalescedWhileThereIsRoom(t *testing.T) {
	t.Parallel()
	r, f := newPipe(t)
	w := NewWriter(f, WriterOptions{})
	block := fillExactly(t, w)
	var want []string
	for n := range 1000 {
		want = append(want, fmt.Sprintf("%c %d", 'a'+n%3, n))
		w.Notify(want[n][:1], []byte(want[n]))
	}
	run(t, w)
	in := bufio.NewReader(r)
	skip(t, in, block)
	for _, line := range want {
		if got := readLine(t, in); got != line {
			t.Fatalf("got %q, want %q", got, line)
		}
	}
}

// What a newer notification of its key made stale goes first, then the oldest.
func TestCoalescing(t *testing.T) {
	t.Parallel()
	r, f := newPipe(t)
	w := NewWriter(f, WriterOptions{Queue: 8 * (lineCost + 4)}) // 8 lines of 3 bytes
	block := fillExactly(t, w)
	for _, note := range []string{"a 1", "b 1", "- 1", "a 2", "b 2", "a 3", "- 2", "d 1"} {
		w.Notify(strings.Trim(note[:1], "-"), []byte(note))
	}
	w.Notify("d", []byte("d 2")) // d 1 is stale too, but a 1 is older
	if err := w.Answer(t.Context(), nil, []byte("yes")); err != nil {
		t.Fatal(err)
	}
	w.Notify("e", []byte("e 1"))
	w.Notify("a", []byte("a 4"))
	if w.Dropped() != 0 {
		t.Errorf("%d count as dropped", w.Dropped())
	}
	w.Notify("", []byte("- 3")) // d 1, the last of the stale ones
	w.Notify("", []byte("- 4")) // the oldest: a 3 is stale by then
	w.Notify("", []byte("- 5"))
	if w.Dropped() == 0 {
		t.Error("none was dropped")
	}
	run(t, w)
	in := bufio.NewReader(r)
	skip(t, in, block)
	for _, want := range []string{"- 2", "d 2", "yes", "e 1", "a 4", "- 3", "- 4", "- 5"} {
		if got := readLine(t, in); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.q.cost != 0 || w.q.noteCost != 0 || w.q.answers != 0 || len(w.q.byKey) != 0 || w.q.notes.Len() != 0 || w.q.stale.Len() != 0 {
		t.Errorf("left in the empty queue: %+v", w.q)
	}
}

// A notification that Run has in hand is not lost to a newer one of its key.
func TestCoalescingWithALineInHand(t *testing.T) {
	t.Parallel()
	r, f := newPipe(t)
	w := NewWriter(f, WriterOptions{})
	block := fillExactly(t, w)
	w.Notify("a", []byte("0"))
	run(t, w)
	for n := range 1000 {
		w.Notify("a", fmt.Append(nil, n+1))
	}
	in := bufio.NewReader(r)
	skip(t, in, block)
	last := ""
	for last != "1000" {
		next := readLine(t, in)
		if len(next) < len(last) || len(next) == len(last) && next <= last {
			t.Fatalf("%s after %s", next, last)
		}
		last = next
	}
}
