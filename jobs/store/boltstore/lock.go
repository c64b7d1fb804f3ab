package boltstore

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// A turnLock is one place in the line for a lock file. It is used by one
// goroutine at a time. Waiting is done by a helper inside the kernel's queue,
// which is fair where polling is not; a helper that gets the lock after nobody
// wants it any more gives it back.
type turnLock struct {
	path   string
	shared bool

	mu      sync.Mutex
	pending *helper // waiting in the kernel; nil if none is
	wanted  bool    // acquire is waiting for pending
}

type helper struct {
	lock *flock.Flock
	err  error
	done chan struct{}
}

// A lateError says that the lock was not free in time.
type lateError struct{ holder int }

func (e *lateError) Error() string { return fmt.Sprintf("held by process %d", e.holder) }

// pidOffset leaves the first byte alone: on Windows that is what is locked, and
// a locked byte cannot be read by others.
const pidOffset = 1

// maxReplaced bounds how often acquire starts over because somebody removed the
// lock file under it.
const maxReplaced = 10

// acquire takes the lock, waiting at most limit, and returns how to give it
// back. Otherwise it returns a *lateError or what the system said.
func (l *turnLock) acquire(limit time.Duration) (release func(), err error) {
	for range maxReplaced {
		f, err := l.attempt()
		if f == nil && err == nil {
			f, err = l.wait(limit)
		}
		if err != nil {
			return nil, err
		}
		if !samePath(f) {
			_ = f.Unlock()
			continue
		}
		if !l.shared {
			writePID(l.path)
		}
		return func() { _ = f.Unlock() }, nil
	}
	return nil, fmt.Errorf("lock %q: the file is replaced again and again", l.path)
}

// attempt takes the lock if it is free; nil and no error means that it is not.
func (l *turnLock) attempt() (*flock.Flock, error) {
	f := flock.New(l.path)
	try := f.TryLock
	if l.shared {
		try = f.TryRLock
	}
	switch ok, err := try(); {
	case err != nil:
		return nil, err
	case !ok:
		return nil, nil
	}
	return f, nil
}

func (l *turnLock) wait(limit time.Duration) (*flock.Flock, error) {
	h := l.enlist()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-h.done:
		return h.lock, h.err
	case <-t.C:
	}
	if l.leave() {
		return nil, &lateError{holder: readPID(l.path)}
	}
	<-h.done // it came at the last moment
	return h.lock, h.err
}

// enlist joins the helper that is waiting already, or starts one.
func (l *turnLock) enlist() *helper {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = true
	if l.pending == nil {
		l.pending = &helper{lock: flock.New(l.path), done: make(chan struct{})}
		go l.help(l.pending)
	}
	return l.pending
}

// leave says that nobody waits any more; it reports false if the lock has just
// been handed over.
func (l *turnLock) leave() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		return false
	}
	l.wanted = false
	return true
}

func (l *turnLock) help(h *helper) {
	if l.shared {
		h.err = h.lock.RLock()
	} else {
		h.err = h.lock.Lock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.wanted {
		_ = h.lock.Unlock()
	}
	l.pending, l.wanted = nil, false
	close(h.done)
}

// samePath reports whether the locked file is the one that the path names.
func samePath(f *flock.Flock) bool {
	locked, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(f.Path())
	return err == nil && os.SameFile(locked, named)
}

// writePID leaves our process id in the lock file for whoever waits in vain.
// It is information only, so errors do not matter.
func writePID(path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteAt(fmt.Appendf(nil, "%-12d\n", os.Getpid()), pidOffset)
}

// readPID returns the process id in the lock file, 0 if there is none.
func readPID(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	var buf [16]byte
	n, _ := f.ReadAt(buf[:], pidOffset)
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(buf[:n])))
	return pid
}
