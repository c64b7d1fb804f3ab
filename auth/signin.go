package auth

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
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
		if err != nil && o.signedOutSince(f.began) { // whatever it took away
			err = ErrSignedOut
		}
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
	p := o.loadPending()
	if p != nil && p.Ended != "" && p.EndedAt.After(f.began) && (f.waited || p.EndedKind == endedByLogout) {
		return true, p.failure()
	}
	return false, nil
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
