package stdio

import (
	"context"
	"fmt"
	"time"
)

// This file is about the pen: whoever set Writer.pen uses the sink, without
// holding the lock, and lays it down with release.

// writeNow is for a caller that found the writer free and holds the lock, which
// it gives up. What has no room becomes the first line of the queue.
func (w *Writer) writeNow(l *line) error {
	w.pen = true
	w.mu.Unlock()
	_, err := w.put(l)
	if err != nil || len(l.parts) == 0 {
		l.free()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		return w.fail(err)
	}
	if len(l.parts) > 0 {
		if l.answer {
			w.pending()
		}
		w.q.pushFront(l)
	}
	w.release()
	return nil
}

// put writes as much of l as there is room for and reports whether that was
// anything.
func (w *Writer) put(l *line) (some bool, err error) {
	for len(l.parts) > 0 {
		part := l.next()
		n, err := w.sink.write(part)
		if err != nil {
			return some, err
		}
		some = some || n > 0
		whole := n == len(part)
		l.written(n)
		if !whole {
			break
		}
	}
	return some, nil
}

// release lays the pen down. It wants w.mu held, like fail.
func (w *Writer) release() {
	w.pen = false
	if !w.q.empty() {
		w.wakeRun()
	}
	w.wakeFlush()
}

// fail ends the writer at the first failed write, after which the position in
// the stream is unknown.
func (w *Writer) fail(err error) error {
	w.err = fmt.Errorf("write %s: %w", w.name, err)
	w.q.free()
	for _, t := range w.waiting {
		t.line.free()
	}
	w.pen, w.q, w.waiting = false, newQueue(), nil
	close(w.done)
	w.wakeFlush()
	return w.err
}

func (w *Writer) wakeFlush() {
	if w.idle != nil {
		close(w.idle)
		w.idle = nil
	}
}

// Run writes what callers could not write themselves, until ctx is done or a
// write fails, whose error it returns.
func (w *Writer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.done:
			return w.Err()
		case <-w.wake:
		}
		if err := w.drain(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// Flush returns when everything that was queued is written. It needs no Run.
func (w *Writer) Flush(ctx context.Context) error {
	for {
		if err := w.drain(ctx); err != nil {
			return err
		}
		released, idle := w.watch()
		if idle {
			return w.Err()
		}
		select {
		case <-released:
		case <-ctx.Done():
			return w.unread(ctx)
		}
	}
}

func (w *Writer) unread(ctx context.Context) error {
	return fmt.Errorf("write %s: not all of it was read: %w", w.name, context.Cause(ctx))
}

// watch reports whether all is written, else it returns a channel that is
// closed when the pen is free.
func (w *Writer) watch() (released <-chan struct{}, idle bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || !w.pen && w.q.empty() {
		return nil, true
	}
	if w.idle == nil {
		w.idle = make(chan struct{})
	}
	released = w.idle
	if !w.pen {
		w.wakeFlush()
	}
	return released, false
}

// drain writes the queue unless somebody else is at it.
func (w *Writer) drain(ctx context.Context) error {
	w.mu.Lock()
	if w.err != nil || w.pen || w.q.empty() && w.untold() == 0 {
		defer w.mu.Unlock()
		return w.err
	}
	w.pen = true
	w.mu.Unlock()
	if !w.sink.blocks() {
		return w.writeQueue(ctx)
	}
	// Nothing ends a write that waits. It is left alone, with the pen.
	written := make(chan error, 1)
	go func() { written <- w.writeQueue(ctx) }()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return w.unread(ctx)
	}
}

// writeQueue wants the pen and releases it. It fails if ctx ends it before the
// queue is empty.
func (w *Writer) writeQueue(ctx context.Context) error {
	for {
		l, err := w.next(ctx)
		if l == nil {
			return err
		}
		some, err := w.put(l)
		if len(l.parts) == 0 {
			l.free()
		}
		whole, err := w.account(l, some, err)
		if err != nil {
			return err
		}
		if !whole {
			w.sink.wait(pollSlice)
		}
	}
}

// next returns the line to write next. With none, or with ctx done, it releases
// the pen.
func (w *Writer) next(ctx context.Context) (*line, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.untold()
	switch {
	case w.q.empty() && n == 0:
		w.release()
		return nil, nil
	case ctx.Err() != nil:
		w.release()
		return nil, w.unread(ctx)
	case n > 0 && !w.q.begun():
		l := plainLine(w.lost(n))
		l.tells = n
		return l, nil
	}
	return w.q.first(), nil
}

// account notes what became of the line that next returned and reports whether
// it is written.
func (w *Writer) account(l *line, some bool, err error) (whole bool, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		return false, w.fail(err)
	}
	if some {
		w.moved = time.Now()
	}
	whole = len(l.parts) == 0
	switch {
	case l.tells > 0:
		w.accountTelling(l, some)
	case whole:
		w.q.removeFirst()
		w.admit()
	default:
		w.q.offerFirst()
	}
	return whole, nil
}

// accountTelling is account for a line about lost lines. It is in no queue
// before a part of it is written: until then its number may grow.
func (w *Writer) accountTelling(l *line, some bool) {
	if !some {
		return
	}
	w.told += l.tells
	l.tells = 0
	if len(l.parts) > 0 {
		w.q.pushFront(l)
	}
}
