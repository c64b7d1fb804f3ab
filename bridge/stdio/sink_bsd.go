//go:build unix && !linux

package stdio

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"
)

const (
	pipeBuf   = 512 // the least PIPE_BUF of POSIX, and that of Darwin
	sendFlags = unix.MSG_DONTWAIT
)

// widePipe: no pipe is made to hold more; this system grows them by itself.
const widePipe = math.MaxInt

func widen(int) {}

func writeNow(int, []byte) (int, error) { return 0, errors.ErrUnsupported }
