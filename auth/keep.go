package auth

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// keepWait is how long the outcome of a sign-in waits for somebody who signs out,
// revocation and renewals under way included.
const keepWait = renewTimeout + postTimeout

// keep stores the outcome of a sign-in. A renewal under way comes before it, so
// that it does not replace the new tokens. Where somebody has signed out since the
// sign-in began, that counts: the tokens are revoked.
func (o *oauth) keep(p *pending, t tokens) error {
	if p.Settings.UseIDToken && t.id.IsZero() {
		return errors.New(`token response: field "id_token" is missing, and --use-id-token is set; the scope openid may be needed`)
	}
	s := p.Settings
	s.Record = recordName(s.Issuer, s.ClientID, s.Resource, o.cfg.Principal)
	defer o.lockForKeeping(s.Record)()
	earlier, last, err := o.known()
	if err != nil {
		return err
	}
	base := &record{Issuer: s.Issuer, ClientID: s.ClientID, Resource: s.Resource, Asked: p.Scopes, Subject: t.subject}
	if !p.Started.IsZero() && o.signedOutSince(p.Started) {
		o.revoke(o.late, base.renewedWith(t, time.Now()), &s)
		return ErrSignedOut
	}
	if last == nil {
		if earlier, err = o.unnamedRecord(&s, t.subject); err != nil {
			o.cfg.Log.Warn("an account whose settings are lost cannot be looked for", "error", err)
		}
		defer o.removeUnnamed(earlier, &s)
	}
	if base.Principal, err = o.cfg.Store.accountID(s.Issuer, t.subject, earlier, last); err != nil {
		o.revoke(o.late, base.renewedWith(t, time.Now()), &s)
		return fmt.Errorf("the account is not known without its key: %w", err)
	}
	if earlier != nil {
		base.Serial = earlier.Serial
		if earlier.Issuer == s.Issuer {
			base.Subject = either(t.subject, earlier.Subject)
		}
	}
	r := base.renewedWith(t, time.Now())
	s.Account = base.Principal
	o.preserve(&s, r, true)
	o.signedIn(&s, r)
	return nil
}

// lockForKeeping takes the locks under which a sign-in is stored. Without them it
// is stored all the same: the tokens are there, and cannot be got again.
func (o *oauth) lockForKeeping(recordName string) (unlock func()) {
	ctx, cancel := context.WithTimeout(o.late, keepWait)
	defer cancel()
	unlockStored, notStored := o.lockStored(ctx)
	unlockRecord, notRecord := o.cfg.Store.lock(ctx, "token-"+recordName)
	return func() {
		if notRecord == nil {
			unlockRecord()
		}
		if notStored == nil {
			unlockStored()
		}
	}
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
