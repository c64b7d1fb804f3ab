//go:build !unix

package main

import (
	"errors"
	"os"
)

// A worker does not exist here: a process cannot hand its pipes on and leave.
type worker struct{}

func joinFront(lookup) *worker { return nil }

func (*worker) serve(*departure, *os.File, string) (hostSide, error) {
	return hostSide{}, errors.ErrUnsupported
}
