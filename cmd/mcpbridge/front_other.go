//go:build !unix

package main

import "errors"

func (p *program) front() (code int, err error) { return 0, errors.ErrUnsupported }
