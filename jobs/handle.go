package jobs

import (
	"crypto/rand"
	"fmt"
	"strings"
)

const (
	handlePrefix  = "job_"
	handleLength  = len(handlePrefix) + 26
	handleLetters = "abcdefghijklmnopqrstuvwxyz234567"
)

// A Handle names a job; it grants nothing. It is "job_" and 26 characters of
// base32, drawn at random with at least 128 bits.
type Handle string

// NewHandle draws a handle.
func NewHandle() Handle { return Handle(handlePrefix + strings.ToLower(rand.Text())) }

// ParseHandle checks that s is a whole handle. Spaces around it and capitals
// are forgiven, because people and models copy handles.
func ParseHandle(s string) (Handle, error) {
	h, err := ParsePrefix(s)
	if err != nil {
		return "", err
	}
	if len(h) != handleLength {
		return "", fmt.Errorf("%q is no job handle: it has %d characters, not %d", s, len(h), handleLength)
	}
	return Handle(h), nil
}

// ParsePrefix checks that s could be the beginning of a handle; the leading
// "job_" may be left out.
func ParsePrefix(s string) (string, error) {
	p := strings.ToLower(strings.TrimSpace(s))
	if !strings.HasPrefix(p, handlePrefix) {
		p = handlePrefix + p
	}
	rest := p[len(handlePrefix):]
	if rest == "" || len(p) > handleLength || strings.Trim(rest, handleLetters) != "" {
		return "", fmt.Errorf("%q is no job handle: those are %q and 26 letters and digits", s, handlePrefix)
	}
	return p, nil
}
