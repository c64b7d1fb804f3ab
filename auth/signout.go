package auth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// signOut ends the sign-ins that run, in any process, and removes what is stored.
// It waits for a renewal under way, whose tokens would outlive it. A sign-in that
// is begun meanwhile comes after it.
func (o *oauth) signOut(ctx context.Context, forget bool) error {
	unlock, err := o.lockStored(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := o.endSignIns(); err != nil {
		return err
	}
	_, s, err := o.known()
	if err != nil || s == nil {
		return err
	}
	unlockRecord, err := o.lockRecord(ctx, s)
	if err != nil {
		return fmt.Errorf("wait for a renewal of the token: %w", err)
	}
	defer unlockRecord()
	r, s, err := o.known() // a renewal may have come before
	if err != nil || s == nil {
		return err
	}
	if r != nil {
		o.revoke(ctx, r, s)
	}
	return o.removed(s, forget)
}

// lockStored makes the storing of a sign-in and signing out come one after the
// other, whichever processes they are in.
func (o *oauth) lockStored(ctx context.Context) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, keepWait)
	defer cancel()
	return o.cfg.Store.lock(ctx, "stored-"+o.name)
}

// endSignIns leaves word for a process in which a person signs in, and for those
// that wait for it. Where there is none it removes what one that is gone left.
func (o *oauth) endSignIns() error {
	unlock, free, err := o.cfg.Store.tryLock("signin-" + o.name)
	if err != nil {
		return err
	}
	if !free {
		return o.cfg.Store.putSealed("pending", o.name, &pending{Ended: ErrSignedOut.Error(), EndedKind: endedByLogout, EndedAt: time.Now()})
	}
	defer unlock()
	return o.cfg.Store.remove("pending", o.name)
}

// signedOutSince reports whether somebody has signed out since a sign-in began.
func (o *oauth) signedOutSince(began time.Time) bool {
	p := o.loadPending()
	return p != nil && p.EndedKind == endedByLogout && p.EndedAt.After(began)
}

// removed removes a sign-in from the store. Without forget the settings stay, and
// the account in them, for a later sign-in or forget.
func (o *oauth) removed(s *settings, forget bool) error {
	store := o.cfg.Store
	var err error
	if s.Record != "" {
		err = store.remove("tokens", s.Record)
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
