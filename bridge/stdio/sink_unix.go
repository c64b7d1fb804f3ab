//go:build unix

package stdio

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxWrite bounds what goes to a socket or a file in one system call.
const maxWrite = 64 << 10

// A kind is what a descriptor is open on, as far as writing differs.
type kind uint8

const (
	file kind = iota // also a terminal or device
	pipe
	socket
)

// A pollSink writes to a descriptor without ever waiting in a write. Which file
// the descriptor names may change under it (dup2).
type pollSink struct {
	conn  syscall.RawConn
	kind  kind
	wide  bool // the pipe was asked to hold more
	plain bool // the system has no write to a pipe that does not wait
	poll  [1]unix.PollFd

	// One write, in the form that RawConn wants it.
	op  func(fd uintptr)
	in  []byte
	n   int
	err error
}

func newSink(f File) sink {
	conn, err := f.SyscallConn()
	if err != nil {
		return blockingSink{f}
	}
	s := &pollSink{conn: conn}
	s.op = func(fd uintptr) { s.n, s.err = s.writeAll(int(fd), s.in) }
	return s
}

func (s *pollSink) blocks() bool { return false }

func (s *pollSink) write(b []byte) (int, error) {
	s.in, s.n, s.err = b, 0, nil
	err := s.conn.Control(s.op)
	s.in = nil
	if err != nil {
		return 0, err
	}
	return s.n, s.err
}

func (s *pollSink) wait(d time.Duration) {
	_ = s.conn.Control(func(fd uintptr) { s.ready(int(fd), d) })
}

// ready reports whether a write would find room, or an error, within d.
func (s *pollSink) ready(fd int, d time.Duration) bool {
	s.poll[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT}
	n, err := unix.Poll(s.poll[:], int(d/time.Millisecond))
	return err == nil && n > 0
}

// writeAll writes until b is written or there is no more room.
func (s *pollSink) writeAll(fd int, b []byte) (total int, err error) {
	for total < len(b) {
		n, err := s.writeSome(fd, b[total:])
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return total, nil
		case err != nil:
			return total, err
		default:
			total += n
		}
	}
	return total, nil
}

func (s *pollSink) writeSome(fd int, b []byte) (int, error) {
	switch s.kind {
	case socket:
		n, err := unix.SendmsgN(fd, b[:min(len(b), maxWrite)], nil, nil, sendFlags)
		if !errors.Is(err, unix.ENOTSOCK) {
			return n, err
		}
		s.kind = file
	case pipe:
		if len(b) > widePipe && !s.wide {
			s.wide = true
			widen(fd)
		}
		if !s.plain {
			n, err := writeNow(fd, b)
			if !errors.Is(err, errors.ErrUnsupported) {
				return n, err
			}
			s.plain = true
		}
		// POSIX: a pipe that polls writable takes PIPE_BUF bytes at once.
		return s.writeReady(fd, b[:min(len(b), pipeBuf)])
	}
	if s.kind = kindOf(fd); s.kind != file {
		return s.writeSome(fd, b)
	}
	return s.writeReady(fd, b[:min(len(b), maxWrite)])
}

// writeReady writes all of b if there is room for some of it.
func (s *pollSink) writeReady(fd int, b []byte) (int, error) {
	if !s.ready(fd, 0) {
		return 0, unix.EAGAIN
	}
	return unix.Write(fd, b)
}

func kindOf(fd int) kind {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return file // the write will say what is wrong
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		return socket
	case unix.S_IFIFO:
		return pipe
	}
	return file
}
