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
	file    *os.File    // nil if not open
	info    os.FileInfo // of file
	pending *helper     // waits in the kernel, with file; nil if none does
}

type helper struct {
	file *os.File
	err  error
	done chan struct{}

	wanted bool // acquire is waiting for it
	left   bool // nobody else has its file any more
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
// that the helper waits for it. A file that was removed under its holder, or under
// the helper, keeps nobody from the one that is there now.
func (l *turnLock) attempt() (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range maxReplaced {
		if l.pending == nil {
			if ok, err := l.try(); ok || err != nil {
				return l.file, err
			}
		}
		if there, err := os.Stat(l.path); err == nil && os.SameFile(l.info, there) {
			return nil, nil
		}
		l.drop()
	}
	return nil, fmt.Errorf("lock %q: the file is replaced again and again", l.path)
}

// try opens the file if it is not open and locks it if that is free; mu is held.
func (l *turnLock) try() (ok bool, err error) {
	if l.file == nil {
		if l.file, l.info, err = l.open(); err != nil {
			return false, err
		}
	}
	if ok, err = lockFile(l.file, l.shared, false); err != nil {
		l.drop()
	}
	return ok, err
}

// open opens the file, which a reader need not be able to write to.
func (l *turnLock) open() (*os.File, os.FileInfo, error) {
	flag := os.O_CREATE | os.O_RDWR
	if l.shared {
		flag = os.O_CREATE | os.O_RDONLY
	}
	f, err := os.OpenFile(l.path, flag, 0o600)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
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
	if l.leave(h) {
		return nil, &lateError{holder: readPID(l.path)}
	}
	<-h.done // it came at the last moment
	return h.file, h.err
}

// enlist joins the helper that is waiting already, or starts one.
func (l *turnLock) enlist() *helper {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		l.pending = &helper{file: l.file, done: make(chan struct{})}
		go l.help(l.pending)
	}
	l.pending.wanted = true
	return l.pending
}

// leave says that nobody waits any more; it reports false if the lock has just
// been handed over.
func (l *turnLock) leave(h *helper) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending != h {
		return false
	}
	h.wanted = false
	return true
}

func (l *turnLock) help(h *helper) {
	_, h.err = lockFile(h.file, l.shared, true)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(h.done)
	if h.err == nil && !h.wanted {
		_ = unlockFile(h.file)
	}
	if h.left {
		_ = h.file.Close()
		return
	}
	l.pending = nil
	if h.err != nil {
		l.drop()
	}
}

// close gives the file back; the lock is not held.
func (l *turnLock) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

// drop closes the file, or has the helper that waits with it do so; mu is held.
func (l *turnLock) drop() {
	switch {
	case l.pending != nil:
		l.pending.left, l.pending.wanted = true, false
	case l.file != nil:
		_ = l.file.Close()
	}
	l.pending, l.file, l.info = nil, nil, nil
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
