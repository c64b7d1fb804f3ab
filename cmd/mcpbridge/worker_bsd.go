//go:build unix && !linux

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// replaceFD makes to name what from names.
func replaceFD(from, to int) error { return unix.Dup2(from, to) }

func selfPath() (string, error) { return os.Executable() }
