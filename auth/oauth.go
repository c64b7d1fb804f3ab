package auth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	renewTimeout = 45 * time.Second // one renewal, waiting for other processes included
	freshFor     = 30 * time.Second // a token younger than this that was never accepted is not cured by renewing
	moveTimeout  = 5 * time.Second  // to look whether the authorization server changed
	pauseBad     = time.Minute      // no renewal after one that was refused for good
	pauseDown    = 2 * time.Second  // no renewal after one that did not get through
)

// oauth is the OAuth part of Credentials: what is known of one upstream's
// sign-in, in memory and in the store.
type oauth struct {
	cfg    Config
	given  OAuth // as configured
	caller caller
	name   string // of the files that belong to the upstream and principal
	renews singleflight.Group

	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup // sign-ins under way

	mu        sync.Mutex // guards what follows; never held across I/O on a network
	settings  *settings
	record    *record
	challenge Challenge
	stepUp    []string // scopes that calls were refused for
	refused   int64    // serial of the last token that was refused
	renewed   int64    // serial of the last token got because of a refusal
	accepted  int64    // serial of the last token that the upstream took
	broken    error    // why renewing pauses
	until     time.Time
	flow      *flow
	warned    bool // that no refresh token came
}

func newOAuth(cfg Config) *oauth {
	o := &oauth{
		cfg: cfg, given: *cfg.OAuth,
		caller: caller{transport: cfg.Transport, rule: rule(cfg.Server, cfg.AllowHTTP)},
		name:   fileName("server", canonical(cfg.Server), cfg.Principal),
	}
	o.life, o.end = context.WithCancel(context.Background())
	return o
}

func (o *oauth) close() {
	o.mu.Lock() // no sign-in begins after this
	o.end()
	o.mu.Unlock()
	o.work.Wait()
}

// options is what is configured, completed by the last sign-in.
func (o *oauth) options() OAuth {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.given.completed(o.settings)
}

// reload reads settings and record from the store, where another process may
// have changed them. It returns nil if this server is not signed in as configured.
func (o *oauth) reload() (*record, error) {
	var s settings
	found, err := o.cfg.Store.getPlain("servers", o.name, &s)
	if err != nil {
		return nil, err
	}
	if !found || !o.given.fits(&s) {
		o.adopt(nil, nil)
		return nil, nil
	}
	var r record
	if s.Record != "" {
		if found, err = o.cfg.Store.getSealed("tokens", s.Record, &r); err != nil {
			return nil, err
		}
	}
	if s.Record == "" || !found {
		o.adopt(&s, nil)
		return nil, nil
	}
	o.adopt(&s, &r)
	return &r, nil
}

func (o *oauth) adopt(s *settings, r *record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settings, o.record = s, r
}

// fits reports whether a stored sign-in is one that this configuration means.
func (o OAuth) fits(s *settings) bool {
	switch {
	case o.ClientID != "" && o.ClientID != s.ClientID,
		o.Grant != "" && s.Grant != o.Grant,
		o.Resource != "" && s.Resource != o.Resource,
		o.NoResource && s.Resource != "":
		return false
	}
	return true
}

// current returns the record in memory if its token is good, else the stored one.
func (o *oauth) current() (*record, error) {
	o.mu.Lock()
	r := o.record
	o.mu.Unlock()
	if r != nil && !o.presented(r).IsZero() && !r.due(time.Now()) {
		return r, nil
	}
	return o.reload()
}

// presented is the token of a record that is sent.
func (o *oauth) presented(r *record) Secret {
	if o.options().UseIDToken {
		return r.IDToken.Secret
	}
	return r.Access.Secret
}

// token returns what to send now, renewing it first if its end is near. No token
// and no error mean that the request goes without one; the upstream then says
// what it wants.
func (o *oauth) token(ctx context.Context) (Secret, int64, error) {
	r, err := o.current()
	if err != nil || r == nil {
		return Secret{}, 0, err
	}
	if r.due(time.Now()) {
		next, err := o.renew(ctx, r.Serial)
		switch {
		case err == nil:
			r = next
		case !r.expired(time.Now()):
			// What is left of its life is good for this request.
		case errors.Is(err, ErrSignInNeeded):
			return Secret{}, 0, nil
		default:
			return Secret{}, 0, err
		}
	}
	token := o.presented(r)
	if token.IsZero() {
		return Secret{}, 0, nil
	}
	return token, r.Serial, nil
}

// renew returns a record newer than serial. Calls at the same time share one
// renewal, other processes are kept out by a lock and found out by re-reading:
// a refresh token that is used twice counts as stolen. The renewal goes on if
// its caller leaves, because its result must be stored.
func (o *oauth) renew(ctx context.Context, serial int64) (*record, error) {
	result := o.renews.DoChan("renew", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewTimeout)
		defer cancel()
		return o.renewOnce(ctx, serial)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		next, _ := r.Val.(*record)
		return next, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (o *oauth) renewOnce(ctx context.Context, serial int64) (*record, error) {
	_, s, err := o.stored()
	if err != nil {
		return nil, err
	}
	if err := o.paused(); err != nil {
		return nil, err
	}
	unlock, err := o.cfg.Store.lock(ctx, "token-"+s.Record)
	if err != nil {
		return nil, fmt.Errorf("renew token: %w", err)
	}
	defer unlock()
	r, s, err := o.stored()
	if err != nil {
		return nil, err
	}
	if r.Serial > serial && !r.due(time.Now()) {
		return r, nil // another process was first
	}
	endpoint, err := o.endpoint(s)
	if err != nil {
		return nil, err
	}
	got, err := o.askRenewal(ctx, endpoint, r, s)
	if err != nil {
		return nil, o.renewalFailed(err, r, s)
	}
	next := r.renewedWith(got, time.Now())
	if err := o.cfg.Store.putSealed("tokens", s.Record, next); err != nil {
		return nil, err
	}
	o.adopt(s, next)
	return next, nil
}

// stored reads the sign-in, or ErrSignInNeeded if there is none.
func (o *oauth) stored() (*record, *settings, error) {
	r, err := o.reload()
	if err != nil {
		return nil, nil, err
	}
	o.mu.Lock()
	s := o.settings
	o.mu.Unlock()
	if r == nil || s == nil {
		return nil, nil, ErrSignInNeeded
	}
	return r, s, nil
}

func (o *oauth) askRenewal(ctx context.Context, endpoint tokenEndpoint, r *record, s *settings) (tokens, error) {
	if s.Grant == GrantClient {
		return endpoint.clientCredentials(ctx, r.Asked, s.Resource)
	}
	if r.Refresh.IsZero() {
		return tokens{}, ErrSignInNeeded
	}
	return endpoint.refresh(ctx, r.Refresh.Secret, s.Resource)
}

// renewalFailed decides what a failed renewal means. Only the server's word that
// the grant or the client is gone removes anything.
func (o *oauth) renewalFailed(err error, r *record, s *settings) error {
	code := codeOf(err)
	gone := code == "invalid_grant" || lostClient(code) && s.ClientKind == dynamic
	switch {
	case errors.Is(err, ErrSignInNeeded):
		return err
	case gone && s.Grant != GrantClient:
		return o.forgetTokens(err, r, s)
	case errors.Is(err, ErrUnavailable):
		o.pause(err, pauseDown)
	case code != "" && !lostClient(code) && s.Grant != GrantClient:
		// Some servers have other words for a dead refresh token.
		err = fmt.Errorf("%w: %w", ErrSignInNeeded, err)
		o.pause(err, pauseBad)
	default:
		o.pause(err, pauseBad)
	}
	return fmt.Errorf("renew token: %w", err)
}

// forgetTokens keeps the record, for the account's id and its scopes.
func (o *oauth) forgetTokens(cause error, r *record, s *settings) error {
	empty := *r
	empty.Access, empty.Refresh, empty.IDToken = storedSecret{}, storedSecret{}, storedSecret{}
	empty.Serial = nextSerial(r, time.Now())
	err := o.cfg.Store.putSealed("tokens", s.Record, &empty)
	if lostClient(codeOf(cause)) {
		err = errors.Join(err, o.cfg.Store.remove("clients", o.clientName(s.Issuer)))
	}
	o.adopt(s, &empty)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrSignInNeeded, cause)
}

// lostClient reports whether a code means that the server no longer knows the
// client. invalid_client_metadata is about something else.
func lostClient(code string) bool { return code == "invalid_client" || code == "unauthorized_client" }

func (o *oauth) paused() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.until) {
		return o.broken
	}
	return nil
}

func (o *oauth) pause(err error, d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.broken, o.until = fmt.Errorf("renew token: %w", err), time.Now().Add(d)
}

func (r *record) renewedWith(t tokens, now time.Time) *record {
	next := *r
	next.Access, next.Expiry, next.Obtained = storedSecret{t.access}, t.expiry, now.Round(0)
	if !t.refresh.IsZero() {
		next.Refresh = storedSecret{t.refresh} // rotated; else the old one stays good
	}
	if !t.id.IsZero() {
		next.IDToken = storedSecret{t.id}
	}
	if t.scopes != nil {
		next.Granted = t.scopes
	}
	next.Serial = nextSerial(r, now)
	return &next
}

// nextSerial grows even across a removed record, as time does.
func nextSerial(r *record, now time.Time) int64 {
	serial := now.UnixMicro()
	if r != nil && r.Serial >= serial {
		serial = r.Serial + 1
	}
	return serial
}

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

// challenged decides what a 401 or 403 to a request means that carried the token
// with the serial used (0: none).
func (o *oauth) challenged(ctx context.Context, used int64, status int, ch Challenge) Decision {
	o.mu.Lock()
	o.challenge, o.refused = ch, max(o.refused, used)
	o.mu.Unlock()
	r, err := o.reload()
	if err != nil {
		return stop(err.Error())
	}
	newer := r != nil && r.Serial > used && !o.presented(r).IsZero() && !r.expired(time.Now())
	if status == 403 || used > 0 && ch.Error == "insufficient_scope" {
		return o.forbidden(ctx, newer, r, ch)
	}
	if newer {
		return Decision{Action: Again, Why: "another call or process signed in meanwhile"}
	}
	if o.options().Grant == GrantClient {
		return o.obtained(ctx, nil, used)
	}
	if r == nil || r.Refresh.IsZero() {
		return Decision{Action: SignIn, Why: "the server asks for a sign-in"}
	}
	return o.refusedToken(ctx, r, ch)
}

// moved reports whether the resource metadata no longer names the issuer: then
// neither tokens nor client of the old one may be used (2026-07-28,
// authorization server binding). Not knowing counts as no.
func (o *oauth) moved(ctx context.Context, issuer string, ch Challenge) bool {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	d := discovery{caller: o.caller, upstream: o.cfg.Server, resource: o.options().Resource}
	doc, err := d.resourceMetadata(ctx, ch.ResourceMetadata)
	return err == nil && !slices.ContainsFunc(doc.Servers, func(s string) bool {
		return strings.TrimSuffix(s, "/") == strings.TrimSuffix(issuer, "/")
	})
}

func (o *oauth) took(serial int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.accepted = max(o.accepted, serial)
}

// refusedToken renews a token that the upstream did not take, unless it was
// renewed for that reason a moment ago.
func (o *oauth) refusedToken(ctx context.Context, r *record, ch Challenge) Decision {
	o.mu.Lock()
	s := o.settings
	useless := o.renewed == r.Serial && o.accepted < r.Serial && time.Since(r.Obtained) < freshFor
	o.mu.Unlock()
	if useless {
		return Decision{Action: SignIn, Why: "the server refuses a token that was renewed a moment ago"}
	}
	if s != nil && o.moved(ctx, s.Issuer, ch) {
		return Decision{Action: SignIn, Why: "the server names another authorization server now"}
	}
	next, err := o.renew(ctx, r.Serial)
	switch {
	case err == nil:
		o.mu.Lock()
		o.renewed = next.Serial
		o.mu.Unlock()
		return Decision{Action: Again, Why: "the token was renewed"}
	case errors.Is(err, ErrSignInNeeded):
		return Decision{Action: SignIn, Why: err.Error()}
	}
	return stop(err.Error())
}

// forbidden is the step-up of the 2026-07-28 revision: insufficient_scope is met
// by a new authorization for the union of what was asked before and what is
// asked now. Scopes that were asked for already are not asked for again.
func (o *oauth) forbidden(ctx context.Context, newer bool, r *record, ch Challenge) Decision {
	switch {
	case ch.Error != "insufficient_scope":
		return stop("the server forbids this call to this account")
	case newer && covers(r.Asked, ch.Scopes):
		return Decision{Action: Again, Why: "another call got the missing scopes meanwhile"}
	case len(ch.Scopes) == 0:
		return stop("the server says that a scope is missing but not which; name it with --scope")
	case r != nil && covers(r.Asked, ch.Scopes):
		return stop("the server still misses a scope that was asked for: the account may not have it")
	}
	o.mu.Lock()
	o.stepUp = union(o.stepUp, ch.Scopes)
	o.mu.Unlock()
	if o.options().Grant == GrantClient {
		serial := int64(0)
		if r != nil {
			serial = r.Serial
		}
		return o.obtained(ctx, ch.Scopes, serial)
	}
	return Decision{Action: SignIn, Why: "the server asks for further scopes"}
}

// obtained gets a token for a client without a person.
func (o *oauth) obtained(ctx context.Context, scopes []string, used int64) Decision {
	if err := o.paused(); err != nil {
		return stop(err.Error())
	}
	result := o.renews.DoChan("obtain", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewTimeout)
		defer cancel()
		return nil, o.obtain(ctx, scopes, used)
	})
	select {
	case r := <-result:
		if r.Err == nil {
			return Decision{Action: Again, Why: "a token was obtained"}
		}
		if !errors.Is(r.Err, ErrUnavailable) {
			o.pause(r.Err, pauseBad)
		}
		return stop(r.Err.Error())
	case <-ctx.Done():
		return stop(context.Cause(ctx).Error())
	}
}

func (o *oauth) obtain(ctx context.Context, scopes []string, used int64) error {
	unlock, err := o.cfg.Store.lock(ctx, "signin-"+o.name)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := o.reload()
	if err != nil {
		return err
	}
	if r != nil && r.Serial > used && !r.expired(time.Now()) && covers(r.Asked, scopes) {
		return nil
	}
	p, err := o.prepare(ctx, nil)
	if err != nil {
		return err
	}
	endpoint, err := o.endpoint(&p.Settings)
	if err != nil {
		return err
	}
	got, err := endpoint.clientCredentials(ctx, p.Scopes, p.Settings.Resource)
	if err != nil {
		return err
	}
	return o.keep(p, got)
}

// keep stores the outcome of a sign-in: first the tokens, then the settings that
// name them. A crash in between leaves the old sign-in in force.
func (o *oauth) keep(p *pending, t tokens) error {
	earlier, err := o.reload()
	if err != nil {
		return err
	}
	o.mu.Lock()
	last := o.settings
	o.mu.Unlock()
	now, s := time.Now(), p.Settings
	account, err := o.cfg.Store.accountID(s.Issuer, t.subject, earlier)
	if err != nil {
		return err
	}
	base := &record{Issuer: s.Issuer, ClientID: s.ClientID, Resource: s.Resource, Asked: p.Scopes, Principal: account, Subject: t.subject}
	if earlier != nil {
		base.Serial = earlier.Serial
	}
	if earlier != nil && earlier.Issuer == s.Issuer {
		base.Subject = either(t.subject, earlier.Subject)
	}
	r := base.renewedWith(t, now)
	s.Record = recordName(s.Issuer, s.ClientID, s.Resource, o.cfg.Principal)
	s.Account = account
	if err := o.cfg.Store.putSealed("tokens", s.Record, r); err != nil {
		return err
	}
	if err := o.cfg.Store.putPlain("servers", o.name, &s); err != nil {
		return err
	}
	o.signedIn(&s, r)
	if last != nil && last.Record != "" && last.Record != s.Record {
		return o.cfg.Store.remove("tokens", last.Record)
	}
	return nil
}

func (o *oauth) signedIn(s *settings, r *record) {
	o.mu.Lock()
	warn := r.Refresh.IsZero() && s.Grant != GrantClient && !o.warned
	o.settings, o.record, o.broken, o.until = s, r, nil, time.Time{}
	o.warned = o.warned || warn
	o.mu.Unlock()
	if warn {
		o.cfg.Log.Warn("the authorization server gave no refresh token; you will have to sign in again when the token ends", "server", shown(o.cfg.Server))
	}
}

// prepare finds out where and as whom to sign in, and for what. cb is nil for
// grants without a browser.
func (o *oauth) prepare(ctx context.Context, cb *callback) (*pending, error) {
	opt := o.options()
	o.mu.Lock()
	ch, last, stepUp, r := o.challenge, o.settings, o.stepUp, o.record
	o.mu.Unlock()
	d := discovery{caller: o.caller, upstream: o.cfg.Server, resource: opt.Resource, tokenURL: opt.TokenEndpoint, warn: func(s string) { o.cfg.Log.Warn(s) }}
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
		TokenEndpoint: o.TokenEndpoint, UseIDToken: o.UseIDToken,
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

// registered returns the stored registration if it fits the callback, else a new one.
func (o *oauth) registered(ctx context.Context, server authServer, cb *callback) (client, error) {
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
