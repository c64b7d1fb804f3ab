//go:build !unix

package auth

import "os/exec"

// killGroup does nothing here: the end of the context ends the process itself.
func killGroup(*exec.Cmd) {}

// detach does nothing here: children outlive their parent anyway.
func detach(*exec.Cmd) {}
