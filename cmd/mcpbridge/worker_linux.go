package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// apart keeps signals to the host's process group, and those of its terminal,
// away from a worker. A session of its own would do more: it would be a group of
// its own to the scheduler (sched(7), "The autogroup feature"), and each line
// that the host and the worker hand each other would cost a switch between two.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// replaceFD makes to name what from names.
func replaceFD(from, to int) error { return unix.Dup3(from, to, 0) }

// selfPath is the program that runs, even if its file was replaced or removed.
func selfPath() (string, error) { return "/proc/self/exe", nil }
