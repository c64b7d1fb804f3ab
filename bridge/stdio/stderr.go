package stdio

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// stderrQueue bounds what waits for the reader of stderr, in bytes. Hosts that
// never read it are a fact (a pipe then holds 64 KiB more).
const stderrQueue = 64 << 10

// A Stderr is an io.Writer for logs. A Write is one line or several that belong
// together; it never waits and never fails. Lines that find no room push the
// oldest ones out, and the reader is told how many were lost.
type Stderr struct{ w *Writer }

// NewStderr returns a Stderr to f.
func NewStderr(f File) *Stderr {
	w := newWriter(newSink(f), "stderr", stderrQueue)
	w.lost = func(n int64) []byte { return fmt.Appendf(nil, "%d lines lost: stderr was not read", n) }
	return &Stderr{w}
}

// Write queues p or writes it, with one line end behind it.
func (s *Stderr) Write(p []byte) (int, error) {
	s.w.note(plainLine(bytes.TrimSuffix(p, []byte(lineFeed))))
	return len(p), nil
}

// Run writes what Write could not, until ctx is done or stderr is broken; it
// returns nil, because nothing follows from either. Without Run, lines that
// found no room wait for Close.
func (s *Stderr) Run(ctx context.Context) error {
	_ = s.w.Run(ctx)
	return nil
}

// Lost returns how many lines were lost.
func (s *Stderr) Lost() int64 { return s.w.Dropped() }

// Close writes what is left, for at most timeout. It does not close the file.
func (s *Stderr) Close(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.w.Flush(ctx)
}
