//go:build unix && !linux

package stdio

import "golang.org/x/sys/unix"

func dupOver(from, to int) error { return unix.Dup2(from, to) }
