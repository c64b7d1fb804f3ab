package auth

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	renewTimeout = 45 * time.Second       // one renewal, waiting for other processes included
	freshFor     = 30 * time.Second       // a token younger than this that was never accepted is not cured by renewing
	moveTimeout  = 5 * time.Second        // to look whether the authorization server changed
	pauseBad     = time.Minute            // no renewal after one that was refused for good
	pauseDown    = 2 * time.Second        // no renewal after one that did not get through
	leaveWait    = 300 * time.Millisecond // what the last step of a sign-in gets when the process leaves
)

// oauth is the OAuth part of Credentials: what is known of one upstream's
// sign-in, in memory and in the store.
type oauth struct {
	cfg    Config
	given  OAuth // as configured
	caller caller
	name   string // of the files that belong to the upstream and principal
	renews singleflight.Group

	life    context.Context // ends with Close
	end     context.CancelFunc
	late    context.Context // ends leaveWait after it
	endLate context.CancelFunc
	work    sync.WaitGroup // sign-ins under way

	mu        sync.Mutex // guards what follows; never held across I/O on a network
	stamp     time.Time  // of the settings file when it was read
	absent    bool       // there was none then
	settings  *settings
	record    *record
	unwritten *unwritten
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
	o.late, o.endLate = context.WithCancel(context.Background())
	return o
}

func (o *oauth) close() {
	o.mu.Lock() // no sign-in begins after this
	o.end()
	o.mu.Unlock()
	timer := time.AfterFunc(leaveWait, o.endLate)
	o.work.Wait()
	timer.Stop()
	o.endLate()
	_ = o.flush(0) // the warning was given
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
	stamp := o.cfg.Store.stamp("servers", o.name)
	o.mu.Lock()
	o.stamp, o.absent = stamp, false
	o.mu.Unlock()
	held := o.held(stamp)
	if held != nil && held.fresh {
		o.adopt(held.settings, held.record)
		return held.record, nil
	}
	var s settings
	found, err := o.cfg.Store.getPlain("servers", o.name, &s)
	if err != nil {
		return nil, err
	}
	if !found || !o.given.fits(&s) {
		o.adopt(nil, nil)
		o.mu.Lock()
		o.absent = !found && o.stamp.IsZero()
		o.mu.Unlock()
		return nil, nil
	}
	r, err := o.storedRecord(&s)
	if held.supersedes(&s, r) {
		r, err = held.record, nil
	}
	if err != nil {
		return nil, err
	}
	o.adopt(&s, r)
	return r, nil
}

// storedRecord reads the record that s names; nil if there is none.
func (o *oauth) storedRecord(s *settings) (*record, error) {
	if s.Record == "" {
		return nil, nil
	}
	var r record
	found, err := o.cfg.Store.getSealed("tokens", s.Record, &r)
	if err != nil || !found {
		return nil, err
	}
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

// current returns the record in memory if its token is good and no process has
// signed in or out since, else the stored one. It is asked for each request, also
// where nobody ever signs in: it then looks once whether somebody has.
func (o *oauth) current() (*record, error) {
	_ = o.flush(writeEvery) // the warning was given
	stamp := o.cfg.Store.stamp("servers", o.name)
	o.mu.Lock()
	r, same := o.record, stamp.Equal(o.stamp)
	nothing := r == nil && same && o.absent && o.unwritten == nil
	o.mu.Unlock()
	if nothing {
		return nil, nil
	}
	if r != nil && same && !o.presented(r).IsZero() && !r.due(time.Now()) {
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
