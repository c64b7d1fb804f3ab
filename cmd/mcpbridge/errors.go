package main

import (
	"errors"
	"fmt"
	"strings"
)

// Exit codes of every command.
const (
	exitOK      = iota
	exitFailed  // the command could not do what it was asked
	exitUsage   // the command line or the configuration cannot work
	exitSignIn  // signing in comes first
	exitUnknown // what became of a call is not known
)

// A usageError is a command line that cannot work: an unknown flag, a value
// that no flag takes, a missing address. It ends the program at once, also
// under a host.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{oneLine(fmt.Sprintf(format, args...))}
}

// A configError is a configuration that cannot work: a broken config.toml, a
// placeholder that nobody filled in, a variable that is not set. On a terminal
// it ends the program; a host is served the explanation, since hosts show
// nobody why a server died.
type configError struct{ text string }

func (e *configError) Error() string { return e.text }

func configf(format string, args ...any) error {
	return &configError{oneLine(fmt.Sprintf(format, args...))}
}

// A reportedError has been logged and needs no further word: standard error may
// be a full pipe by then.
type reportedError struct{ err error }

func (e *reportedError) Error() string { return e.err.Error() }
func (e *reportedError) Unwrap() error { return e.err }

// exitCode says how the process ends after err.
func exitCode(err error) int {
	var usage *usageError
	var config *configError
	var worked exitStatus
	var signIn *signInError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &worked):
		return int(worked)
	case errors.As(err, &signIn):
		return exitSignIn
	case errors.As(err, &usage), errors.As(err, &config):
		return exitUsage
	default:
		return exitFailed
	}
}

// oneLine keeps a message on one line, whatever a file name or a parser put
// into it.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
