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
// goroutine at a time. It keeps the file open between two turns, which package
// flock does not: that would be half of what taking a lock costs. Waiting is done
// by a helper inside the kernel's queue, which is fair where polling is not; a
// helper that gets the lock after nobody wants it any more gives it back.
type turnLock struct {
	path   string
	shared bool

	mu      sync.Mutex
	file    *os.File // nil if not open
	pending *helper  // waits in the kernel, with file; nil if none does
	wanted  bool     // acquire is waiting for pending
	closed  bool     // the helper closes the file
}

type helper struct {
	file *os.File
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
		if !isAt(f, l.path) {
			_ = unlockFile(f)
			l.close()
			continue
		}
		if !l.shared {
			writePID(f)
		}
		return func() { _ = unlockFile(f) }, nil
	}
	return nil, fmt.Errorf("lock %q: the file is replaced again and again", l.path)
}

// attempt takes the lock if it is free; nil and no error means that it is not, or
// that the helper waits for it.
func (l *turnLock) attempt() (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending != nil {
		return nil, nil
	}
	if l.file == nil {
		f, err := l.open()
		if err != nil {
			return nil, err
		}
		l.file = f
	}
	if ok, err := lockFile(l.file, l.shared, false); !ok || err != nil {
		return nil, err
	}
	return l.file, nil
}

// open opens the file, which a reader need not be able to write to.
func (l *turnLock) open() (*os.File, error) {
	flag := os.O_CREATE | os.O_RDWR
	if l.shared {
		flag = os.O_CREATE | os.O_RDONLY
	}
	return os.OpenFile(l.path, flag, 0o600)
}

func (l *turnLock) wait(limit time.Duration) (*os.File, error) {
	h := l.enlist()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-h.done:
		return h.file, h.err
	case <-t.C:
	}
	if l.leave() {
		return nil, &lateError{holder: readPID(l.path)}
	}
	<-h.done // it came at the last moment
	return h.file, h.err
}

// enlist joins the helper that is waiting already, or starts one.
func (l *turnLock) enlist() *helper {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = true
	if l.pending == nil {
		l.pending = &helper{file: l.file, done: make(chan struct{})}
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
	_, h.err = lockFile(h.file, l.shared, true)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.wanted && h.err == nil {
		_ = unlockFile(h.file)
	}
	if l.closed {
		_ = h.file.Close()
	}
	l.pending, l.wanted = nil, false
	close(h.done)
}

// close gives the file back; the lock is not held. A helper that still waits for
// it does so itself.
func (l *turnLock) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.pending != nil:
		l.closed = true
	case l.file != nil:
		_ = l.file.Close()
	}
	l.file = nil
}

// isAt reports whether an open file is the one that a path names.
func isAt(f interface{ Stat() (os.FileInfo, error) }, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(opened, there)
}

// samePath reports whether a locked file is the one that its path names.
func samePath(f *flock.Flock) bool { return isAt(f, f.Path()) }

// writePID leaves our process id in the lock file for whoever waits in vain.
// It is information only, so errors do not matter.
func writePID(f *os.File) {
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
