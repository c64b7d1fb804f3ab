package auth

import (
	"context"
	"strings"
	"time"
)

// SignOut revokes the tokens where the server allows it and removes them. With
// forget the client registration and the sign-in settings go too.
func (c *Credentials) SignOut(ctx context.Context, forget bool) error {
	if c.oauth == nil {
		return nil
	}
	return c.oauth.signOut(ctx, forget)
}

// Stored tries once more to store tokens that the store could not take, and
// returns why it cannot; nil if nothing is left to store. Until it can, this
// process alone is signed in.
func (c *Credentials) Stored() error {
	if c.oauth == nil {
		return nil
	}
	return c.oauth.flush(0)
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

// LastAccount returns the account that signed in last, as Principal named it,
// also after it signed out without forget; "" if there is none.
func (c *Credentials) LastAccount() (string, error) {
	if c.cfg.Principal != "" || c.oauth == nil {
		return c.cfg.Principal, nil
	}
	s, err := c.oauth.lastSettings()
	if s == nil {
		return "", err
	}
	return s.Account, nil
}

// account is that of the sign-in in force, "" if nobody is signed in.
func (o *oauth) account() (string, error) {
	s, err := o.lastSettings()
	if s == nil || s.Record == "" {
		return "", err
	}
	return s.Account, nil
}

// lastSettings is how the server was signed in last as configured; nil if it
// was not.
func (o *oauth) lastSettings() (*settings, error) {
	if u := o.stillHeld(); u != nil && u.fresh {
		return u.settings, nil
	}
	var s settings
	found, err := o.cfg.Store.getPlain("servers", o.name, &s)
	if err != nil || !found || !o.given.fits(&s) {
		return nil, err
	}
	return &s, nil
}

// known is the stored record and settings as they are now, nil where there are none.
func (o *oauth) known() (*record, *settings, error) {
	r, err := o.reload()
	o.mu.Lock()
	defer o.mu.Unlock()
	return r, o.settings, err
}
