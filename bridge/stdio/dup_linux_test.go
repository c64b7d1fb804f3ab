package stdio

import "golang.org/x/sys/unix"

func dupOver(from, to int) error { return unix.Dup3(from, to, unix.O_CLOEXEC) }
