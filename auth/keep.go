package auth

import (
	"errors"
	"time"
)

// keep stores the outcome of a sign-in: first the tokens, then the settings that
// name them. A crash in between leaves the old sign-in in force.
func (o *oauth) keep(p *pending, t tokens) error {
	if p.Settings.UseIDToken && t.id.IsZero() {
		return errors.New(`token response: field "id_token" is missing, and --use-id-token is set; the scope openid may be needed`)
	}
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
