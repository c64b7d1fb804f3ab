package bridge

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/classify/sse"
)

// An sseSession is one stream of an HTTP+SSE server and all that waits for
// something on it.
type sseSession struct {
	profile *profile
	again   bool  // another session of this profile stood before
	used    int64 // the turn in which it was asked for last, guarded by the upstream

	ctx    context.Context // of the stream and of what depends on it
	cancel context.CancelCauseFunc
	wanted chan struct{} // somebody waits: no more pause before opening

	ready     chan struct{} // closed when the handshake has ended
	failure   *reply        // why it failed; nil once it stands
	handshake handshake
	to        atomic.Pointer[url.URL] // where messages are posted

	gone  chan struct{} // closed when the stream has ended
	broke *ending       // how; set before

	mu      sync.Mutex
	waiting map[int64]*waiter // by our id
	retired bool              // ends when nothing waits any more
}

// A waiter is a request whose reply is to come on the stream.
type waiter struct {
	method string
	out    sink
	events int // notifications of this request, guarded by the session
	reply  chan arrival
}

// An arrival is what the stream brought for a waiter.
type arrival struct {
	reply    jsonrpc.Message
	damaged  []byte // instead: what was to be the reply and cannot be read
	lost     string // instead: why the reply could not be held
	tooLarge bool   // lost, and would be as large again
	release  func() // gives back the room of reply or damaged; nil for nothing
}

func newSSESession(life context.Context, p *profile, again bool) *sseSession {
	s := &sseSession{profile: p, again: again, wanted: make(chan struct{}, 1), ready: make(chan struct{}),
		gone: make(chan struct{}), waiting: map[int64]*waiter{}}
	s.ctx, s.cancel = context.WithCancelCause(context.WithValue(life, noIdleLimit{}, true))
	return s
}

// fail ends the opening of a session; r says why no request can leave.
func (s *sseSession) fail(r *reply) {
	s.failure = r
	close(s.ready)
	s.cancel(nil)
}

// await waits until the session stands, or returns why it does not.
func (s *sseSession) await(ctx context.Context) *reply {
	select {
	case <-s.ready:
		return s.failure
	case <-ctx.Done():
		return notConnected(endingOf(ctx))
	}
}

// stood reports whether the handshake was made.
func (s *sseSession) stood() bool { return closed(s.ready) && s.failure == nil }

// over reports whether nothing can be sent any more.
func (s *sseSession) over() bool { return closed(s.ready) && s.failure != nil || closed(s.gone) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (s *sseSession) hurry() {
	select {
	case s.wanted <- struct{}{}:
	default:
	}
}

// pause waits before the session is opened, less long if somebody wants it. It
// reports whether it is to be opened at all.
func (s *sseSession) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.wanted:
	case <-s.ctx.Done():
	}
	return s.ctx.Err() == nil
}

func (s *sseSession) headers() http.Header {
	h := header(hdrContentType, contentJSON, hdrAccept, acceptBoth)
	if s.handshake.Version >= rev2025_06_18 { // the revision that introduced the header
		h[hdrVersion] = []string{s.handshake.Version}
	}
	return h
}

// expectation says what the answer to a request of ours must look like. The
// address of the POST holds the session's id.
func (s *sseSession) expectation(method string, id int64) classify.Expectation {
	return classify.Expectation{Method: method, ID: idJSON(id), Protocol: s.handshake.Version, Session: true, ReplyElsewhere: true}
}

// enlist makes a request known before it is posted; nil where the stream has
// ended already.
func (s *sseSession) enlist(l *letter) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if closed(s.gone) {
		return nil
	}
	w := &waiter{method: l.method, out: l.out, reply: make(chan arrival, 1)}
	s.waiting[l.id] = w
	return w
}

// discharge forgets a request; a reply that comes later is nobody's.
func (s *sseSession) discharge(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, id)
	s.endRetiredLocked()
}

// retire lets the stream end as soon as nothing waits on it.
func (s *sseSession) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	s.endRetiredLocked()
}

func (s *sseSession) endRetiredLocked() {
	if s.retired && len(s.waiting) == 0 {
		s.cancel(&ending{byBridge, "the session was replaced", classify.Cut})
	}
}

// end wakes all that wait: the stream brings nothing any more.
func (s *sseSession) end(how *ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broke = how
	close(s.gone)
}

// give gives the waiter for an id what arrived for it and reports whether there
// is one.
func (s *sseSession) give(id []byte, a arrival) bool {
	n, ok := jsonrpc.Integer(id)
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiting[n]
	if w == nil {
		return false
	}
	delete(s.waiting, n)
	w.reply <- a // its only one
	return true
}

// inProgress returns where notifications of a request go.
func (s *sseSession) inProgress(token []byte) sink {
	n, ok := jsonrpc.Integer(token)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiting[n]
	if w == nil {
		return nil
	}
	w.events++
	return w.out
}

// asking returns the one open request in whose course a question can have come
// up; nil where there is none, or more than one.
func (s *sseSession) asking() (one sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.waiting {
		if _, silent := w.out.(deaf); silent || !askable(w.method) {
			continue
		}
		if one != nil {
			return nil
		}
		one = w.out
	}
	return one
}

// askable names the requests in whose course a server may ask: 2025-11-25,
// elicitation and sampling, and 2026-07-28, multi round-trip requests.
func askable(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// take takes one event of the stream of s.
func (u *httpSSE) take(s *sseSession, ev sse.Event) {
	if len(ev.Data) == 0 || ev.Type != "" && ev.Type != "message" {
		free(ev.Release)
		return // a heartbeat, or of a type that MCP does not use
	}
	if jsonrpc.IsBatch(ev.Data) && s.stood() && s.handshake.Version == rev2025_03_26 {
		if parts, err := jsonrpc.Split(ev.Data); err == nil {
			release := after(len(parts), ev.Release)
			for _, part := range parts {
				u.takeOne(s, part, ev.Unfinished, release)
			}
			return
		}
	}
	u.takeOne(s, ev.Data, ev.Unfinished, ev.Release)
}

// takeOne takes one message, whose bytes are valid until release is called. Of
// an event that the end of the stream cut off, it takes a whole reply and
// nothing else.
func (u *httpSSE) takeOne(s *sseSession, data []byte, unfinished bool, release func()) {
	m, err := jsonrpc.Read(data)
	switch {
	case unfinished && (err != nil || m.Kind != jsonrpc.Response):
		free(release)
	case err != nil:
		u.unreadable(s, &m, arrival{damaged: data, release: release})
	case m.Kind == jsonrpc.Response:
		u.answered(s, m.Bytes(m.ID), arrival{reply: m, release: release})
	case m.Kind == jsonrpc.Notification:
		u.notified(s, &m)
		free(release)
	case m.Kind == jsonrpc.Request:
		u.asked(s, &m, release)
	}
}

// answered gives a reply to the request that it answers.
func (u *httpSSE) answered(s *sseSession, id []byte, a arrival) {
	if s.give(id, a) {
		return
	}
	defer free(a.release)
	u.log.Debug("a reply that nobody waits for was dropped", "id", string(id), "dropped", u.strays.Add(1))
}

// unreadable takes an event that is no message: it is the reply to a request if
// it says so, and otherwise skipped.
func (u *httpSSE) unreadable(s *sseSession, m *jsonrpc.Message, a arrival) {
	if id := m.Bytes(m.ID); len(id) > 0 && m.Method == "" {
		u.answered(s, id, a)
		return
	}
	free(a.release)
	u.log.Warn("an event on the server's stream is no message and was skipped", "bytes", len(a.damaged))
}

// lost takes an event that could not be held. If one request waits, it must be
// the reply to that; else nobody knows whose it is.
func (u *httpSSE) lost(s *sseSession, why string, a arrival) {
	a.lost = "the reply is lost: " + why
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 1 {
		for id, w := range s.waiting {
			delete(s.waiting, id)
			w.reply <- a
		}
		return
	}
	u.log.Warn("an event on the server's stream was dropped; it may have been the reply to one of the open requests",
		"why", why, "open", len(s.waiting))
}

// notified takes a notification: progress goes to its request, everything else
// to whoever wants it.
func (u *httpSSE) notified(s *sseSession, m *jsonrpc.Message) {
	if m.Method == "notifications/progress" {
		if out := s.inProgress(m.Field(jsonrpc.ProgressToken)); out != nil {
			out.notification(m)
			return
		}
	}
	u.feed.notification(m)
}

// asked takes a request of the server. It is put to the host in the course of
// the one request that can have caused it, else as on a stream of its own.
func (u *httpSSE) asked(s *sseSession, m *jsonrpc.Message, release func()) {
	id := bytes.Clone(m.Bytes(m.ID))
	respond := func(result, rpcError []byte) { u.postLater(s, responseBody(id, result, rpcError)) }
	if m.Method == "ping" {
		free(release)
		respond([]byte("{}"), nil)
		return
	}
	var to sink = u.feed
	if one := s.asking(); one != nil {
		to = one
	}
	begun := u.errand(func() { // it may have to be journaled first
		defer free(release)
		to.request(m, respond)
	})
	if !begun {
		free(release)
	}
}
