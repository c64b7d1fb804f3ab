//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors that a worker inherits behind the three of the host.
const (
	lifelineFD = 3
	releaseFD  = 4
)

// frontVariable tells a worker which pipe its lifeline is: a descriptor alone
// could be one that the host left open by mistake. It is no setting, and gone
// from the environment before anything else is started.
const frontVariable = "MCPBRIDGE_FRONT"

// crashFile, in the state directory, takes what the runtime says when a worker
// without standard error crashes.
const crashFile = "crash.log"

// What the front and the worker tell each other, a byte each.
const (
	sayReleased   = 'r' // worker: the host's descriptors are let go of
	sayParentGone = 'p' // front: the process that started it is gone
)

// A worker is this process, if it was started by a front.
type worker struct {
	lifeline *os.File
	release  *os.File
	orphan   atomic.Bool // the host's process is gone
	once     sync.Once
}

// joinFront returns the worker that this process is, or nil.
func joinFront(env lookup) *worker {
	mark, _ := env(frontVariable)
	_ = os.Unsetenv(frontVariable)
	if mark == "" || pipeMark(lifelineFD) != mark || pipeMark(releaseFD) == "" {
		return nil
	}
	for _, fd := range []int{lifelineFD, releaseFD} {
		unix.CloseOnExec(fd)
		_ = unix.SetNonblock(fd, true) // or each would keep a thread
	}
	// A log line to the host's terminal must not stop a worker in the background,
	// as "stty tostop" would have it.
	signal.Ignore(syscall.SIGTTOU)
	return &worker{lifeline: os.NewFile(lifelineFD, "lifeline"), release: os.NewFile(releaseFD, "release")}
}

// pipeMark names the pipe that fd is open on, in this process or another; "" if
// it is no pipe.
func pipeMark(fd int) string {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return ""
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// serve returns the worker's side of the host. Letting go moves to dir.
func (w *worker) serve(d *departure, stdin *os.File, dir string) (hostSide, error) {
	in, err := newInput(int(stdin.Fd()), d.inputEnded)
	if err != nil {
		return hostSide{}, fmt.Errorf("read from the host: %w", err)
	}
	go w.watchFront(d)
	letGo := func() {
		w.once.Do(func() {
			d.hostGone()
			w.letGo(dir)
			in.stop()
		})
	}
	return hostSide{stdin: in, letGo: letGo, parentGone: w.orphan.Load}, nil
}

// watchFront returns when the front is gone, which is the host's end.
func (w *worker) watchFront(d *departure) {
	said := make([]byte, 1)
	for {
		n, err := w.lifeline.Read(said)
		if n == 1 && said[0] == sayParentGone {
			w.orphan.Store(true)
		}
		if err != nil {
			d.hostGone()
			return
		}
	}
}

// letGo lets the host see the end of its three pipes, and the front leave.
// Nothing is closed: the next file opened would become standard error, and a
// crash would be written into it.
func (w *worker) letGo(dir string) {
	if f, err := os.OpenFile(filepath.Join(dir, crashFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		_ = debug.SetCrashOutput(f, debug.CrashOptions{}) // takes a duplicate
		_ = f.Close()
	}
	_ = os.Chdir(dir) // stays where it is if there is none; nothing relative is opened
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for _, fd := range inheritedFDs() {
			_ = replaceFD(int(null.Fd()), fd)
		}
		_ = null.Close()
	}
	_, _ = w.release.Write([]byte{sayReleased})
	_ = w.release.Close()
	_ = w.lifeline.Close()
}

// inheritedFDs lists the descriptors that others opened: the host's three, and
// what it left open by mistake. Every file that this process opens is to be
// closed on exec.
func inheritedFDs() []int {
	list := []int{0, 1, 2}
	entries, _ := os.ReadDir("/dev/fd")
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			list = append(list, fd)
		}
	}
	return list
}

// An input reads from the host without ever waiting inside a read, which would
// keep the host's pipe open after it was let go of.
type input interface {
	// Read calls what newInput was given when the host has ended its output.
	io.Reader
	// stop makes a Read that waits return io.EOF, and every later one.
	stop()
}

// A hostInput is an input that waits in poll.
type hostInput struct {
	ended func()
	woken *os.File // its end wakes a reader
	wake  *os.File
	poll  [2]unix.PollFd // of the host's pipe and of woken
}

func newHostInput(fd int, ended func()) (*hostInput, error) {
	woken, wake, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	in := &hostInput{ended: ended, woken: woken, wake: wake}
	in.poll = [2]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(woken.Fd()), Events: unix.POLLIN}}
	return in, nil
}

func (in *hostInput) stop() { _ = in.wake.Close() }

func (in *hostInput) Read(b []byte) (int, error) {
	for {
		_, err := unix.Poll(in.poll[:], -1)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return 0, os.NewSyscallError("poll", err)
		case in.poll[1].Revents != 0:
			return 0, io.EOF
		case in.poll[0].Revents == 0:
			continue
		}
		n, err := unix.Read(int(in.poll[0].Fd), b)
		switch {
		case err == syscall.EINTR || err == syscall.EAGAIN:
			continue
		case err != nil:
			in.ended()
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			in.ended()
			return 0, io.EOF
		}
		return n, nil
	}
}
