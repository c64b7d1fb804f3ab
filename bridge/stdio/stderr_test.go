//go:build unix

package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestStderrIsWrittenAtOnce(t *testing.T) {
	eachPipe(t, func(t *testing.T, r, f *os.File) {
		s := NewStderr(f) // no Run
		in := bufio.NewReader(r)
		for _, text := range []string{"a\u2028 {\n", "two\nlines", ""} {
			if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		for _, want := range []string{"a\u2028 {", "two", "lines", ""} {
			if got := readLine(t, in); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

// A host that never reads stderr must not stop the process.
func TestStderrThatNobodyReads(t *testing.T) {
	eachPipe(t, func(t *testing.T, r, f *os.File) {
		s := NewStderr(f)
		stop := run(t, s)
		line := []byte(strings.Repeat("x", 199) + "\n")
		const lines = 5000 // 1 MB
		for n := range lines {
			copy(line, fmt.Sprintf("%04d ", n))
			if _, err := s.Write(line); err != nil {
				t.Fatal(err)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if n := s.Lost(); n < lines/2 || n > lines {
			t.Errorf("%d lines lost", n)
		}
		if err := s.Close(time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		lost := s.Lost()
		got := readAll(r)
		if err := s.Close(10 * time.Second); err != nil {
			t.Error(err)
		}
		f.Close()
		all := string(receive(t, got))
		if n := told(all); n != lost {
			t.Errorf("told of %d lost lines, lost %d", n, lost)
		}
		if n := strings.Count(all, "xxx\n"); int64(n) != lines-lost {
			t.Errorf("%d lines came, %d were lost", n, lost)
		}
		if !strings.HasPrefix(all, "0000 ") || !strings.Contains(all, "\n4999 ") {
			t.Error("neither the first nor the last line may be lost")
		}
	})
}

// told sums up what the reader was told. That may come in parts: a short line
// finds room in a pipe where the next long one does not.
func told(all string) (sum int64) {
	for line := range strings.Lines(all) {
		if n, ok := strings.CutSuffix(line, " lines lost: stderr was not read\n"); ok {
			k, _ := strconv.ParseInt(n, 10, 64)
			sum += k
		}
	}
	return sum
}

// Lines lost behind the last one that came are told about as well.
func TestStderrTellsOfLinesLostLast(t *testing.T) {
	t.Parallel()
	r, f := newPipe(t)
	s := NewStderr(f)
	s.Write(bytes.Repeat([]byte("x"), 200_000)) // begun, and fills the queue
	s.Write([]byte("lost"))
	got := readAll(r)
	if err := s.Close(10 * time.Second); err != nil {
		t.Error(err)
	}
	f.Close()
	if b := receive(t, got); !bytes.HasSuffix(b, []byte("x\n1 lines lost: stderr was not read\n")) {
		t.Errorf("ends in %q", b[max(0, len(b)-50):])
	}
}

func TestStderrThatIsClosed(t *testing.T) {
	t.Parallel()
	r, f := newPipe(t)
	r.Close()
	s := NewStderr(f)
	stop := run(t, s)
	for range 3 {
		if n, err := s.Write([]byte("x")); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("run: %v", err)
	}
}
