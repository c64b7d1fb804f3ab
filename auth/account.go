package auth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
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
	if u := o.held(o.cfg.Store.stamp("servers", o.name)); u != nil && u.fresh {
		return u.settings, nil
	}
	var s settings
	found, err := o.cfg.Store.getPlain("servers", o.name, &s)
	if err != nil || !found || !o.given.fits(&s) {
		return nil, err
	}
	return &s, nil
}

// signOut waits for a renewal under way, whose tokens would outlive it.
func (o *oauth) signOut(ctx context.Context, forget bool) error {
	_, s, err := o.known()
	if err != nil {
		return err
	}
	if s == nil {
		return o.cfg.Store.remove("pending", o.name)
	}
	unlock, err := o.lockRecord(ctx, s)
	if err != nil {
		return fmt.Errorf("wait for a renewal of the token: %w", err)
	}
	defer unlock()
	r, s, err := o.known() // a renewal may have come before
	if err != nil || s == nil {
		return err
	}
	if r != nil {
		o.revoke(ctx, r, s)
	}
	return o.removed(s, forget)
}

// known is the stored record and settings as they are now, nil where there are none.
func (o *oauth) known() (*record, *settings, error) {
	r, err := o.reload()
	o.mu.Lock()
	defer o.mu.Unlock()
	return r, o.settings, err
}

// removed removes a sign-in from the store. Without forget the settings stay, and
// the account in them, for a later sign-in or forget.
func (o *oauth) removed(s *settings, forget bool) error {
	store := o.cfg.Store
	err := store.remove("pending", o.name)
	if s.Record != "" {
		err = errors.Join(err, store.remove("tokens", s.Record))
	}
	if forget {
		err = errors.Join(err, store.remove("clients", o.clientName(s.Issuer)), store.remove("servers", o.name))
		s = nil
	} else {
		kept := *s
		kept.Record = ""
		err = errors.Join(err, store.putPlain("servers", o.name, &kept))
		s = &kept
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settings, o.record, o.unwritten = s, nil, nil
	return err
}

// lockRecord keeps renewals out, of other processes too.
func (o *oauth) lockRecord(ctx context.Context, s *settings) (unlock func(), err error) {
	if s.Record == "" {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	return o.cfg.Store.lock(ctx, "token-"+s.Record)
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
