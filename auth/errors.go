package auth

import (
	"errors"
	"fmt"
)

var (
	// ErrUnavailable says that an authorization server could not be reached or
	// answered with a server error. Trying again later makes sense.
	ErrUnavailable = errors.New("authorization server not available")

	// ErrSignInNeeded says that a person has to sign in.
	ErrSignInNeeded = errors.New("sign-in needed")

	// ErrDenied says that the person, or the authorization server, refused.
	ErrDenied = errors.New("sign-in refused")

	// ErrSignedOut says that somebody signed out while a sign-in ran.
	ErrSignedOut = errors.New("the sign-in was ended by signing out")

	// ErrTimeout says that nobody finished the sign-in in time.
	ErrTimeout = errors.New("sign-in not finished in time; its link is dead now")
)

// A ServerError is an error response of an authorization server (RFC 6749,
// section 5.2, and its kin).
type ServerError struct {
	Document    string // what was asked, and where
	Status      int
	Code        string // such as invalid_grant; cleaned
	Description string // cleaned
}

func (e *ServerError) Error() string {
	text := fmt.Sprintf("%s: status %d", e.Document, e.Status)
	if e.Code != "" {
		text = fmt.Sprintf("%s: %s", e.Document, e.Code)
	}
	if e.Description != "" {
		text += " (" + e.Description + ")"
	}
	return text + hint(e.Code)
}

// Is makes an answer of the 5xx class count as ErrUnavailable.
func (e *ServerError) Is(target error) bool {
	return target == ErrUnavailable && (e.Status >= 500 || e.Status == 429)
}

func hint(code string) string {
	switch code {
	case "invalid_target":
		return "; the server does not know the resource: try --no-resource, or --resource with the value it expects"
	case "invalid_scope":
		return "; the server does not know a scope: choose with --scope"
	case "invalid_redirect_uri":
		return "; the server refuses the callback address: try --callback-host localhost, or --callback-port with the registered port"
	}
	return ""
}

// codeOf returns the OAuth error code in err's chain, or "".
func codeOf(err error) string {
	var e *ServerError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
