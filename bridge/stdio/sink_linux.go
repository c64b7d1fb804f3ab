package stdio

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	pipeBuf   = 4096 // PIPE_BUF
	sendFlags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
)

// writeNow writes what a pipe has room for, or fails with EAGAIN, whatever the
// mode of the open file.
func writeNow(fd int, b []byte) (int, error) {
	const atPosition = -1 // the file's own, for what has none
	n, err := unix.Pwritev2(fd, [][]byte{b}, atPosition, unix.RWF_NOWAIT)
	for _, old := range []error{unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL, unix.ESPIPE, unix.EPERM} {
		if errors.Is(err, old) { // an old kernel, a file without it, a sandbox
			return 0, fmt.Errorf("pwritev2: %w", errors.ErrUnsupported)
		}
	}
	return n, err
}

// widePipe is what a pipe is made to hold, in bytes, before a part that is longer
// goes through it: the largest that any user may have by default (pipe(7)). Each
// time that a pipe is full costs a switch to the host and back.
const widePipe = 1 << 20

// widen fails where the user has too many wide pipes already, or root says less:
// the part then takes more turns.
func widen(fd int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, widePipe) }
