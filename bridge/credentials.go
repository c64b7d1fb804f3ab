package bridge

import (
	"context"
	"net/http"

	"github.com/mcpbridge/mcpbridge/auth"
)

// Credentials present an account to the upstream. The bridge never sees a
// token: it has each request prepared, and asks what a refusal means.
// *auth.Credentials is one.
type Credentials interface {
	// Apply prepares one request. After an error it must not be sent.
	Apply(ctx context.Context, req *http.Request) (auth.Use, error)
	// Challenge says what a 401 or 403 means for a request that carried use. It
	// may renew what is presented, but never asks a person.
	Challenge(ctx context.Context, use auth.Use, status int, header http.Header) auth.Decision
	// Accepted says that a request that carried use got another answer.
	Accepted(use auth.Use)
	// SignIn has a person sign in, or waits for the sign-in under way. It ends
	// with ctx; the sign-in itself does not.
	SignIn(ctx context.Context, options auth.SignInOptions) error
	// Pending is the page of the sign-in under way here.
	Pending() (auth.Prompt, bool)
	// Principal is the account that jobs and catalogues belong to. It changes
	// when somebody signs in.
	Principal() (string, error)
}

// A presenter is the credentials around one delivery: an http.RoundTripper
// between redirects and the connection.
type presenter struct {
	credentials Credentials
	next        http.RoundTripper
}

// RoundTrip prepares req and sends it on. What was presented is noted where the
// context of the delivery says.
func (p presenter) RoundTrip(req *http.Request) (*http.Response, error) {
	cookies := req.Header["Cookie"] // configured and received ones are one header already
	use, err := p.credentials.Apply(req.Context(), req)
	if err != nil {
		return nil, err
	}
	if len(cookies) > 0 {
		req.Header["Cookie"] = cookies
	}
	if s, ok := req.Context().Value(showingKey{}).(*showing); ok {
		s.use = use
	}
	return p.next.RoundTrip(req)
}

// A showing is what one delivery presents.
type showing struct{ use auth.Use }

type showingKey struct{}
