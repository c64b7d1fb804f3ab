package auth

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
	o.preserve(s, next, false)
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
	o.preserve(s, &empty, false)
	if lostClient(codeOf(cause)) {
		if err := o.cfg.Store.remove("clients", o.clientName(s.Issuer)); err != nil {
			return err
		}
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
