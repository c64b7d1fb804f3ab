package auth

import (
	"context"
	"errors"
	"time"
)

// keepWait is how long the outcome of a sign-in waits for a renewal under way.
const keepWait = 5 * time.Second

// keep stores the outcome of a sign-in. A renewal under way comes before it, so
// that it does not replace the new tokens.
func (o *oauth) keep(p *pending, t tokens) error {
	if p.Settings.UseIDToken && t.id.IsZero() {
		return errors.New(`token response: field "id_token" is missing, and --use-id-token is set; the scope openid may be needed`)
	}
	s := p.Settings
	s.Record = recordName(s.Issuer, s.ClientID, s.Resource, o.cfg.Principal)
	ctx, cancel := context.WithTimeout(o.life, keepWait)
	defer cancel()
	if unlock, err := o.cfg.Store.lock(ctx, "token-"+s.Record); err == nil {
		defer unlock()
	}
	earlier, last, err := o.known()
	if err != nil {
		return err
	}
	account, err := o.cfg.Store.accountID(s.Issuer, t.subject, earlier, last)
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
	r := base.renewedWith(t, time.Now())
	s.Account = account
	o.preserve(&s, r, true)
	o.signedIn(&s, r)
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
