package stdio

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"
)

// A blockingFile is a pipe that cannot be asked for room, as on Windows.
type blockingFile struct{ io.Writer }

func (blockingFile) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

// A write that waits holds up neither who answers nor who stops.
func TestFileThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	r, pipe := io.Pipe()
	w := NewWriter(blockingFile{pipe}, WriterOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for _, line := range []string{"one", "two"} {
		if err := w.Answer(t.Context(), nil, []byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	buf := make([]byte, 4)
	if _, err := io.ReadFull(r, buf); string(buf) != "one\n" || err != nil {
		t.Errorf("%q, %v", buf, err)
	}
	if _, yes := w.Blocked(); !yes {
		t.Error("not blocked")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	flush, done := context.WithTimeout(t.Context(), time.Millisecond)
	defer done()
	if err := w.Flush(flush); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("flush: %v", err)
	}
	go io.ReadFull(r, buf)
	if err := w.Flush(t.Context()); err != nil {
		t.Errorf("flush: %v", err)
	}
	r.Close()
}
