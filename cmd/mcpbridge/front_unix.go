//go:build unix

package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/stdio"
)

const (
	// frontLeaves is how long after a signal the front waits for the worker to
	// let go of the host; its end tells the worker as well.
	frontLeaves = 800 * time.Millisecond
	// parentLook is how often the front looks for the process that started it.
	parentLook = time.Second
)

// A front is this process while a worker does its work. It only waits.
type front struct {
	worker  int      // its process id
	life    *os.File // writing end of the lifeline
	release *os.File // reading end
	signals chan os.Signal
}

// front runs this program once more as a worker and returns its exit code, or
// 0 as soon as the worker has let go of the host. An error means that there is
// no worker.
func (p *program) front() (code int, err error) {
	f := &front{signals: make(chan os.Signal, 8)}
	parent := stdio.CurrentParent()
	if err := f.start(); err != nil {
		return 0, err
	}
	// After the start, which this would hold up. A signal that comes before ends
	// the front alone, which the worker takes as it takes any end of it.
	signal.Notify(f.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(f.signals)
	return f.wait(parent), nil
}

// start starts the worker: the same program with the same arguments, apart from
// the host's process group, on the host's descriptors.
func (f *front) start() error {
	lifeEnd, life, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = lifeEnd.Close() }()
	release, releaseEnd, err := os.Pipe()
	if err != nil {
		_ = life.Close()
		return err
	}
	defer func() { _ = releaseEnd.Close() }()
	f.life, f.release = life, release
	if err := f.exec(lifeEnd, releaseEnd); err != nil {
		_ = life.Close()
		_ = release.Close()
		return err
	}
	return nil
}

// exec names the host's descriptors by number: asking an os.File for its own
// may change how the host reads and writes.
func (f *front) exec(lifeEnd, releaseEnd *os.File) error {
	self, err := selfPath()
	if err != nil {
		return err
	}
	f.worker, err = syscall.ForkExec(self, os.Args, &syscall.ProcAttr{
		Env:   append(os.Environ(), frontVariable+"="+pipeMark(int(lifeEnd.Fd()))),
		Files: []uintptr{0, 1, 2, lifelineFD: lifeEnd.Fd(), releaseFD: releaseEnd.Fd()},
		Sys:   apart(),
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", self, err)
	}
	return nil
}

// wait passes signals on until the worker has ended or let go of the host.
func (f *front) wait(parent stdio.Parent) (code int) {
	released := make(chan bool, 1)
	go func() { released <- f.awaitRelease() }()
	look := time.NewTicker(parentLook)
	defer look.Stop()
	var leave <-chan time.Time
	var passed os.Signal
	for {
		select {
		case passed = <-f.signals:
			_ = syscall.Kill(f.worker, passed.(syscall.Signal))
			if leave == nil {
				leave = time.After(frontLeaves)
			}
		case letGo := <-released:
			if letGo {
				return exitOK
			}
			return f.worked(passed)
		case <-leave:
			return exitOK
		case <-look.C:
			if parent.Gone() {
				_, _ = f.life.Write([]byte{sayParentGone})
				look.Stop()
			}
		}
	}
}

// worked is the exit code of a worker that has ended. One that a signal of the
// front's met before it could listen to it left as it was told to.
func (f *front) worked(passed os.Signal) int {
	code := awaitExit(f.worker)
	if s, ok := passed.(syscall.Signal); ok && code == 128+int(s) {
		return exitOK
	}
	return code
}

// awaitRelease reports whether the worker let go of the host. If not, it ended:
// nobody else holds the pipe.
func (f *front) awaitRelease() bool {
	said := make([]byte, 1)
	n, _ := f.release.Read(said)
	return n == 1
}

// awaitExit returns the exit code of a child as a shell states it. Nothing is
// known of the child's number afterwards: it may be another's.
func awaitExit(pid int) int {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return exitFailed
		case status.Signaled():
			return 128 + int(status.Signal())
		default:
			return status.ExitStatus()
		}
	}
}
