package auth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// begin binds the callback, then finds the server and client, then makes the URL
// that names the callback.
func (o *oauth) begin(ctx context.Context, f *flow) (*pending, *callback, error) {
	cb, err := o.bind()
	if err != nil {
		return nil, nil, err
	}
	p, err := o.prepare(ctx, cb)
	if err == nil {
		err = o.compose(ctx, p, cb, f)
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
func (o *oauth) compose(ctx context.Context, p *pending, cb *callback, f *flow) error {
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
	return o.savePending(ctx, p, f)
}

// carryOut shows the page and waits for the outcome.
func (o *oauth) carryOut(ctx context.Context, f *flow, p *pending, cb *callback, openPage bool) error {
	ctx, cancel := context.WithDeadlineCause(ctx, p.Expires, ErrTimeout)
	defer cancel()
	if p.Answer != nil {
		return o.finish(p, p.Answer.response())
	}
	if p.Device != nil {
		f.show(p.prompt())
		return o.await(ctx, f, p, nil)
	}
	defer o.closeCallback(p, cb)
	cb.serve(p.State.Secret)
	f.show(p.prompt())
	if openPage && !f.options.NoBrowser {
		if err := o.cfg.Browser(ctx, p.URL.Reveal()); err != nil {
			o.cfg.Log.Info("no browser was started", "reason", err.Error())
			prompt := p.prompt()
			if o.startDevice(ctx, f, p) == nil {
				prompt = p.prompt()
			} else {
				prompt.NoBrowser = true
			}
			f.show(prompt)
		}
	}
	return o.await(ctx, f, p, cb)
}

// closeCallback ends the callback. An answer that came while this process was
// leaving was told to have arrived.
func (o *oauth) closeCallback(p *pending, cb *callback) {
	cb.close()
	select {
	case response := <-cb.result:
		if o.life.Err() != nil {
			o.noteAnswer(p, response)
		}
	default:
	}
}

// await waits for whichever way of signing in the person takes: the page that
// leads to the callback, the code typed on another device, another process. cb
// is nil for a sign-in that began with a code.
func (o *oauth) await(ctx context.Context, f *flow, p *pending, cb *callback) error {
	var answered <-chan authorizationResponse
	if cb != nil {
		answered = cb.result
	}
	polling, stop := context.WithCancel(ctx)
	defer stop()
	polled := o.poll(polling, p)
	tick := time.NewTicker(storeWait)
	defer tick.Stop()
	for {
		select {
		case err := <-polled:
			return err
		case response := <-answered:
			if stop(); polled != nil && <-polled == nil {
				return nil // both at once
			}
			o.noteAnswer(p, response)
			return o.finish(p, response)
		case <-tick.C: // the answer may have been pasted into another process
			if done, err := o.settled(f); done || err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// finish judges an authorization response and redeems its code. A process that
// leaves has a moment for that: a code is good once.
func (o *oauth) finish(p *pending, r authorizationResponse) error {
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
	got, err := endpoint.redeem(o.late, r.code, p.Verifier.Secret, p.RedirectURI, p.Settings.Resource)
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

// paste finishes the open sign-in with the address that a browser could not open.
func (o *oauth) paste(address string) error {
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
	return o.finish(p, response)
}
