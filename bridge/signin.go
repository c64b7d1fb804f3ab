package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
)

// This file is what becomes of a request whose credentials were refused. Only a
// call of the host has a person sign in, and if so configured its first list of
// tools; everything else is content with what can be renewed without one.

// listAfterSignIn is how long a call of the bridge's own tools waits for the
// server's tools once somebody has signed in.
const listAfterSignIn = 3 * time.Second

// ownSignIns is how often one such call has somebody sign in.
const ownSignIns = 2

// A refusal is why the credentials of an exchange did not do.
type refusal struct {
	decision auth.Decision
	failure  error       // of the sign-in; nil if there was none
	prompt   auth.Prompt // of the sign-in that is still open
}

// authorize gets other credentials after the refusal r, and reports whether
// another delivery makes sense. While it does, nothing is open upstream: the
// answer deadline ends it.
func (x *exchange) authorize(r *reply) bool {
	x.settling.Lock() // a deadline that found the delivery open has had its way
	x.mu.Lock()
	x.upstreamID = 0
	x.mu.Unlock()
	x.settling.Unlock()
	a := x.bridge.access
	x.refusal = refusal{decision: a.judge(x.ctx, r)}
	if x.refusal.decision.Action == auth.SignIn && x.method == "tools/call" {
		x.awaitSignIn(x.ctx)
	}
	if x.refusal.decision.Action != auth.Again || !x.bridge.keeper.underAccount(x, r) {
		return false
	}
	x.refusal = refusal{decision: auth.Decision{Why: "the server refuses the new credentials as well"}} // if it does
	return true
}

// awaitSignIn has a person sign in. It waits as long as somebody waits for x,
// and only for a page that the person sees without being told of it.
func (x *exchange) awaitSignIn(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !x.isAbandoned() { // else it is a task, whose host looks at it from time to time
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, x.bridge.answerWithin(x.host.clientName(), x.toolName)-time.Since(x.began))
		defer stop()
		answered := x.whenAnswered()
		go func() {
			select {
			case <-answered:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	var page shownPage
	err := x.bridge.access.signIn(ctx, func(p auth.Prompt) {
		page.set(p)
		if p.NoBrowser || p.UserCode != "" {
			x.bridge.tellPrompt(p)
			cancel()
		}
	})
	switch {
	case err == nil:
		x.refusal.decision.Action = auth.Again
	case ctx.Err() != nil:
		x.refusal.prompt = page.get()
	default:
		x.refusal.failure = err
	}
}

// A shownPage is the page of a sign-in, which may change after nobody here waits
// for it any more.
type shownPage struct {
	mu     sync.Mutex
	prompt auth.Prompt
}

func (s *shownPage) set(p auth.Prompt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompt = p
}

func (s *shownPage) get() auth.Prompt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prompt
}

// tellPrompt writes the page of a sign-in, once, where somebody may find it who
// does not see the host's answers.
func (b *Bridge) tellPrompt(p auth.Prompt) {
	if !b.access.isNews(p) {
		return
	}
	text := "sign-in needed: open this page in a browser"
	if p.UserCode != "" {
		text = "sign-in needed: open this page on any device and type the code"
	}
	b.cfg.Log.Warn(text, "server", b.cfg.Server, "page", p.URL, "code", p.UserCode, "until", p.Expires.Format(time.TimeOnly))
}

// signInFirst is for calls of the bridge's own tools: where a person has to sign
// in, calling them starts that, and once more if the server then wants a further
// scope for its list or names another authorization server. It returns what to
// say, "" where all is well.
func (x *exchange) signInFirst() string {
	b := x.bridge
	stopTicks := x.tick()
	defer stopTicks()
	for range ownSignIns {
		if !b.access.needsSignIn() {
			break
		}
		x.refusal = refusal{decision: auth.Decision{Action: auth.SignIn}}
		if x.awaitSignIn(x.ctx); x.refusal.decision.Action != auth.Again {
			return x.signInNote("").String()
		}
		b.offers.catalogue(x.ctx, x.profile, listAfterSignIn)
	}
	return ""
}

// signInForList has a person sign in for a list of tools that the server refuses,
// where that is configured, and returns the list if the person is done within the
// host's patience for one. Only the first list does so: hosts ask unprompted.
func (x *exchange) signInForList() *catalogue {
	b := x.bridge
	if b.cfg.SignInOn != SignInOnList || !b.access.needsSignIn() || !b.access.firstList() {
		return nil
	}
	ctx, cancel := context.WithTimeout(x.ctx, listWait-time.Since(x.began))
	defer cancel()
	err := b.access.signIn(ctx, func(p auth.Prompt) {
		if p.NoBrowser || p.UserCode != "" {
			b.tellPrompt(p)
			cancel()
		}
	})
	switch {
	case err == nil:
		return b.offers.catalogue(x.ctx, x.profile, listAfterSignIn)
	case ctx.Err() == nil:
		b.cfg.Log.Warn("the sign-in that a list of tools began failed", "server", b.cfg.Server, "error", err)
	}
	return nil
}

// signInNote is what is said where a person has to sign in. Status is what the
// server answered, if it was asked.
func (x *exchange) signInNote(status string) note {
	b := x.bridge
	n := note{
		head:  "SIGN-IN NEEDED",
		what:  fmt.Sprintf("server %s wants the user to sign in%s before %s%s", b.cfg.Server, status, x.subject(), x.after()),
		known: "nothing was executed",
		next:  "tell the user to " + b.howToSignIn(x.refusal.prompt) + "; then call again",
		not:   "do not call again before that",
	}
	switch err := x.refusal.failure; {
	case errors.Is(err, auth.ErrDenied), errors.Is(err, auth.ErrTimeout), errors.Is(err, auth.ErrSignedOut):
		n.known += "; " + cut(err.Error(), 200)
		n.not = ""
	case err != nil:
		n.known += "; the sign-in failed: " + cut(err.Error(), 300)
	}
	return n
}

// howToSignIn tells a person where to sign in.
func (b *Bridge) howToSignIn(p auth.Prompt) string {
	if open, ok := b.access.credentials.Pending(); ok && p.URL == "" {
		p = open
	}
	how := ""
	switch {
	case p.URL == "":
	case p.UserCode != "":
		how = fmt.Sprintf("open %s and type the code %s (until %s), or to ", p.URL, p.UserCode, p.Expires.Format(time.TimeOnly))
	case p.NoBrowser:
		how = fmt.Sprintf("open %s in a browser on this machine (until %s), or to ", p.URL, p.Expires.Format(time.TimeOnly))
	default:
		how = fmt.Sprintf("finish the sign-in in the browser window that was opened (%s, until %s), or to ", p.URL, p.Expires.Format(time.TimeOnly))
	}
	return how + "run in a terminal: " + b.cfg.Login
}
