package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// This file and its kin are about the process that outlives its host. The
// process that the host started (the front, front.go) starts itself once more
// as a worker, which serves the host and holds the calls. Killing the front, or
// its whole process group, is then no end of a call that is under way:
//
//	host ──starts──▶ front ──starts──▶ worker (a process group of its own)
//	  └────── stdin, stdout, stderr ──────┘
//
// The two know each other by two pipes. The front holds the writing end of the
// lifeline: its end tells the worker that the front is gone. The worker holds
// the writing end of the release: a byte tells the front that the host's
// descriptors are let go of, so that the front can leave too.

const (
	// hostSignals is how long after the host's going a signal is still its own:
	// hosts close stdin, then send SIGTERM some 2 s later.
	hostSignals = 3 * time.Second
	// overdue is how long the bridge may take to leave after a signal.
	overdue = 400 * time.Millisecond
)

// A departure is how the host goes, and later the process: by the end of input,
// by signals, by the end of the front.
type departure struct {
	lingers bool          // a first signal is the host's going, and not yet the end
	end     chan struct{} // closed when the process is to leave, whatever is open
	gone    context.CancelFunc

	mu    sync.Mutex
	since time.Time // when the host went
}

// newDeparture returns a departure and a context that ends when the host is
// gone for certain.
func newDeparture(ctx context.Context, lingers bool) (*departure, context.Context) {
	ctx, gone := context.WithCancel(ctx)
	return &departure{lingers: lingers, end: make(chan struct{}), gone: gone}, ctx
}

// inputEnded notes that the host closed its end of standard input; what it
// asked for before may still be answered.
func (d *departure) inputEnded() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note()
}

// hostGone says that nobody is there any more.
func (d *departure) hostGone() {
	d.inputEnded()
	d.gone()
}

// signalled takes a signal that asks to leave. The first, and those within a
// short time of the host's going, are the host's; a later one is for the worker
// alone.
func (d *departure) signalled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.gone()
	if d.lingers && (d.since.IsZero() || time.Since(d.since) <= hostSignals) {
		d.note()
		return
	}
	select {
	case <-d.end:
	default:
		close(d.end)
	}
}

// note wants d.mu held.
func (d *departure) note() {
	if d.since.IsZero() {
		d.since = time.Now()
	}
}

// watchSignals feeds d until the returned function is called.
func (d *departure) watchSignals() (stop func()) {
	signals := make(chan os.Signal, 8)
	done := make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-signals:
				d.signalled()
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(signals); close(done) }
}

// within calls run and returns what it returns, or nil if it has not returned
// in time after the process was told to leave: what is open then is as if the
// process had been killed, which the journal is made for.
func (d *departure) within(limit time.Duration, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-d.end:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return nil
	}
}

// A hostSide is where the bridge in a worker meets its host.
type hostSide struct {
	stdin      io.Reader
	letGo      func()      // ends what the host can see of this process
	parentGone func() bool // whether the process that started the front is gone
}
