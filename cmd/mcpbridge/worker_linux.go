package main

import "golang.org/x/sys/unix"

// replaceFD makes to name what from names.
func replaceFD(from, to int) error { return unix.Dup3(from, to, 0) }

// selfPath is the program that runs, even if its file was replaced or removed.
func selfPath() (string, error) { return "/proc/self/exe", nil }
