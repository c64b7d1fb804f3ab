package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/mcpbridge/mcpbridge/bridge/wire"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// httpSSE is an upstream of the transport that 2024-11-05 calls HTTP with SSE:
// one stream, opened by GET, brings all that the server says, replies included;
// every message of ours goes by POST to the address that the stream names first.
//
// A session is one such stream and the handshake made over it. It belongs to a
// profile and ends with its stream: nothing can be resumed. What waited for a
// reply then ends without one, and a new session is opened, with a handshake of
// its own, before anything else is sent.
type httpSSE struct {
	endpoint *endpoint
	log      *slog.Logger
	newID    func() int64
	feed     feed
	standing standing
	strays   atomic.Int64 // replies that nobody waited for

	ctx context.Context // ends with the bridge, or with close
	end context.CancelCauseFunc

	mu       sync.Mutex
	sessions map[string]*sseSession // by profile key
	turn     int64                  // counts uses of sessions
	errands  int                    // posts and questions nobody waits for
	closed   bool
	work     sync.WaitGroup // streams, posts, errands
}

// maxErrands bounds the answers and notices that are under way at once. A
// server that asks faster than it takes answers is not answered any more.
const maxErrands = 64

func newHTTPSSE(life context.Context, e *endpoint, newID func() int64, f feed) *httpSSE {
	u := &httpSSE{endpoint: e, log: e.log, newID: newID, feed: f, sessions: map[string]*sseSession{}}
	u.ctx, u.end = context.WithCancelCause(life)
	return u
}

func (u *httpSSE) era() era { return legacyEra }

func (u *httpSSE) version(p *profile) string {
	if h := u.handshakeOf(p); h != nil {
		return h.Version
	}
	return answerVersion(p.version)
}

// handshakeOf is the handshake of the session for p, if it stands.
func (u *httpSSE) handshakeOf(p *profile) *handshake {
	u.mu.Lock()
	s := u.sessions[p.key]
	u.mu.Unlock()
	if s == nil || !s.stood() {
		return nil
	}
	return &s.handshake
}

// prepare waits for the session of p, opening it if need be.
func (u *httpSSE) prepare(ctx context.Context, p *profile) *reply {
	return u.session(p).await(ctx)
}

// session returns the session of p, which may be opening. One that is over is
// replaced, and a pause before the next try is cut short.
func (u *httpSSE) session(p *profile) *sseSession {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn++
	s := u.sessions[p.key]
	if s == nil || s.over() {
		return u.openLocked(p, s != nil && (s.again || s.stood()))
	}
	s.used = u.turn
	s.hurry()
	return s
}

// openLocked begins a session in place of the one that p has now.
func (u *httpSSE) openLocked(p *profile, again bool) *sseSession {
	s := newSSESession(u.ctx, p, again)
	if u.closed {
		s.fail(notConnected(hostGone("the bridge is leaving")))
		return s
	}
	s.used = u.turn
	u.makeRoom(p)
	u.sessions[p.key] = s
	u.work.Go(func() { u.keep(s) })
	return s
}

// makeRoom lets go of the session that was not used for longest, once nothing
// waits on it, where there are too many for one more, of p; u.mu is held.
func (u *httpSSE) makeRoom(p *profile) {
	if len(u.sessions) < maxSessions || u.sessions[p.key] != nil {
		return
	}
	var oldest *sseSession
	for _, s := range u.sessions {
		if oldest == nil || s.used < oldest.used {
			oldest = s
		}
	}
	delete(u.sessions, oldest.profile.key)
	oldest.retire()
}

func (u *httpSSE) deliver(ctx context.Context, d *delivery, out sink) *reply {
	s := u.session(d.profile)
	if failed := s.await(ctx); failed != nil {
		own := *failed // shared by all that waited for it
		return &own
	}
	d.stream = s
	u.standing.remember(d)
	h := s.headers()
	u.endpoint.deadlineHeader(h, d)
	expect := s.expectation(d.method, d.id)
	expect.OfferedTasks = d.task != nil
	l := letter{id: d.id, header: h, write: d.write, method: d.method, out: out, expect: expect,
		body: pair{host: d.profile.era, upstream: legacyEra}.request(d.withTask(), d.id, d.common(metaPatch{drop: perRequest}))}
	return u.carry(ctx, s, &l)
}

// resume has nothing to go on with: the streams of 2024-11-05 have no event ids
// that a server would know again.
func (u *httpSSE) resume(_ context.Context, _ *delivery, broken *reply, _ sink) *reply { return broken }

func (u *httpSSE) notify(ctx context.Context, p *profile, m *jsonrpc.Message) error {
	s := u.session(p)
	if failed := s.await(ctx); failed != nil {
		return fmt.Errorf("notification %s: %s", m.Method, failed.verdict.Why)
	}
	return u.post(ctx, s, pair{host: p.era, upstream: legacyEra}.request(m, 0, metaPatch{drop: perRequest}))
}

func (u *httpSSE) cancel(d *delivery, reason string) {
	if d.stream == nil || d.method == "initialize" {
		return
	}
	u.postLater(d.stream, concat(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`, idJSON(d.id), `,"reason":`, quote(reason), `}}`))
}

// renew opens a session in place of the one that d used, once for all who lost
// the same one. The old stream stays until what waits on it has ended: behind a
// balancer that spreads POSTs, one lost POST says little about the others.
func (u *httpSSE) renew(d *delivery) {
	u.mu.Lock()
	stale := d.stream != nil && u.sessions[d.profile.key] == d.stream
	if stale {
		u.openLocked(d.profile, true)
	}
	u.mu.Unlock()
	if stale {
		d.stream.retire()
	}
}

// close ends all streams, by which a server learns that the sessions are over.
func (u *httpSSE) close(context.Context) {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.end(hostGone("the bridge is leaving"))
	u.work.Wait()
}

// post sends a notification, or a response to a request of the server.
func (u *httpSSE) post(ctx context.Context, s *sseSession, body []byte) error {
	r := u.endpoint.send(ctx, &wire.Request{Method: http.MethodPost, URL: s.to.Load(), Header: s.headers(), Body: body},
		classify.Expectation{Protocol: s.handshake.Version, Session: true}, deaf{})
	defer r.done()
	r.judge()
	if r.verdict.Outcome != classify.Accepted {
		return fmt.Errorf("post to the session: %s", r.verdict.Why)
	}
	return nil
}

// postLater posts without making anybody wait.
func (u *httpSSE) postLater(s *sseSession, body []byte) {
	u.errand(func() {
		ctx, cancel := context.WithTimeout(s.ctx, noticeTimeout)
		defer cancel()
		if err := u.post(ctx, s, body); err != nil && s.ctx.Err() == nil {
			u.log.Warn("message to the server was not taken", "error", err)
		}
	})
}

// errand runs f, unless too many are under way.
func (u *httpSSE) errand(f func()) (begun bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	if u.errands >= maxErrands {
		u.log.Warn("the server asks faster than it takes answers: a message to it was dropped", "underWay", u.errands)
		return false
	}
	u.errands++
	u.work.Go(func() {
		defer func() {
			u.mu.Lock()
			u.errands--
			u.mu.Unlock()
		}()
		f()
	})
	return true
}

// spawn runs f and reports whether it does: not after close.
func (u *httpSSE) spawn(f func()) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.work.Go(f)
	return true
}
