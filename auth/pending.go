package auth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

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
	Answer      *pendingAnswer `json:"answer"` // that arrived and may not have been redeemed
	Since       int64          `json:"since"`  // serial of the tokens before
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

// A pendingAnswer is an authorization response: whoever saw its page is done, and
// so it has to survive the process that took it.
type pendingAnswer struct {
	Code        storedSecret `json:"code"`
	Iss         string       `json:"iss"`
	IssPresent  bool         `json:"issPresent"`
	Failure     string       `json:"failure"`
	Description string       `json:"description"`
}

func (a *pendingAnswer) response() authorizationResponse {
	return authorizationResponse{code: a.Code.Secret, iss: a.Iss, issPresent: a.IssPresent, failure: a.Failure, description: a.Description}
}

// noteAnswer keeps an answer for another process, should this one not come to
// redeem it.
func (o *oauth) noteAnswer(p *pending, r authorizationResponse) {
	unlock, err := o.lockStored(o.late)
	if err != nil {
		return
	}
	defer unlock()
	if o.signedOutSince(p.Started) {
		return
	}
	noted := *p
	noted.Answer = &pendingAnswer{Code: storedSecret{r.code}, Iss: r.iss, IssPresent: r.issPresent, Failure: r.failure, Description: r.description}
	_ = o.cfg.Store.putSealed("pending", o.name, &noted)
}

// endedByLogout is the EndedKind of a sign-in that signing out has ended.
const endedByLogout = "signed out"

func (p *pending) open(now time.Time) bool { return p.Ended == "" && now.Before(p.Expires) }

func (p *pending) prompt() Prompt {
	if d := p.Device; d != nil {
		return Prompt{URL: either(d.PageAndCode, d.Page), UserCode: d.UserCode, Expires: p.Expires}
	}
	return Prompt{URL: p.URL.Reveal(), Expires: p.Expires}
}

func (p *pending) failure() error {
	switch p.EndedKind {
	case "denied":
		return fmt.Errorf("%w in another window: %s", ErrDenied, p.Ended)
	case "timeout":
		return ErrTimeout
	case endedByLogout:
		return ErrSignedOut
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
// that ended with this process stays open for another to finish; of one that
// signing out ended there is word already.
func (o *oauth) conclude(ctx context.Context, err error) {
	if o.life.Err() != nil || errors.Is(err, ErrSignedOut) {
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

// resume takes over the open sign-in in the store if its callback address can be
// bound, or need not be: its holder has let go of the lock, so that it is gone.
func (o *oauth) resume(f *flow) (*pending, *callback) {
	p := o.loadPending()
	if p == nil || !p.open(time.Now()) || !o.given.fits(&p.Settings) || !covers(p.Scopes, f.need) {
		return nil, nil
	}
	if p.Device != nil || p.Answer != nil {
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

// savePending stores p, unless somebody has signed out since f began.
func (o *oauth) savePending(ctx context.Context, p *pending, f *flow) error {
	unlock, err := o.lockStored(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if o.signedOutSince(f.began) {
		return ErrSignedOut
	}
	p.Since, p.Started = f.since, time.Now().Round(0)
	p.Expires = p.Started.Add(o.options().Timeout)
	if d := p.Device; d != nil && !d.Expiry.IsZero() && d.Expiry.Before(p.Expires) {
		p.Expires = d.Expiry
	}
	return o.cfg.Store.putSealed("pending", o.name, p)
}
