package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
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
func (c *Credentials) Paste(ctx context.Context, address string) error {
	if c.oauth == nil {
		return errors.New("sign in: this server is configured with fixed credentials")
	}
	return c.oauth.paste(ctx, address)
}

// SignOut revokes the tokens where the server allows it and removes them. With
// forget the client registration and the sign-in settings go too.
func (c *Credentials) SignOut(ctx context.Context, forget bool) error {
	if c.oauth == nil {
		return nil
	}
	return c.oauth.signOut(ctx, forget)
}

// Principal returns the id of the account that jobs belong to. It changes when a
// person signs in.
func (c *Credentials) Principal() (string, error) {
	if c.cfg.Principal != "" {
		return c.cfg.Principal, nil
	}
	switch {
	case c.oauth != nil:
		account, err := c.oauth.account()
		if account != "" || err != nil {
			return account, err
		}
		if len(c.cfg.Headers) == 0 {
			return Anonymous, nil
		}
	case c.command != nil:
		return c.cfg.Store.principalID("command", c.cfg.Command.argv...)
	case len(c.cfg.Headers) == 0:
		return Anonymous, nil
	}
	var how []string
	for _, h := range c.cfg.Headers {
		how = append(how, h.Name, h.variables)
	}
	return c.cfg.Store.principalID("static", how...)
}

func (c *Credentials) headerNames() string {
	var names []string
	for _, h := range c.cfg.Headers {
		names = append(names, h.Name)
	}
	return strings.Join(names, ", ")
}

// A Status says what is known of the credentials, without any secret.
type Status struct {
	Kind     string // oauth, command, headers or none
	SignedIn bool   // a token is at hand, or can be renewed
	Issuer   string
	ClientID string
	Resource string
	Scopes   []string
	Expiry   time.Time // of the present token; zero: unknown
	Renews   bool      // there is a refresh token, or none is needed
}

// Status reads the store; it asks nobody.
func (c *Credentials) Status() (Status, error) {
	switch {
	case c.oauth != nil:
		return c.oauth.status()
	case c.command != nil:
		return Status{Kind: "command", SignedIn: true, Renews: true}, nil
	case len(c.cfg.Headers) > 0:
		return Status{Kind: "headers", SignedIn: true}, nil
	}
	return Status{Kind: "none"}, nil
}

func (o *oauth) status() (Status, error) {
	st := Status{Kind: "oauth"}
	r, err := o.reload()
	if err != nil {
		return st, err
	}
	o.mu.Lock()
	s := o.settings
	o.mu.Unlock()
	if s != nil {
		st.Issuer, st.ClientID, st.Resource = s.Issuer, s.ClientID, s.Resource
	}
	if r == nil {
		return st, nil
	}
	st.Scopes, st.Expiry = r.Asked, r.Expiry
	if r.Granted != nil {
		st.Scopes = r.Granted
	}
	st.Renews = !r.Refresh.IsZero() || s.Grant == GrantClient
	st.SignedIn = st.Renews || !r.Access.IsZero() && !r.expired(time.Now())
	return st, nil
}

func (o *oauth) account() (string, error) {
	var s settings
	found, err := o.cfg.Store.getPlain("servers", o.name, &s)
	if err != nil || !found || !o.given.fits(&s) {
		return "", err
	}
	return s.Account, nil
}

func (o *oauth) signOut(ctx context.Context, forget bool) error {
	r, err := o.reload()
	if err != nil {
		return err
	}
	o.mu.Lock()
	s := o.settings
	o.mu.Unlock()
	if s == nil {
		return o.cfg.Store.remove("pending", o.name)
	}
	if r != nil {
		o.revoke(ctx, r, s)
	}
	store := o.cfg.Store
	err = errors.Join(store.remove("tokens", s.Record), store.remove("pending", o.name))
	if forget {
		err = errors.Join(err, store.remove("clients", o.clientName(s.Issuer)), store.remove("servers", o.name))
		s = nil
	} else {
		kept := *s
		kept.Record, kept.Account = "", ""
		err = errors.Join(err, store.putPlain("servers", o.name, &kept))
		s = &kept
	}
	o.adopt(s, nil)
	return err
}

// revoke tells the server that the tokens are not needed any more (RFC 7009).
// Signing out does not depend on its answer.
func (o *oauth) revoke(ctx context.Context, r *record, s *settings) {
	u, err := o.caller.rule.check(s.Revocation)
	token, what := r.Refresh, "refresh_token"
	if token.IsZero() {
		token, what = r.Access, "access_token"
	}
	if err != nil || token.IsZero() {
		return
	}
	endpoint, err := o.endpoint(s)
	if err != nil {
		return
	}
	form := url.Values{"token": {token.Reveal()}, "token_type_hint": {what}}
	if _, err := endpoint.postForm(ctx, "token revocation at "+shown(u), u, form); err != nil {
		o.cfg.Log.Info("the tokens were removed here but not revoked", "reason", err.Error())
	}
}
