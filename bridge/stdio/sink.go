package stdio

import (
	"io"
	"syscall"
	"time"
)

// A File is what lines are written to: an *os.File.
type File interface {
	io.Writer
	SyscallConn() (syscall.RawConn, error)
}

// A sink takes bytes. One goroutine uses it at a time.
type sink interface {
	// write writes what there is room for and returns how much that was; none,
	// without an error, if there is no room.
	write(b []byte) (int, error)
	// wait returns when there may be room, or after d.
	wait(d time.Duration)
	// blocks reports whether write waits for room, for ever if need be.
	blocks() bool
}

// pollSlice is how long a write that found no room looks at one open file. The
// descriptor may name another one by then, or the writer be told to stop.
const pollSlice = 100 * time.Millisecond

// A blockingSink writes to a file that cannot be asked whether it has room.
type blockingSink struct{ w io.Writer }

func (s blockingSink) write(b []byte) (int, error) { return s.w.Write(b) }
func (s blockingSink) wait(time.Duration)          {}
func (s blockingSink) blocks() bool                { return true }
