package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/wire"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// legacy is an upstream of Streamable HTTP with a handshake: MCP 2025-03-26 to
// 2025-11-25, and servers of 2024-11-05 that took over its transport.
//
// A session belongs to a profile (version and capabilities). It is made when
// the first delivery needs it, once for all that wait, and made anew in the
// same way after it was lost: the host never sees it break.
type legacy struct {
	endpoint *endpoint
	log      *slog.Logger
	life     context.Context // of the bridge
	newID    func() int64
	feed     feed
	standing standing

	mu       sync.Mutex
	sessions map[string]*session // by profile key
	turn     int64               // counts uses of sessions
	closed   bool
	work     sync.WaitGroup // GET streams

	pings   *lane // answers to pings of the server
	answers *lane // to its other requests
	notices *lane // of ours
}

// Posts that nobody waits for. A server that pings faster than it takes the
// answers is answered in its own time, and not for every ping.
const (
	maxPosts   = 8 // of one kind under way
	roomPings  = 64
	roomPosts  = 256
	fullOfPing = "the server pings faster than it takes answers: some are not answered"
	fullOfPost = "the server takes messages too slowly: some were dropped"
)

// A feed takes what an upstream says outside the answer to a request.
type feed interface {
	sink
	// connected is told about each new session, and whether it replaces one.
	connected(p *profile, h handshake, again bool)
	// gap says that messages may have been lost.
	gap(p *profile)
	// following reports whether anybody waits for notices of the server.
	following() bool
}

// A session is one legacy session and its handshake.
type session struct {
	profile *profile
	ready   chan struct{} // closed when the handshake has ended
	failure *reply        // why it failed; nil once it stands

	id        string // Mcp-Session-Id, empty if the server gave none
	handshake handshake
	cancel    context.CancelFunc // ends the GET stream

	looked chan struct{} // closed when it was looked at, see suspect; guarded by the upstream
	used   int64         // the turn in which it was asked for last, guarded by the upstream
	users  atomic.Int64  // deliveries under way

	activity activity
}

// maxSessions bounds the sessions of one upstream: a modern host may declare
// other capabilities with each request, and each set needs one of its own. What
// was not used for longest is let go of, unless something is under way on it.
const maxSessions = 16

// A handshake is what a server says of itself at first.
type handshake struct {
	Version      string
	Capabilities []byte // JSON object
	ServerInfo   []byte // JSON object, nil if not given
	Instructions []byte // JSON string, nil if not given
	More         []byte // JSON object of what else it said; nil for nothing
}

const (
	// initializeTimeout bounds the handshake of one session.
	initializeTimeout = time.Minute
	// noticeTimeout bounds a post that no exchange waits for.
	noticeTimeout = 10 * time.Second
)

func newLegacy(life context.Context, e *endpoint, newID func() int64, f feed) *legacy {
	u := &legacy{endpoint: e, log: e.log, life: life, newID: newID, feed: f,
		sessions: map[string]*session{}}
	full := func(text string) func(int64) {
		return func(n int64) { u.log.Warn(text, "messages", n) }
	}
	u.pings = newLane(1, roomPings, full(fullOfPing))
	u.answers = newLane(maxPosts, roomPosts, full(fullOfPost))
	u.notices = newLane(maxPosts, roomPosts, full(fullOfPost))
	return u
}

// lanes are the posts that nobody waits for.
func (u *legacy) lanes() []*lane { return []*lane{u.pings, u.answers, u.notices} }

func (u *legacy) era() era { return legacyEra }

func (u *legacy) version(p *profile) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.sessions[p.key]; s != nil && s.stands() {
		return s.handshake.Version
	}
	return answerVersion(p.version)
}

func (s *session) stands() bool {
	select {
	case <-s.ready:
		return s.failure == nil
	default:
		return false
	}
}

// prepare waits for the session of p, making it if need be.
func (u *legacy) prepare(ctx context.Context, p *profile) *reply {
	_, failed := u.standingSession(ctx, p)
	return failed
}

// standingSession waits for the session of p, making it if need be. Failed is
// why there is none.
func (u *legacy) standingSession(ctx context.Context, p *profile) (s *session, failed *reply) {
	for {
		s = u.session(p, false)
		select {
		case <-s.ready:
		case <-ctx.Done():
			return nil, notConnected(endingOf(ctx))
		}
		if s.failure != nil {
			return nil, s.failure
		}
		if u.trusted(ctx, s) {
			return s, nil
		}
	}
}

// session returns the session of p, whose handshake may be under way. A failed
// one is replaced: its failure was reported to all that waited for it.
func (u *legacy) session(p *profile, again bool) *session {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn++
	s := u.sessions[p.key]
	if s != nil && (s.stands() || !s.over()) {
		s.used = u.turn
		return s
	}
	s = &session{used: u.turn, profile: p, ready: make(chan struct{}), cancel: func() {}}
	if u.closed {
		s.failure = notConnected(hostGone("the bridge is leaving"))
		close(s.ready)
		return s
	}
	u.makeRoom(p)
	u.sessions[p.key] = s
	u.work.Go(func() { u.open(s, again) })
	return s
}

// makeRoom lets go of a session where there are too many for one more, of p;
// u.mu is held.
func (u *legacy) makeRoom(p *profile) {
	if len(u.sessions) < maxSessions || u.sessions[p.key] != nil {
		return
	}
	var oldest *session
	for _, s := range u.sessions {
		if s.over() && s.users.Load() == 0 && (oldest == nil || s.used < oldest.used) {
			oldest = s
		}
	}
	if oldest == nil {
		return // no more of these than requests may be in flight
	}
	delete(u.sessions, oldest.profile.key)
	oldest.cancel()
	u.notices.do(func() {
		ctx, cancel := context.WithTimeout(u.life, noticeTimeout)
		defer cancel()
		u.end(ctx, oldest)
	})
}

// end tells the server that a session is over.
func (u *legacy) end(ctx context.Context, s *session) {
	if !s.stands() || s.id == "" || u.endpoint.keepSessions.Load() {
		return
	}
	resp, err := u.endpoint.wire.Do(ctx, &wire.Request{Method: http.MethodDelete, Header: s.headers(acceptBoth)})
	if err == nil {
		resp.Body.Close()
	}
}

func (s *session) over() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// open performs the handshake of s.
func (u *legacy) open(s *session, again bool) {
	ctx, cancel := context.WithTimeoutCause(u.life, initializeTimeout, &ending{byBridge, "the server did not answer initialize in time", classify.Timeout})
	defer cancel()
	s.failure = u.initialize(ctx, s)
	if s.failure == nil {
		u.initialized(ctx, s)
		u.restore(ctx, s)
	}
	close(s.ready)
	if s.failure != nil {
		return
	}
	u.feed.connected(s.profile, s.handshake, again)
	u.listen(s)
}

func (u *legacy) initialize(ctx context.Context, s *session) *reply {
	return s.profile.eachVersion(func(version string) *reply { return u.askInitialize(ctx, s, version) })
}

// eachVersion makes the handshake by ask: for the host's version, and for an
// older one where the server answers 400 to a version that it does not know, as
// some do instead of naming theirs.
func (p *profile) eachVersion(ask func(version string) *reply) *reply {
	asked := rev2025_11_25
	if p.era == legacyEra {
		asked = answerVersion(p.version)
	}
	var first *reply
	for _, version := range append([]string{asked}, olderThan(asked)...) {
		r := ask(version)
		if r == nil {
			return nil
		}
		if first == nil {
			first = r
		}
		if r.capture.Status != http.StatusBadRequest || r.verdict.RPCError != nil && isModernError(r.verdict.RPCError.Code) {
			break
		}
	}
	return first // the first error is the real one
}

func (u *legacy) askInitialize(ctx context.Context, s *session, version string) *reply {
	id := u.newID()
	body := s.profile.initializeBody(id, version)
	// Legacy revisions want the version header only after the handshake.
	h := header(hdrContentType, contentJSON, hdrAccept, acceptBoth)
	expect := classify.Expectation{Method: "initialize", ID: idJSON(id), Protocol: version}
	r := u.endpoint.sendOwn(ctx, &wire.Request{Method: http.MethodPost, Header: h, Body: body}, expect, deaf{})
	defer r.done()
	hs, failed := r.handshake()
	if failed != nil {
		return failed
	}
	s.handshake, s.id = hs, r.capture.Header.Get(hdrSession)
	return nil
}

// initializeBody is the first request of a session.
func (p *profile) initializeBody(id int64, version string) []byte {
	return concat(`{"jsonrpc":"2.0","id":`, idJSON(id), `,"method":"initialize","params":{"protocolVersion":`, quote(version),
		`,"capabilities":`, p.capabilities, `,"clientInfo":`, p.clientInfo, `}}`)
}

// handshake reads r as the answer to initialize. If it is none, r says why no
// request can leave.
func (r *reply) handshake() (handshake, *reply) {
	r.connecting = "initialize"
	verdict := classify.Reply(r.expect, r.capture)
	if verdict.Outcome != classify.Result {
		r.judge()
		r.verdict.RPCError = verdict.RPCError
		return handshake{}, r
	}
	hs, err := readHandshake(&verdict.Reply)
	if err != nil {
		r.capture.Detail = err.Error()
		r.judge()
		r.verdict.Why = "initialize: " + err.Error()
		return handshake{}, r
	}
	return hs, nil
}

// readHandshake reads the result of initialize. The values are copied: the
// reply's bytes are given back.
func readHandshake(m *jsonrpc.Message) (handshake, error) {
	version, _ := jsonrpc.String(m.Field(jsonrpc.ProtocolVersion))
	if !slices.Contains(legacyRevisions(), version) {
		return handshake{}, fmt.Errorf("the server answered with protocol version %q, which this bridge does not speak in a handshake (it knows %s to %s)",
			version, rev2024_11_05, rev2025_11_25)
	}
	return handshake{
		Version:      version,
		Capabilities: objectOr(m.Field(jsonrpc.Capabilities), "{}"),
		ServerInfo:   objectOr(m.Field(jsonrpc.ServerInfo), ""),
		Instructions: stringOrNil(m.Field(jsonrpc.Instructions)),
		More:         unknownMembers(m.Bytes(m.Result), "protocolVersion", "capabilities", "serverInfo", "instructions"),
	}, nil
}

func objectOr(value []byte, other string) []byte {
	if len(value) > 0 && value[0] == '{' {
		return slices.Clone(value)
	}
	if other == "" {
		return nil
	}
	return []byte(other)
}

func stringOrNil(value []byte) []byte {
	if len(value) > 0 && value[0] == '"' {
		return slices.Clone(value)
	}
	return nil
}

// initialized sends the notification and waits for its answer: a strict server
// refuses, or even ends the session for, a request that overtakes it.
func (u *legacy) initialized(ctx context.Context, s *session) {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	if err := u.post(ctx, s, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		u.log.Warn("the server did not take notifications/initialized", "error", err)
	}
}

// post sends a notification, or a response to a request of the server.
func (u *legacy) post(ctx context.Context, s *session, body []byte) error {
	expect := classify.Expectation{Protocol: s.handshake.Version, Session: s.id != ""}
	r := u.endpoint.sendOwn(ctx, &wire.Request{Method: http.MethodPost, Header: s.headers(acceptBoth), Body: body}, expect, deaf{})
	defer r.done()
	r.judge()
	if r.verdict.Outcome != classify.Accepted {
		return fmt.Errorf("post to the session: %s", r.verdict.Why)
	}
	return nil
}

func (s *session) headers(accept string) http.Header {
	h := header(hdrContentType, contentJSON, hdrAccept, accept)
	if s.id != "" {
		h[hdrSession] = []string{s.id}
	}
	if s.handshake.Version >= rev2025_06_18 { // the revision that introduced the header
		h[hdrVersion] = []string{s.handshake.Version}
	}
	return h
}

func (u *legacy) deliver(ctx context.Context, d *delivery, out sink) *reply {
	s, failed := u.standingSession(ctx, d.profile)
	if failed != nil {
		return failed
	}
	d.session = s
	defer s.use()()
	u.standing.remember(d)
	body := pair{host: d.profile.era, upstream: legacyEra}.request(d.withTask(), d.id, d.common(metaPatch{drop: perRequest}))
	h := s.headers(acceptBoth)
	u.endpoint.deadlineHeader(h, d)
	expect := d.expectation(s.handshake.Version)
	expect.Session = s.id != ""
	expect.OfferedTasks = d.task != nil
	r := u.endpoint.send(ctx, &wire.Request{Method: http.MethodPost, Header: h, Body: body, Write: d.write}, expect, &sessionSink{out, u, s})
	if r.capture.Status >= http.StatusInternalServerError {
		u.suspect(s)
	}
	return r
}

// use counts a delivery as under way until what it returns is called.
func (s *session) use() (done func()) {
	s.users.Add(1)
	s.activity.stir()
	return func() {
		s.activity.stir()
		s.users.Add(-1)
	}
}

// withTask is the message with params.task as this delivery wants it.
func (d *delivery) withTask() *jsonrpc.Message {
	has := len(d.msg.Field(jsonrpc.Task)) > 0
	if d.task == nil && !has {
		return d.msg
	}
	params := objectOr(d.msg.Bytes(d.msg.Params), "{}")
	if d.task != nil {
		params = jsonrpc.With(params, "task", d.task)
	} else {
		params = jsonrpc.Without(params, "task")
	}
	m, err := jsonrpc.Read(jsonrpc.AppendEdited(nil, d.msg.Raw, jsonrpc.Edit{Span: d.msg.Params, New: params}))
	if err != nil {
		return d.msg
	}
	return &m
}

// sessionSink lets the answers to a server's requests go back on its session.
type sessionSink struct {
	sink
	upstream *legacy
	session  *session
}

func (s *sessionSink) request(m *jsonrpc.Message, _ func(_, _ []byte)) {
	id := slices.Clone(m.Bytes(m.ID))
	on := s.upstream.answers
	if m.Method == "ping" {
		on = s.upstream.pings
	}
	s.sink.request(m, func(result, rpcError []byte) {
		s.upstream.postLater(on, s.session, responseBody(id, result, rpcError))
	})
}

// responseBody is the answer to a request of the server.
func responseBody(id, result, rpcError []byte) []byte {
	if rpcError != nil {
		return concat(`{"jsonrpc":"2.0","id":`, id, `,"error":`, rpcError, `}`)
	}
	return concat(`{"jsonrpc":"2.0","id":`, id, `,"result":`, result, `}`)
}

// standing passes on whether a question of the exchange is open.
func (s *sessionSink) standing() bool {
	x, ok := s.sink.(stander)
	return ok && x.standing()
}

// heardID lets the exchange keep from where its answer can be resumed, also by
// another process.
func (s *sessionSink) heardID(id string) {
	if x, ok := s.sink.(*exchange); ok {
		x.resumableFrom(jobs.Resumption{Session: s.session.id, EventID: id, Protocol: s.session.handshake.Version})
	}
}

// postLater posts without making anybody wait.
func (u *legacy) postLater(on *lane, s *session, body []byte) {
	on.do(func() {
		ctx, cancel := context.WithTimeout(u.life, noticeTimeout)
		defer cancel()
		if err := u.post(ctx, s, body); err != nil {
			u.log.Warn("message to the server was not taken", "error", err)
		}
	})
}

func (u *legacy) notify(ctx context.Context, p *profile, m *jsonrpc.Message) error {
	s, failed := u.standingSession(ctx, p)
	if failed != nil {
		return fmt.Errorf("notification %s: %s", m.Method, failed.verdict.Why)
	}
	return u.post(ctx, s, pair{host: p.era, upstream: legacyEra}.request(m, 0, metaPatch{drop: perRequest}))
}

func (u *legacy) cancel(d *delivery, reason string) {
	if d.session == nil || d.method == "initialize" {
		return
	}
	u.postLater(u.notices, d.session, concat(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`, idJSON(d.id), `,"reason":`, quote(reason), `}}`))
}

// restore tells a new session what the one before it knew.
func (u *legacy) restore(ctx context.Context, s *session) {
	for _, r := range u.standing.of(s.profile) {
		id := u.newID()
		body := pair{host: s.profile.era, upstream: legacyEra}.request(r.msg, id, metaPatch{drop: perRequest})
		got := u.endpoint.sendOwn(ctx, &wire.Request{Method: http.MethodPost, Header: s.headers(acceptBoth), Body: body},
			classify.Expectation{Method: r.msg.Method, ID: idJSON(id), Protocol: s.handshake.Version}, deaf{})
		got.judge()
		if got.verdict.Outcome != classify.Result {
			u.log.Warn("could not be restored in the new session", "method", r.msg.Method, "error", got.verdict.Why)
		}
		got.done()
	}
}

// renew replaces the session of d, once for all who lost the same one.
func (u *legacy) renew(d *delivery) {
	u.mu.Lock()
	s := u.sessions[d.profile.key]
	stale := s == d.session && s != nil
	if stale {
		delete(u.sessions, d.profile.key)
		s.cancel()
	}
	u.mu.Unlock()
	if stale {
		u.session(d.profile, true)
	}
}

// handshakeOf is the handshake of the session for p, if it stands.
func (u *legacy) handshakeOf(p *profile) *handshake {
	u.mu.Lock()
	s := u.sessions[p.key]
	u.mu.Unlock()
	if s == nil || !s.stands() {
		return nil
	}
	return &s.handshake
}

// close ends all sessions with a DELETE whose answer nobody needs.
func (u *legacy) close(ctx context.Context) {
	u.mu.Lock()
	u.closed = true
	open := make([]*session, 0, len(u.sessions))
	for _, s := range u.sessions {
		if s.stands() {
			open = append(open, s)
		}
		s.cancel()
	}
	u.mu.Unlock()
	for _, l := range u.lanes() {
		l.close()
	}
	var wg sync.WaitGroup
	for _, s := range open {
		wg.Go(func() { u.end(ctx, s) })
	}
	wg.Wait()
	u.work.Wait()
	for _, l := range u.lanes() {
		l.wait()
	}
}

// isModernError reports whether a JSON-RPC error code is one that only a
// server of 2026-07-28 or later sends.
func isModernError(code int64) bool { return code == -32020 || code == -32021 || code == -32022 }
