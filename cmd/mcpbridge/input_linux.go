package main

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// newInput returns what reads from the host.
func newInput(fd int, ended func()) (input, error) {
	if in, err := newReadyInput(fd, ended); err == nil {
		return in, nil
	}
	return newHostInput(fd, ended)
}

// A readyInput leaves waiting to the runtime, which then spares no thread for it
// and wakes none for each line. The host's pipe stays in the mode that the host
// has it in: what the runtime waits for is an epoll of our own that watches it.
type readyInput struct {
	fd    int
	ended func()
	ready *os.File // readable when fd is
	conn  syscall.RawConn
	plain bool // the system has no read that does not wait
}

// newReadyInput fails for what cannot be watched, such as a file.
func newReadyInput(fd int, ended func()) (*readyInput, error) {
	watch, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	err = unix.EpollCtl(watch, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	if err == nil {
		err = unix.SetNonblock(watch, true) // of the epoll: the runtime wants it so
	}
	if err != nil {
		_ = unix.Close(watch)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	in := &readyInput{fd: fd, ended: ended, ready: os.NewFile(uintptr(watch), "host")}
	in.conn, err = in.ready.SyscallConn()
	return in, err
}

func (in *readyInput) stop() { _ = in.ready.Close() }

func (in *readyInput) Read(b []byte) (n int, err error) {
	stopped := in.conn.Read(func(uintptr) bool {
		n, err = in.readNow(b)
		return err != unix.EAGAIN
	})
	switch {
	case stopped != nil:
		return 0, io.EOF
	case err != nil:
		in.ended()
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		in.ended()
		return 0, io.EOF
	}
	return n, nil
}

// readNow reads what there is, or fails with EAGAIN.
func (in *readyInput) readNow(b []byte) (int, error) {
	const atPosition = -1 // the file's own, for what has none
	for !in.plain {
		n, err := unix.Preadv2(in.fd, [][]byte{b}, atPosition, unix.RWF_NOWAIT)
		switch err {
		case unix.EINTR:
		case unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL, unix.ESPIPE, unix.EPERM: // an old kernel, a sandbox
			in.plain = true
		default:
			return n, err
		}
	}
	return in.readReady(b)
}

// readReady is readNow where a read may wait: nobody else reads from the host.
func (in *readyInput) readReady(b []byte) (int, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(in.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		if err == nil && n == 0 {
			return 0, unix.EAGAIN
		}
		if err == nil {
			n, err = unix.Read(in.fd, b)
		}
		if err != unix.EINTR {
			return n, err
		}
	}
}
