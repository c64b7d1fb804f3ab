package auth

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// endpoint is where the sign-in of s gets its tokens, as which client.
func (o *oauth) endpoint(s *settings) (tokenEndpoint, error) {
	c, err := o.clientOf(s)
	if err != nil {
		return tokenEndpoint{}, err
	}
	address := s.TokenURL
	if configured := o.options().TokenEndpoint; configured != "" {
		address = configured
	}
	return tokenEndpoint{caller: o.caller, url: address, issuer: s.Issuer, client: c}, nil
}

// clientOf is the client that s was signed in as.
func (o *oauth) clientOf(s *settings) (client, error) {
	opt := o.options()
	c := client{id: s.ClientID, kind: s.ClientKind, method: either(opt.AuthMethod, s.AuthMethod), secret: opt.ClientSecret, key: opt.SigningKey}
	if s.ClientKind != dynamic {
		return c, nil
	}
	var reg registration
	found, err := o.cfg.Store.getSealed("clients", o.clientName(s.Issuer), &reg)
	if err != nil {
		return client{}, err
	}
	if !found || reg.ClientID != s.ClientID {
		return client{}, fmt.Errorf("%w: the registration of this client is gone", ErrSignInNeeded)
	}
	return reg.client(), nil
}

func (o *oauth) clientName(issuer string) string { return fileName("client", issuer, o.name) }

// prepare finds out where and as whom to sign in, and for what. cb is nil for
// grants without a browser.
func (o *oauth) prepare(ctx context.Context, cb *callback) (*pending, error) {
	opt := o.options()
	o.mu.Lock()
	ch, last, stepUp, r := o.challenge, o.settings, o.stepUp, o.record
	o.mu.Unlock()
	d := discovery{caller: o.caller, upstream: o.cfg.Server, resource: opt.Resource, tokenURL: opt.TokenEndpoint, issuer: opt.Issuer, warn: func(s string) { o.cfg.Log.Warn(s) }}
	if last != nil {
		d.prefer = last.Issuer
	}
	where, err := d.find(ctx, ch)
	if err != nil {
		return nil, fmt.Errorf("find the authorization server: %w", err)
	}
	c, err := o.chooseClient(ctx, opt, last, where.server, cb)
	if err != nil && where.server.guessed {
		return nil, fmt.Errorf("the server asks for credentials but names no authorization server; if it wants a key, configure it with --header: %w", err)
	}
	if err != nil {
		return nil, err
	}
	scopes := chooseScopes(opt, ch, where, stepUp, r)
	return &pending{
		Settings:    opt.settings(o.cfg, where, c),
		Scopes:      scopes,
		IssPromised: where.server.IssPromised,
		Device:      nil,
		endpoints:   where.server,
	}, nil
}

// chooseScopes is the scope selection strategy of the 2026-07-28 revision: the
// configured scopes, else those of the challenge, else those of the resource
// metadata; what was asked before and what calls were refused for is added, and
// offline_access where the server offers it, since without it many give no
// refresh token.
func chooseScopes(opt OAuth, ch Challenge, where place, stepUp []string, r *record) []string {
	scopes := slices.Clone(opt.Scopes)
	if len(scopes) == 0 {
		if scopes = ch.Scopes; len(scopes) == 0 {
			scopes = where.scopes
		}
		if opt.Grant != GrantClient && slices.Contains(where.server.Scopes, "offline_access") {
			scopes = union(scopes, []string{"offline_access"})
		}
	}
	if r != nil && r.Issuer == where.server.Issuer {
		scopes = union(r.Asked, scopes)
	}
	return union(scopes, stepUp)
}

func (o OAuth) settings(cfg Config, where place, c client) settings {
	s := settings{
		Server: canonical(cfg.Server), Principal: cfg.Principal,
		Grant: o.Grant, Issuer: where.server.Issuer, TokenURL: where.server.Token, Revocation: where.server.Revocation,
		ClientID: c.id, ClientKind: c.kind, AuthMethod: c.method, Resource: where.resource,
		Scopes: o.Scopes, ClientMetadataURL: o.ClientMetadataURL, ConfiguredClient: o.ClientID,
		ConfiguredTarget: o.Resource, NoResource: o.NoResource, AuthorizeParams: o.AuthorizeParams,
		TokenEndpoint: o.TokenEndpoint, ConfiguredIssuer: o.Issuer, UseIDToken: o.UseIDToken,
		CallbackHost: o.CallbackHost, CallbackPort: o.CallbackPort, CallbackPath: o.CallbackPath,
	}
	if o.NoResource {
		s.Resource = ""
	}
	return s
}

// chooseClient follows the order of the 2026-07-28 revision, client
// registration: what the user registered, a metadata document where the server
// reads them, dynamic registration.
func (o *oauth) chooseClient(ctx context.Context, opt OAuth, last *settings, server authServer, cb *callback) (client, error) {
	c := client{id: opt.ClientID, kind: preRegistered, secret: opt.ClientSecret, key: opt.SigningKey}
	if opt.ClientID != "" {
		if last != nil && last.ConfiguredClient == opt.ClientID && last.Issuer != server.Issuer {
			return client{}, fmt.Errorf("client %q was used with the authorization server %q, but the server now names %q; if that is right, run mcpbridge logout and sign in again",
				opt.ClientID, clean(last.Issuer), clean(server.Issuer))
		}
		c.method = c.chooseMethod(opt.AuthMethod, server.AuthMethods)
		return c, nil
	}
	if opt.ClientMetadataURL != "" && server.ClientIDURL {
		c.id, c.kind, c.secret = opt.ClientMetadataURL, byDocument, Secret{}
		c.method = c.chooseMethod(opt.AuthMethod, server.AuthMethods)
		return c, nil
	}
	if server.Registration == "" || cb == nil && opt.Grant == GrantClient {
		return client{}, fmt.Errorf("the authorization server %s does not register clients by itself: register one there and give its --client-id", shownText(server.Issuer))
	}
	return o.registered(ctx, server, cb)
}

// registered returns the stored registration if it fits the callback, else a new
// one. It comes before or after somebody signs out, not in between, or the
// registration might be removed under the sign-in.
func (o *oauth) registered(ctx context.Context, server authServer, cb *callback) (client, error) {
	unlock, err := o.lockStored(ctx)
	if err != nil {
		return client{}, err
	}
	defer unlock()
	redirect := "http://127.0.0.1/callback" // never used by the device grant, but required
	if cb != nil {
		redirect = cb.redirectURI
	}
	var reg registration
	found, err := o.cfg.Store.getSealed("clients", o.clientName(server.Issuer), &reg)
	if err != nil {
		return client{}, err
	}
	usable := found && reg.Issuer == server.Issuer && (cb == nil || reg.RedirectURI == redirect) &&
		(reg.SecretExpiry.IsZero() || time.Now().Before(reg.SecretExpiry))
	if usable {
		return reg.client(), nil
	}
	if reg, err = o.caller.register(ctx, server, redirect); err != nil {
		return client{}, err
	}
	return reg.client(), o.cfg.Store.putSealed("clients", o.clientName(server.Issuer), reg)
}

// formerPort is the port of an earlier registration's redirect URI, or 0. A
// server may compare redirect URIs to the letter.
func (o *oauth) formerPort() int {
	o.mu.Lock()
	s := o.settings
	o.mu.Unlock()
	if s == nil || s.ClientKind != dynamic {
		return 0
	}
	var reg registration
	if found, err := o.cfg.Store.getSealed("clients", o.clientName(s.Issuer), &reg); err != nil || !found {
		return 0
	}
	return portOf(reg.RedirectURI)
}

func portOf(address string) int {
	u, err := url.Parse(address)
	if err != nil {
		return 0
	}
	var n int
	_, _ = fmt.Sscanf(u.Port(), "%d", &n)
	return n
}
