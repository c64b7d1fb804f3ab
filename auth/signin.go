package auth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

const (
	turnWait  = 100 * time.Millisecond // between two looks whether another process is done
	storeWait = 300 * time.Millisecond // between two looks whether a pasted answer was taken
	staleTab  = 30 * time.Second       // after this a page that was opened may be closed again
)

// A Prompt is what a person has to see to sign in.
type Prompt struct {
	URL       string // the page; with the device grant where UserCode is typed
	UserCode  string // of the device grant
	Expires   time.Time
	Elsewhere bool // another process opened it and waits for the answer
	NoBrowser bool // no browser could be started: the person has to open URL
}

// SignInOptions say how a sign-in behaves towards the person.
type SignInOptions struct {
	// Show is called as soon as the page is known, and again when that changes.
	// It must not block. It may be nil.
	Show func(Prompt)
	// NoBrowser leaves opening the page to the person.
	NoBrowser bool
	// Again signs in even if a good token is at hand.
	Again bool
}

// A pending sign-in, kept sealed while it is open, so that another process can
// finish it when this one is killed.
type pending struct {
	Settings    settings       `json:"settings"`
	State       storedSecret   `json:"state"`
	Verifier    storedSecret   `json:"verifier"`
	RedirectURI string         `json:"redirectUri"`
	URL         storedSecret   `json:"url"`
	Scopes      []string       `json:"scopes"`
	IssPromised bool           `json:"issPromised"`
	Device      *pendingDevice `json:"device"`
	Since       int64          `json:"since"` // serial of the tokens before
	Started     time.Time      `json:"started"`
	Expires     time.Time      `json:"expires"`
	Ended       string         `json:"ended"` // why it failed; empty while it is open
	EndedKind   string         `json:"endedKind"`
	EndedAt     time.Time      `json:"endedAt"`

	endpoints authServer
}

type pendingDevice struct {
	Code        storedSecret `json:"code"`
	UserCode    string       `json:"userCode"`
	Page        string       `json:"page"`
	PageAndCode string       `json:"pageAndCode"`
	Expiry      time.Time    `json:"expiry"`
	IntervalMs  int64        `json:"intervalMs"`
}

func (p *pending) open(now time.Time) bool { return p.Ended == "" && now.Before(p.Expires) }

func (p *pending) prompt() Prompt {
	if d := p.Device; d != nil {
		return Prompt{URL: either(d.PageAndCode, d.Page), UserCode: d.UserCode, Expires: p.Expires}
	}
	return Prompt{URL: p.URL.Reveal(), Expires: p.Expires}
}

// A flow is a sign-in as this process sees it; several calls may wait for it.
type flow struct {
	options SignInOptions
	began   time.Time
	since   int64    // tokens newer than this end it
	need    []string // scopes that the tokens must have been asked for
	waited  bool     // another process had the turn first
	done    chan struct{}
	err     error // valid once done is closed

	mu     sync.Mutex
	prompt *Prompt
	shows  []func(Prompt)
}

func (f *flow) show(p Prompt) {
	f.mu.Lock()
	f.prompt = &p
	shows := slices.Clone(f.shows)
	f.mu.Unlock()
	for _, show := range shows {
		show(p)
	}
}

func (f *flow) join(show func(Prompt)) {
	if show == nil {
		return
	}
	f.mu.Lock()
	f.shows = append(f.shows, show)
	p := f.prompt
	f.mu.Unlock()
	if p != nil {
		show(*p)
	}
}

// signIn waits for the sign-in, starting one if none is under way. It ends with
// ctx; the sign-in itself goes on until its own limit.
func (o *oauth) signIn(ctx context.Context, options SignInOptions) error {
	f := o.startFlow(options)
	f.join(options.Show)
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o *oauth) startFlow(options SignInOptions) *flow {
	timeout := o.options().Timeout
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.flow != nil {
		return o.flow
	}
	if err := o.life.Err(); err != nil {
		f := &flow{done: make(chan struct{}), err: err}
		close(f.done)
		return f
	}
	f := &flow{options: options, began: time.Now(), since: o.refused, need: o.stepUp, done: make(chan struct{})}
	if options.Again && o.record != nil {
		f.since = max(f.since, o.record.Serial)
	}
	o.flow = f
	o.work.Go(func() {
		ctx, cancel := context.WithTimeoutCause(o.life, timeout, ErrTimeout)
		defer cancel()
		f.err = o.run(ctx, f)
		o.mu.Lock()
		o.flow = nil
		o.mu.Unlock()
		close(f.done)
	})
	return f
}

func (o *oauth) waiting() (Prompt, bool) {
	o.mu.Lock()
	f := o.flow
	o.mu.Unlock()
	if f == nil {
		return Prompt{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.prompt == nil {
		return Prompt{}, false
	}
	return *f.prompt, true
}

// run is one sign-in: wait for the turn, sign in, and once more if the server
// turns out to have forgotten the client that was registered with it.
func (o *oauth) run(ctx context.Context, f *flow) error {
	unlock, err := o.turn(ctx, f)
	if unlock == nil {
		return err
	}
	defer unlock()
	for again := range 2 {
		var p *pending
		p, err = o.attempt(ctx, f)
		if again > 0 || p == nil || p.Settings.ClientKind != dynamic || !lostClient(codeOf(err)) {
			break
		}
		store := o.cfg.Store
		if err := errors.Join(store.remove("clients", o.clientName(p.Settings.Issuer)), store.remove("pending", o.name)); err != nil {
			return err
		}
	}
	o.conclude(ctx, err)
	return err
}

// turn takes the lock that one process holds while a person signs in. It returns
// no unlock if tokens came from elsewhere, or if the other sign-in failed. The
// lock dies with its holder, who may be killed at any moment.
func (o *oauth) turn(ctx context.Context, f *flow) (unlock func(), err error) {
	shown := false
	tick := time.NewTicker(turnWait)
	defer tick.Stop()
	for {
		unlock, ok, err := o.cfg.Store.tryLock("signin-" + o.name)
		if err != nil {
			return nil, err
		}
		done, err := o.settled(f)
		if done || err != nil {
			if ok {
				unlock()
			}
			return nil, err
		}
		if ok {
			return unlock, nil
		}
		f.waited = true
		if p := o.loadPending(); !shown && p != nil && p.open(time.Now()) {
			shown = true
			prompt := p.prompt()
			prompt.Elsewhere = true
			f.show(prompt)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// settled reports whether somebody else ended the matter since f began.
func (o *oauth) settled(f *flow) (bool, error) {
	r, err := o.reload()
	if err != nil {
		return false, err
	}
	if r != nil && r.Serial > f.since && !o.presented(r).IsZero() && !r.expired(time.Now()) && covers(r.Asked, f.need) {
		return true, nil
	}
	if p := o.loadPending(); f.waited && p != nil && p.Ended != "" && p.EndedAt.After(f.began) {
		return true, p.failure()
	}
	return false, nil
}

func (p *pending) failure() error {
	switch p.EndedKind {
	case "denied":
		return fmt.Errorf("%w in another window: %s", ErrDenied, p.Ended)
	case "timeout":
		return ErrTimeout
	}
	return errors.New(p.Ended)
}

func (o *oauth) loadPending() *pending {
	var p pending
	found, err := o.cfg.Store.getSealed("pending", o.name, &p)
	if err != nil || !found {
		return nil
	}
	return &p
}

// conclude removes the sign-in from the store, or leaves word why it failed. One
// that ended with this process stays open for another to finish.
func (o *oauth) conclude(ctx context.Context, err error) {
	if o.life.Err() != nil {
		return
	}
	if err == nil {
		_ = o.cfg.Store.remove("pending", o.name)
		return
	}
	p := &pending{Ended: clean(err.Error()), EndedAt: time.Now()}
	switch {
	case errors.Is(err, ErrDenied):
		p.EndedKind = "denied"
	case errors.Is(err, ErrTimeout), errors.Is(context.Cause(ctx), ErrTimeout):
		p.EndedKind = "timeout"
	}
	_ = o.cfg.Store.putSealed("pending", o.name, p)
}

// attempt finishes an open sign-in of a process that is gone, or begins one. The
// sign-in is returned with any error, for the client it was made as.
func (o *oauth) attempt(ctx context.Context, f *flow) (*pending, error) {
	if p, cb := o.resume(f); p != nil {
		return p, o.carryOut(ctx, f, p, cb, !f.waited && time.Since(p.Started) > staleTab)
	}
	if o.options().Grant == GrantDevice {
		p, err := o.prepare(ctx, nil)
		if err == nil {
			err = o.startDevice(ctx, f, p)
		}
		if err != nil {
			return p, err
		}
		return p, o.carryOut(ctx, f, p, nil, false)
	}
	p, cb, err := o.begin(ctx, f)
	if err != nil {
		return p, err
	}
	return p, o.carryOut(ctx, f, p, cb, true)
}

// resume takes over the open sign-in in the store if its callback address can be
// bound: its holder has let go of the lock, so that it is gone.
func (o *oauth) resume(f *flow) (*pending, *callback) {
	p := o.loadPending()
	if p == nil || !p.open(time.Now()) || !o.given.fits(&p.Settings) || !covers(p.Scopes, f.need) {
		return nil, nil
	}
	if p.Device != nil {
		return p, nil
	}
	u, err := url.Parse(p.RedirectURI)
	if err != nil {
		return nil, nil
	}
	number, err := strconv.Atoi(u.Port())
	if err != nil {
		return nil, nil
	}
	cb, err := bindCallback(u.Hostname(), number, u.Path)
	if err != nil {
		return nil, nil
	}
	return p, cb
}

// begin binds the callback, then finds the server and client, then makes the URL
// that names the callback.
func (o *oauth) begin(ctx context.Context, f *flow) (*pending, *callback, error) {
	cb, err := o.bind()
	if err != nil {
		return nil, nil, err
	}
	p, err := o.prepare(ctx, cb)
	if err == nil {
		err = o.compose(p, cb, f)
	}
	if err != nil {
		cb.close()
		return p, nil, err
	}
	return p, cb, nil
}

func (o *oauth) bind() (*callback, error) {
	opt := o.options()
	if opt.CallbackPort == 0 {
		if former := o.formerPort(); former != 0 {
			if cb, err := bindCallback(opt.CallbackHost, former, opt.CallbackPath); err == nil {
				return cb, nil
			}
		}
	}
	return bindCallback(opt.CallbackHost, opt.CallbackPort, opt.CallbackPath)
}

// compose makes state, verifier and the authorization URL.
func (o *oauth) compose(p *pending, cb *callback, f *flow) error {
	opt, server := o.options(), p.endpoints
	u, err := o.caller.rule.parse("authorization server metadata of "+shownText(server.Issuer), "authorization_endpoint", server.Authorization)
	if err != nil {
		return err
	}
	// 2026-07-28, authorization code protection: metadata without S256 means that
	// the client must refuse. Where there is no metadata, S256 is sent unasked.
	if !server.guessed && !slices.Contains(server.PKCE, "S256") {
		return fmt.Errorf("authorization server metadata of %s: field \"code_challenge_methods_supported\" lacks S256; the sign-in would not be safe", shownText(server.Issuer))
	}
	verifier := oauth2.GenerateVerifier()
	state := oauth2.GenerateVerifier()
	params := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	if p.Settings.Resource != "" {
		params = append(params, oauth2.SetAuthURLParam("resource", p.Settings.Resource))
	}
	// OpenID Connect Core 1.0, section 11: offline_access needs the consent page.
	if slices.Contains(p.Scopes, "offline_access") {
		params = append(params, oauth2.SetAuthURLParam("prompt", "consent"))
	}
	for name, values := range opt.AuthorizeParams {
		params = append(params, oauth2.SetAuthURLParam(name, strings.Join(values, " ")))
	}
	request := oauth2.Config{ClientID: p.Settings.ClientID, RedirectURL: cb.redirectURI, Scopes: p.Scopes, Endpoint: oauth2.Endpoint{AuthURL: u.String()}}
	p.State, p.Verifier, p.RedirectURI = storedSecret{NewSecret(state)}, storedSecret{NewSecret(verifier)}, cb.redirectURI
	p.URL = storedSecret{NewSecret(request.AuthCodeURL(state, params...))}
	return o.savePending(p, f)
}

func (o *oauth) savePending(p *pending, f *flow) error {
	p.Since, p.Started = f.since, time.Now().Round(0)
	p.Expires = p.Started.Add(o.options().Timeout)
	if d := p.Device; d != nil && !d.Expiry.IsZero() && d.Expiry.Before(p.Expires) {
		p.Expires = d.Expiry
	}
	return o.cfg.Store.putSealed("pending", o.name, p)
}

// carryOut shows the page and waits for the outcome.
func (o *oauth) carryOut(ctx context.Context, f *flow, p *pending, cb *callback, openPage bool) error {
	ctx, cancel := context.WithDeadlineCause(ctx, p.Expires, ErrTimeout)
	defer cancel()
	if p.Device != nil {
		f.show(p.prompt())
		return o.awaitDevice(ctx, p)
	}
	defer cb.close()
	cb.serve(p.State.Secret)
	f.show(p.prompt())
	if openPage && !f.options.NoBrowser {
		if err := o.cfg.Browser(ctx, p.URL.Reveal()); err != nil {
			o.cfg.Log.Info("no browser was started", "reason", err.Error())
			if o.startDevice(ctx, f, p) == nil {
				f.show(p.prompt())
				return o.awaitDevice(ctx, p)
			}
			prompt := p.prompt()
			prompt.NoBrowser = true
			f.show(prompt)
		}
	}
	return o.awaitCallback(ctx, f, p, cb)
}

func (o *oauth) awaitCallback(ctx context.Context, f *flow, p *pending, cb *callback) error {
	tick := time.NewTicker(storeWait)
	defer tick.Stop()
	for {
		select {
		case response := <-cb.result:
			return o.finish(ctx, p, response)
		case <-tick.C: // the answer may have been pasted into another process
			if done, err := o.settled(f); done || err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// finish judges an authorization response and redeems its code.
func (o *oauth) finish(ctx context.Context, p *pending, r authorizationResponse) error {
	if err := p.checkIssuer(r); err != nil {
		return err
	}
	if r.failure != "" {
		err := &ServerError{Document: "authorization response of " + shownText(p.Settings.Issuer), Status: 400, Code: r.failure, Description: r.description}
		if r.failure == "access_denied" {
			return fmt.Errorf("%w: %w", ErrDenied, err)
		}
		return err
	}
	endpoint, err := o.endpoint(&p.Settings)
	if err != nil {
		return err
	}
	got, err := endpoint.redeem(ctx, r.code, p.Verifier.Secret, p.RedirectURI, p.Settings.Resource)
	if err != nil {
		return err
	}
	return o.keep(p, got)
}

// checkIssuer is RFC 9207, section 2.4, with the table of the 2026-07-28
// revision, authorization response validation: simple string comparison, before
// the code is sent anywhere and before an error is shown.
func (p *pending) checkIssuer(r authorizationResponse) error {
	switch {
	case r.issPresent && r.iss != p.Settings.Issuer:
		return fmt.Errorf("authorization response: parameter \"iss\" is %q, but the sign-in was begun with %q; refused", clean(r.iss), clean(p.Settings.Issuer))
	case !r.issPresent && p.IssPromised:
		return fmt.Errorf("authorization response: parameter \"iss\" is missing, although %q promises it; refused", clean(p.Settings.Issuer))
	}
	return nil
}

// startDevice turns p into a sign-in on any device (RFC 8628).
func (o *oauth) startDevice(ctx context.Context, f *flow, p *pending) error {
	if p.endpoints.Device == "" {
		return fmt.Errorf("the authorization server %s offers no device sign-in", shownText(p.Settings.Issuer))
	}
	endpoint, err := o.endpoint(&p.Settings)
	if err != nil {
		return err
	}
	d, err := endpoint.device(ctx, p.endpoints.Device, p.Scopes, p.Settings.Resource)
	if err != nil {
		return err
	}
	next := *p
	next.Device = &pendingDevice{
		Code: storedSecret{d.code}, UserCode: d.userCode, Page: d.page, PageAndCode: d.pageAndCode,
		Expiry: d.expiry, IntervalMs: d.interval.Milliseconds(),
	}
	if err := o.savePending(&next, f); err != nil {
		return err
	}
	*p = next
	return nil
}

func (o *oauth) awaitDevice(ctx context.Context, p *pending) error {
	endpoint, err := o.endpoint(&p.Settings)
	if err != nil {
		return err
	}
	d := p.Device
	got, err := endpoint.await(ctx, deviceAnswer{code: d.Code.Secret, expiry: d.Expiry, interval: time.Duration(d.IntervalMs) * time.Millisecond}, p.Settings.Resource)
	if err != nil {
		return err
	}
	return o.keep(p, got)
}

// paste finishes the open sign-in with the address that a browser could not open.
func (o *oauth) paste(ctx context.Context, address string) error {
	p := o.loadPending()
	if p == nil || !p.open(time.Now()) || p.Device != nil {
		return errors.New("no sign-in for this server is waiting for an answer; start one and try again")
	}
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return errors.New("this is not an address; copy it whole from the browser")
	}
	response, err := parseResponse(u.RawQuery, p.State.Secret)
	if err != nil {
		return err
	}
	if _, err := o.reload(); err != nil {
		return err
	}
	return o.finish(ctx, p, response)
}
