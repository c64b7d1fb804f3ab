//go:build unix && !linux

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// apart keeps signals to the host's session, and those of its terminal, away from
// a worker.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// replaceFD makes to name what from names.
func replaceFD(from, to int) error { return unix.Dup2(from, to) }

func selfPath() (string, error) { return os.Executable() }

// newInput returns what reads from the host.
func newInput(fd int, ended func()) (input, error) { return newHostInput(fd, ended) }
