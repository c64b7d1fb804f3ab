package bridge

import (
	"context"
	"net/http"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/wire"
	"github.com/mcpbridge/mcpbridge/classify"
)

// This file is about servers that answer an unknown session with a 5xx, which
// looks like an outage and never heals. Such an answer proves nothing about the
// call that got it, and that call is not sent again; but the session is looked
// at with a harmless request and replaced if it is the session that is dead.

// suspicionWait bounds how long a delivery waits for a session to be looked at:
// on a dead one it would get the same answer, and a write be unknown by it. A
// server that takes longer is in trouble itself.
const suspicionWait = 2 * time.Second

// suspect looks at s in the background, once at a time.
func (u *legacy) suspect(s *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s.id == "" || s.looked != nil || u.closed || u.sessions[s.profile.key] != s { // replaced since its answer was under way
		return
	}
	looked := make(chan struct{})
	s.looked = looked
	u.work.Go(func() {
		ctx, cancel := context.WithTimeout(u.life, noticeTimeout)
		defer cancel()
		if !u.alive(ctx, s) {
			u.replace(ctx, s)
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		s.looked = nil
		close(looked)
	})
}

// trusted waits while s is looked at, and reports whether it is still the one to
// use.
func (u *legacy) trusted(ctx context.Context, s *session) bool {
	u.mu.Lock()
	looked := s.looked
	u.mu.Unlock()
	if looked == nil {
		return true
	}
	limit := time.NewTimer(suspicionWait)
	defer limit.Stop()
	select {
	case <-looked:
	case <-limit.C:
	case <-ctx.Done():
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sessions[s.profile.key] == s
}

// alive reports whether the session answers a ping, or cannot be asked now.
func (u *legacy) alive(ctx context.Context, s *session) bool {
	id := u.newID()
	body := concat(`{"jsonrpc":"2.0","id":`, idJSON(id), `,"method":"ping"}`)
	r := u.endpoint.send(ctx, &wire.Request{Method: http.MethodPost, Header: s.headers(acceptBoth), Body: body},
		classify.Expectation{Method: "ping", ID: idJSON(id), Protocol: s.handshake.Version, Session: true}, deaf{})
	defer r.done()
	r.judge()
	return r.capture.Status < http.StatusInternalServerError && !r.verdict.SessionLost
}

// replace puts a new session in the place of a dead one, if one can be had.
func (u *legacy) replace(ctx context.Context, dead *session) {
	s := &session{profile: dead.profile, ready: make(chan struct{}), cancel: func() {}}
	if u.initialize(ctx, s) != nil {
		return // the whole server is in trouble, not the session
	}
	u.initialized(ctx, s)
	u.restore(ctx, s)
	close(s.ready)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sessions[s.profile.key] != dead || u.closed {
		return
	}
	u.sessions[s.profile.key] = s
	dead.cancel()
	u.work.Go(func() {
		u.feed.connected(s.profile, s.handshake, true)
		u.listen(s)
	})
}
