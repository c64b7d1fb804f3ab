package auth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

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
