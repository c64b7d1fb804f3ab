//go:build unix && !linux

package stdio

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	pipeBuf   = 512 // the least PIPE_BUF of POSIX, and that of Darwin
	sendFlags = unix.MSG_DONTWAIT
)

func writeNow(int, []byte) (int, error) { return 0, errors.ErrUnsupported }
