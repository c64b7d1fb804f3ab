package bridge

import (
	"context"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// This file closes the GET stream of a session that nobody uses: a host may be
// left open for days. The next use opens it again, and the host then looks again
// at whatever it may have missed.

// defaultIdleStream is for how long a session may be unused before its GET
// stream is closed, if nobody here follows anything.
const defaultIdleStream = 10 * time.Minute

// An activity knows when something was last used. The zero activity was never.
type activity struct {
	mu   sync.Mutex
	last time.Time
	next chan struct{} // closed by the next use; nil while nobody waits for it
}

// stir notes a use.
func (a *activity) stir() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = time.Now()
	if a.next != nil {
		close(a.next)
		a.next = nil
	}
}

// quiet is the time since the last use, and a channel that the next one closes.
func (a *activity) quiet() (time.Duration, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next == nil {
		a.next = make(chan struct{})
	}
	return time.Since(a.last), a.next
}

// whileNeeded is a context for the GET stream of s that ends when the stream is
// idle. end releases it and returns, if that is why it ended, what the next use
// of s closes.
func (u *legacy) whileNeeded(ctx context.Context, s *session) (stream context.Context, end func() <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	var nextUse <-chan struct{}
	watched := make(chan struct{})
	s.activity.stir()
	u.work.Go(func() {
		defer close(watched)
		limit := u.endpoint.cfg.idleStream
		for wait := limit; pauseFor(ctx, wait); {
			quiet, next := s.activity.quiet()
			wait = limit - quiet
			if wait <= 0 && (s.users.Load() > 0 || u.feed.following()) {
				wait = limit
			}
			if wait <= 0 {
				nextUse = next
				cancel()
				return
			}
		}
	})
	return ctx, func() <-chan struct{} {
		cancel()
		<-watched
		return nextUse
	}
}

// stir opens the streams that were closed as idle.
func (u *legacy) stir() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.sessions {
		s.activity.stir()
	}
}

// What comes on a GET stream is a use of it.
func (s *noticeSink) notification(m *jsonrpc.Message) {
	s.session.activity.stir()
	s.sessionSink.notification(m)
}

func (s *noticeSink) request(m *jsonrpc.Message, respond func(_, _ []byte)) {
	s.session.activity.stir()
	s.sessionSink.request(m, respond)
}
