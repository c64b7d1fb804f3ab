package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// An Action is what the sender of a refused request may do.
type Action uint8

const (
	Stop   Action = iota // nothing here changes the answer
	Again                // the credentials changed: one further delivery makes sense
	SignIn               // a person has to sign in; see Credentials.SignIn
)

func (a Action) String() string {
	switch a {
	case Stop:
		return "stop"
	case Again:
		return "again"
	case SignIn:
		return "sign in"
	}
	return fmt.Sprintf("action %d", uint8(a))
}

// A Decision is an Action and, in one line for people, its reason.
type Decision struct {
	Action Action
	Why    string
}

func stop(why string) Decision { return Decision{Action: Stop, Why: why} }

// A Use says which credentials a request carried. It is handed back when the
// request was refused, so that a refusal of an old token is not taken for one of
// the present token.
type Use struct{ serial int64 }

// Credentials present the account to one upstream. They are safe for concurrent
// use. They never send or repeat a request of the caller.
type Credentials struct {
	cfg     Config
	oauth   *oauth   // nil: no sign-in
	command *program // nil: no token command
}

// New checks the configuration. It neither reads the store nor starts anything.
func New(cfg Config) (*Credentials, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Credentials{cfg: cfg}
	if cfg.Command != nil {
		c.command = &program{command: *cfg.Command}
	}
	if cfg.OAuth != nil && cfg.Command == nil && !cfg.sendsAuthorization() {
		c.oauth = newOAuth(cfg)
	}
	return c, nil
}

// Close ends a sign-in under way here; another process may finish it.
func (c *Credentials) Close() {
	if c.oauth != nil {
		c.oauth.close()
	}
}

// Apply adds the credentials to a request to the configured origin. A request to
// any other origin is left alone. A token that is about to end is renewed first,
// which may take until ctx ends. An error means that nothing can be presented
// now (ErrUnavailable: try again later); the request must not be sent then.
func (c *Credentials) Apply(ctx context.Context, req *http.Request) (Use, error) {
	if !sameOrigin(req.URL, c.cfg.Server) {
		return Use{}, nil
	}
	for _, h := range c.cfg.Headers {
		h.SetOn(req.Header)
	}
	token, serial, err := c.token(ctx)
	if err != nil {
		return Use{}, err
	}
	if !token.IsZero() {
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	return Use{serial: serial}, nil
}

func (c *Credentials) token(ctx context.Context) (Secret, int64, error) {
	switch {
	case c.command != nil:
		return c.command.token(ctx)
	case c.oauth != nil:
		return c.oauth.token(ctx)
	}
	return Secret{}, 0, nil
}

// Challenge decides what a 401 or 403 means for a request that carried use. It
// may renew a token or run the token command, but never opens a browser. Again
// is an invitation to one further delivery, not to a loop: the caller counts.
func (c *Credentials) Challenge(ctx context.Context, use Use, status int, header http.Header) Decision {
	if status != http.StatusUnauthorized && status != http.StatusForbidden {
		return stop(fmt.Sprintf("status %d is no matter of credentials", status))
	}
	switch {
	case c.oauth != nil:
		return c.oauth.challenged(ctx, use.serial, status, ParseChallenge(header))
	case status == http.StatusForbidden:
		return stop("the server forbids this call with the configured credentials")
	case c.command != nil:
		return c.command.refused(ctx, use.serial)
	case len(c.cfg.Headers) > 0:
		return stop("the server refuses the configured credentials (header " + c.headerNames() + ")")
	}
	return stop("the server asks for credentials, and none are configured")
}

// Accepted says that the upstream took a request that carried use: it answered
// with something else than 401 or 403. A token that never was accepted is not
// renewed over and over.
func (c *Credentials) Accepted(use Use) {
	if c.oauth != nil {
		c.oauth.took(use.serial)
	}
}

// SignIn signs in, or waits for the sign-in that is under way in this or another
// process. When ctx ends it returns ctx's cause, and the sign-in goes on until
// its own limit. Only a call of the host or a command of the user may call it.
// Errors that matter: ErrDenied, ErrTimeout.
func (c *Credentials) SignIn(ctx context.Context, options SignInOptions) error {
	if c.oauth == nil {
		return errors.New("sign in: this server is configured with fixed credentials")
	}
	if c.oauth.options().Grant == GrantClient {
		if d := c.oauth.obtained(ctx, nil, 0); d.Action != Again {
			return errors.New(d.Why)
		}
		return nil
	}
	if _, err := c.oauth.reload(); err != nil {
		return err
	}
	return c.oauth.signIn(ctx, options)
}

// Pending returns the page of the sign-in that is under way here.
func (c *Credentials) Pending() (Prompt, bool) {
	if c.oauth == nil {
		return Prompt{}, false
	}
	return c.oauth.waiting()
}

// Paste finishes the open sign-in of any process with the address that the
// browser was sent to, for browsers that cannot reach this machine.
func (c *Credentials) Paste(address string) error {
	if c.oauth == nil {
		return errors.New("sign in: this server is configured with fixed credentials")
	}
	return c.oauth.paste(address)
}
