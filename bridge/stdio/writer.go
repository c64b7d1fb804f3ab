package stdio

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// DefaultQueue bounds the lines that wait for the host to read, in bytes.
const DefaultQueue = 16 << 20

// WriterOptions are what a Writer may be told. The zero value is valid.
type WriterOptions struct {
	Queue     int // bytes that may wait; 0 means DefaultQueue
	LineLimit int // the first size of a line, in bytes, that the host cannot take; 0: none

	// Oversize is told the size of each notification that was dropped for
	// reaching LineLimit. It may be nil.
	Oversize func(size int)
}

func (o WriterOptions) queue() int {
	if o.Queue <= 0 {
		return DefaultQueue
	}
	return o.Queue
}

// A Writer writes lines to the host. All methods are safe for concurrent use.
//
// Whoever has a line writes it at once if nothing waits and there is room;
// otherwise the line is queued for Run.
type Writer struct {
	sink  sink
	name  string // of the file, for errors
	bound int
	limit int // of a line; 0: none
	large func(size int)
	lost  func(n int64) []byte // what tells about dropped lines; may be nil
	wake  chan struct{}        // for Run: something is queued
	done  chan struct{}        // closed when a write failed

	mu      sync.Mutex
	err     error // why done is closed
	pen     bool  // somebody uses sink
	q       queue
	waiting []*waiter     // answers that found the queue full, in order
	idle    chan struct{} // closed when all is written; nil if nobody asks
	dropped int64
	told    int64     // of dropped
	since   time.Time // when the first of the pending answers came
	moved   time.Time // when the file last took something that had to wait
}

// A waiter is a line outside the queue.
type waiter struct {
	line     *line
	admitted chan struct{}
}

// NewWriter returns a Writer to f, which is stdout.
func NewWriter(f File, opts WriterOptions) *Writer {
	w := newWriter(newSink(f), "stdout", opts.queue())
	w.limit, w.large = opts.LineLimit, opts.Oversize
	return w
}

func newWriter(s sink, name string, bound int) *Writer {
	return &Writer{
		sink: s, name: name, bound: bound,
		wake: make(chan struct{}, 1),
		done: make(chan struct{}),
		q:    newQueue(),
	}
}

// Answer writes one line made of parts, which together are one JSON text. It
// returns when the line is written or queued, and waits while the queue has no
// room for it; an answer larger than the queue waits until the queue is empty.
//
// The parts are lent to the Writer: they must not change or go away before
// release is called, which happens once, whatever becomes of the line and maybe
// before Answer returns. It must not call the Writer; nil is nothing to do.
//
// It fails with an *OversizeError, with the error of ctx, or with that of Err,
// the line unwritten in the first two cases.
func (w *Writer) Answer(ctx context.Context, release func(), parts ...[]byte) error {
	size, same := measure(parts)
	if w.oversize(size) {
		if release != nil {
			release()
		}
		return &OversizeError{Size: size, Limit: w.limit}
	}
	l := newAnswer(parts, size, same, release)
	w.mu.Lock()
	switch {
	case w.err != nil:
		defer w.mu.Unlock()
		l.free()
		return w.err
	case w.free():
		return w.writeNow(l)
	}
	w.admit()
	w.pending()
	if len(w.waiting) == 0 && w.makeRoom(l) {
		w.enqueue(l)
		w.mu.Unlock()
		return nil
	}
	t := &waiter{line: l, admitted: make(chan struct{})}
	w.waiting = append(w.waiting, t)
	w.mu.Unlock()
	return w.await(ctx, t)
}

func (w *Writer) oversize(size int) bool { return w.limit > 0 && size >= w.limit }

// await waits until t is in the queue.
func (w *Writer) await(ctx context.Context, t *waiter) error {
	select {
	case <-t.admitted:
		return nil
	case <-w.done:
		return w.Err()
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range w.waiting {
		if other == t {
			w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
			t.line.free()
			w.admit() // those behind may be smaller
			return fmt.Errorf("answer the host: its pipe is full: %w", context.Cause(ctx))
		}
	}
	return w.err // in the queue, if not failed
}

// Notify writes one line like Answer and never waits; it copies the parts. What
// finds no room makes some by dropping notifications, or is dropped itself:
// first those of which a newer one with the same coalesce came, if that is not
// empty, then the oldest. As long as there is room, all of them are written.
func (w *Writer) Notify(coalesce string, parts ...[]byte) {
	size, same := measure(parts)
	if w.oversize(size) {
		w.dropLarge(size)
		return
	}
	l := newNote(parts, size, same)
	l.key = coalesce
	w.note(l)
}

func (w *Writer) dropLarge(size int) {
	w.mu.Lock()
	w.dropped++
	w.mu.Unlock()
	if w.large != nil {
		w.large(size)
	}
}

func (w *Writer) note(l *line) {
	w.mu.Lock()
	switch {
	case w.err != nil:
	case w.free():
		_ = w.writeNow(l) // Err tells
		return
	default:
		if w.q.cost+l.cost > w.bound {
			w.q.outdate(l.key)
		}
		w.shrink(l.cost)
		if w.q.cost+l.cost > w.bound && !w.q.empty() {
			w.dropped++
			break
		}
		w.enqueue(l)
	}
	w.mu.Unlock()
}

// Dropped returns how many notifications found no room or were too long. Those
// that a newer one had made stale do not count.
func (w *Writer) Dropped() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// Err returns the first failure of a write; nothing is written after it.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Done is closed when a write failed: the host is gone.
func (w *Writer) Done() <-chan struct{} { return w.done }

// Blocked reports whether answers wait for the host to read, and since when it
// has taken none of them.
func (w *Writer) Blocked() (since time.Time, yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.q.answers+len(w.waiting) == 0 {
		return time.Time{}, false
	}
	if w.moved.After(w.since) {
		return w.moved, true
	}
	return w.since, true
}

// The methods below want w.mu held.

// free reports whether a line may be written by whoever brings it.
func (w *Writer) free() bool {
	return !w.pen && w.q.empty() && len(w.waiting) == 0 && !w.sink.blocks() && w.untold() == 0
}

// untold returns how many lost lines the reader is to be told about.
func (w *Writer) untold() int64 {
	if w.lost == nil {
		return 0
	}
	return w.dropped - w.told
}

// pending notes that an answer is about to wait.
func (w *Writer) pending() {
	if w.q.answers+len(w.waiting) == 0 {
		w.since = time.Now()
	}
}

func (w *Writer) enqueue(l *line) {
	w.q.push(l)
	w.wakeRun()
}

func (w *Writer) wakeRun() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// shrink drops notifications, the stale and then the oldest first, until there
// is room for n more bytes or none is left.
func (w *Writer) shrink(n int) {
	for w.q.cost+n > w.bound && w.q.dropStale() {
	}
	for w.q.cost+n > w.bound && w.q.dropOldest() {
		w.dropped++
	}
}

// makeRoom makes room for an answer, if notifications are all that is in the
// way.
func (w *Writer) makeRoom(l *line) bool {
	if kept := w.q.cost - w.q.noteCost; kept > 0 && kept+l.cost > w.bound {
		return false
	}
	w.shrink(l.cost)
	return true
}

// admit lets waiting answers into the queue, strictly in order, so that a large
// one is not overtaken for ever.
func (w *Writer) admit() {
	for len(w.waiting) > 0 && w.makeRoom(w.waiting[0].line) {
		w.enqueue(w.waiting[0].line)
		close(w.waiting[0].admitted)
		w.waiting[0] = nil
		w.waiting = w.waiting[1:]
	}
}
