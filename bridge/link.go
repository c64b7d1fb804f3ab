package bridge

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/bridge/wire"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// A link finds out which era the upstream speaks and keeps the dialect for it.
// It connects when somebody needs it and not before: hosts start copies of us
// and kill them at once.
type link struct {
	cfg      *Config
	endpoint *endpoint
	life     context.Context
	feed     feed
	eras     eraCache
	lastID   atomic.Int64

	mu        sync.Mutex
	up        upstream
	attempt   *attempt // the detection under way
	against   int      // answers that contradict the era we believe in
	probed    time.Time
	discovery handshake // of a modern upstream
	failure   string    // of the last detection, "" after one that succeeded
	work      sync.WaitGroup
	closed    bool
}

// An attempt is one run of the detection, shared by all that wait for it.
type attempt struct {
	done    chan struct{}
	up      upstream
	failure *reply
}

const (
	// probeTimeout bounds the era probe of a server that may never answer it.
	probeTimeout = 2 * time.Second
	// reprobeAfter is the least time between two probes that contradicting
	// answers cause, so that a half-upgraded fleet does not flap.
	reprobeAfter = 10 * time.Second
	// contradictions that give up a believed era.
	contradictions = 2
)

func (l *link) newID() int64 { return l.lastID.Add(1) }

// ready returns the upstream, connecting first if need be. The reply is nil
// when a delivery can be made, else it says why none can leave.
func (l *link) ready(ctx context.Context, p *profile) (upstream, *reply) {
	l.mu.Lock()
	up, a := l.up, l.attempt
	if up == nil && a == nil {
		a = l.start(p)
	}
	l.mu.Unlock()
	if up == nil {
		select {
		case <-a.done:
			if a.failure != nil {
				return nil, a.failure
			}
			up = a.up
		case <-ctx.Done():
			return nil, notConnected(endingOf(ctx))
		}
	}
	failed := up.prepare(ctx, p)
	if failed != nil {
		l.doubt(up, failed)
	}
	return up, failed
}

// known returns the upstream if it is known already.
func (l *link) known() upstream {
	if l == nil {
		return nil // the configuration is broken
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

// state is the upstream if there is one, else why there is none.
func (l *link) state() (up upstream, failure string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up, l.failure
}

// forget drops what is believed of an upstream: the next delivery detects anew.
func (l *link) forget(up upstream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up == up && up != nil {
		l.up = nil
	}
}

// notConnected is the reply of a request that ran out of time before there was
// a connection.
func notConnected(e *ending) *reply {
	r := &reply{connecting: "not connected yet", endedBy: e.by}
	r.capture = classify.Capture{Sent: classify.NothingSent, Failed: classify.Connect, Detail: e.why, Ended: e.ended}
	r.judge()
	return r
}

// start begins a detection; l.mu is held.
func (l *link) start(p *profile) *attempt {
	a := &attempt{done: make(chan struct{})}
	if l.closed {
		a.failure = notConnected(hostGone("the bridge is leaving"))
		close(a.done)
		return a
	}
	l.attempt = a
	l.work.Go(func() {
		a.up, a.failure = l.detect(p)
		l.mu.Lock()
		l.attempt = nil
		l.up = a.up
		l.against, l.failure = 0, ""
		if a.failure != nil && a.failure.connecting == "" {
			a.failure.neverLeft("server/discover")
		}
		if a.failure != nil {
			l.failure = a.failure.verdict.Why
		}
		l.mu.Unlock()
		close(a.done)
		if a.up != nil && a.up.era() == modernEra {
			l.feed.connected(p, l.discovered(), false)
		}
	})
	return a
}

func (l *link) discovered() handshake {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.discovery
}

// detect finds the era of the upstream: a modern probe first, then initialize
// (2026-07-28, versioning, "Backward Compatibility"). A remembered era saves the
// requests that would fail.
func (l *link) detect(p *profile) (upstream, *reply) {
	remembered := l.eras.get()
	switch {
	case l.cfg.Transport == TransportSSE:
		return newHTTPSSE(l.life, l.endpoint, l.newID, l.feed), nil
	case l.cfg.Protocol == EraModern:
		up, r, _ := l.discover(p)
		return up, r
	case remembered == sseEraName && l.cfg.Transport == TransportAuto:
		if up, r, elsewhere := l.overSSE(p); !elsewhere {
			return up, r
		}
	case l.cfg.Protocol == EraLegacy && l.cfg.Transport == TransportHTTP:
		return newLegacy(l.life, l.endpoint, l.newID, l.feed), nil
	case remembered == legacyEraName:
		if up, r := l.initialize(p); r == nil || !saysModern(r) && !speaksOfEra(r.verdict.Status) {
			return up, r
		}
	}
	if l.cfg.Protocol == EraLegacy {
		return l.initialize(p)
	}
	return l.probe(p)
}

// probe finds the era of an upstream of which nothing is known.
func (l *link) probe(p *profile) (upstream, *reply) {
	up, failed, verdict := l.discover(p)
	if up != nil {
		l.eras.set(modernEraName)
		return up, nil
	}
	if verdict == noConnection || verdict == saidModern || verdict == refused {
		return nil, failed
	}
	up, r := l.initialize(p)
	if r != nil && verdict == saidLegacy && saysModern(r) {
		up, r = l.initialize(p) // servers of both eras behind one address, and the other one answered
	}
	if r != nil {
		if verdict == saidLegacy && r.verdict.Status == 0 {
			return nil, r
		}
		return nil, worse(failed, r)
	}
	if _, streamable := up.(*legacy); streamable && verdict == saidLegacy {
		l.eras.set(legacyEraName)
	}
	return up, nil
}

// initialize connects to a server with a handshake: by Streamable HTTP, and
// where that is refused in a way in which servers of HTTP+SSE do, by a stream.
// If neither works, the first failure is the real one.
func (l *link) initialize(p *profile) (upstream, *reply) {
	u := newLegacy(l.life, l.endpoint, l.newID, l.feed)
	r := u.prepare(l.life, p)
	if r == nil {
		return u, nil
	}
	u.close(l.life)
	if l.cfg.Transport == TransportAuto && slices.Contains([]int{400, 404, 405}, r.verdict.Status) && !saysModern(r) {
		up, failed, elsewhere := l.overSSE(p)
		if up != nil || !elsewhere && (failed.spoken || failed.refusedAccount()) {
			return up, failed
		}
	}
	return nil, r
}

// overSSE connects by a stream: 2026-07-28, Streamable HTTP, "HTTP+SSE
// Transport". Elsewhere means that the server does not speak this transport, as
// far as its answer shows.
func (l *link) overSSE(p *profile) (up upstream, failed *reply, elsewhere bool) {
	u := newHTTPSSE(l.life, l.endpoint, l.newID, l.feed)
	if r := u.prepare(l.life, p); r != nil {
		u.close(l.life)
		return nil, r, notSSE(r)
	}
	l.eras.set(sseEraName)
	return u, nil, false
}

// notSSE reports whether a stream that did not come to stand shows that the
// server does not speak HTTP+SSE.
func notSSE(r *reply) bool {
	c := &r.capture
	switch {
	case r.spoken:
		return false
	case c.Status/100 == 2:
		return !r.isStream() || c.Ended == classify.Timeout // silent, where an endpoint event belongs
	}
	return slices.Contains([]int{400, 404, 405, 406, 410, 415}, c.Status)
}

// doubt weighs a session that could not be opened against the belief that the
// server speaks HTTP+SSE.
func (l *link) doubt(up upstream, failed *reply) {
	if u, ok := up.(*httpSSE); ok && notSSE(failed) && l.cfg.Transport == TransportAuto {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.up == up {
			l.contradicted(u)
		}
	}
}

// worse chooses which of two failures to report: that of initialize, unless
// the probe had already said something about credentials or the network.
func worse(probe, initialize *reply) *reply {
	if probe != nil && initialize.capture.Status == 0 && probe.capture.Status != 0 {
		return probe
	}
	return initialize
}

// What a probe says about the era.
type probeVerdict uint8

const (
	saidNothing  probeVerdict = iota // 401, 403, 429, 5xx, a web page, silence
	saidLegacy                       // any other JSON-RPC error; 400, 404, 405, 406, 415 without a modern one
	saidModern                       // -32020, -32021, -32022, but nothing that we can work with
	noConnection                     // the request did not leave
	refused                          // 401 for want of a token: nothing else would be answered either
)

// discover probes for a modern server with server/discover.
func (l *link) discover(p *profile) (upstream, *reply, probeVerdict) {
	timeout := probeTimeout
	if l.cfg.Protocol == EraModern {
		timeout = initializeTimeout
	}
	ctx, cancel := context.WithTimeoutCause(l.life, timeout, limitReached("the time for server/discover"))
	defer cancel()
	l.mu.Lock()
	l.probed = time.Now()
	l.mu.Unlock()
	u := &modern{endpoint: l.endpoint, revision: rev2026_07_28}
	r := l.ask(ctx, u, p, "server/discover", timeout)
	if wantsToken(r) && l.endpoint.access.mended(ctx, r) {
		r.done()
		r = l.ask(ctx, u, p, "server/discover", timeout)
	}
	defer r.done()
	v := &r.verdict
	switch {
	case v.Outcome == classify.Result && len(v.Reply.Field(jsonrpc.SupportedVersions)) > 0:
		if !speaks(v.Reply.Field(jsonrpc.SupportedVersions), u.revision) {
			v.Why = fmt.Sprintf("the server speaks %s, none of which this bridge knows as modern", v.Reply.Field(jsonrpc.SupportedVersions))
			if speaksLegacy(v.Reply.Field(jsonrpc.SupportedVersions)) {
				return nil, r, saidLegacy
			}
			return nil, r, saidModern
		}
		l.keepDiscovery(&v.Reply)
		return u, nil, saidModern
	case v.Outcome == classify.Result:
		return nil, r, saidLegacy // some other JSON: no DiscoverResult
	case v.RPCError != nil && isModernError(v.RPCError.Code):
		if v.RPCError.Code == -32022 && speaksLegacy(jsonrpc.Get(v.RPCError.Data, "supported")) {
			return nil, r, saidLegacy
		}
		return nil, r, saidModern
	case v.RPCError != nil && (v.Status/100 == 2 || speaksOfEra(v.Status)):
		return nil, r, saidLegacy
	case speaksOfEra(v.Status) && v.Outcome == classify.HTTPError:
		return nil, r, saidLegacy
	case wantsToken(r):
		r.connecting = "server/discover"
		r.judge()
		return nil, r, refused
	case r.capture.Sent == classify.NothingSent && r.capture.Ended != classify.Timeout:
		return nil, r, noConnection
	}
	return nil, r, saidNothing // initialize has more time, to connect as well
}

// speaksOfEra names the statuses with which servers refuse what is not of their
// era; any other (401, 403, 407, 408, 429, 5xx) decides nothing.
func speaksOfEra(status int) bool {
	return slices.Contains([]int{400, 404, 405, 406, 415}, status)
}

// wantsToken reports whether the probe was refused for want of a token. A bare
// 401, or a 403, may come from a guard that does not know the method: it decides
// nothing, and initialize is asked.
func wantsToken(r *reply) bool {
	return r.capture.Status == http.StatusUnauthorized && auth.ParseChallenge(r.capture.Header).Bearer
}

// deliverOwn makes a delivery of the bridge's own, and once more if credentials
// were refused and could be renewed.
func (l *link) deliverOwn(ctx context.Context, up upstream, d *delivery, s sink) *reply {
	r := up.deliver(ctx, d, s)
	if r.connecting == "" && l.endpoint.access.mended(ctx, r) {
		r.done()
		d.id = l.newID()
		r = up.deliver(ctx, d, s)
	}
	r.judge()
	return r
}

// ask makes a request of the bridge's own, without params but for _meta.
func (l *link) ask(ctx context.Context, u upstream, p *profile, method string, timeout time.Duration) *reply {
	m, err := jsonrpc.Read([]byte(`{"jsonrpc":"2.0","id":0,"method":"` + method + `"}`))
	if err != nil {
		return notConnected(&ending{byBridge, err.Error(), classify.Cut})
	}
	d := &delivery{own: true, msg: &m, method: method, id: l.newID(), profile: p.asLegacy(), giveUp: time.Now().Add(timeout)}
	r := u.deliver(ctx, d, deaf{})
	r.judge()
	return r
}

// asLegacy is p for a request that the bridge makes itself: its _meta is made
// from the profile, as for a legacy host.
func (p *profile) asLegacy() *profile {
	own := *p
	own.era = legacyEra
	own.noteQuestions()
	return &own
}

func (l *link) keepDiscovery(m *jsonrpc.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.discovery = handshake{
		Version:      rev2026_07_28,
		Capabilities: objectOr(m.Field(jsonrpc.Capabilities), "{}"),
		ServerInfo:   objectOr(jsonrpc.Get(m.Field(jsonrpc.Meta), metaServerInfo), ""),
		Instructions: stringOrNil(m.Field(jsonrpc.Instructions)),
		More:         unknownOfDiscovery(m),
	}
}

// unknownOfDiscovery is what a DiscoverResult says beside what this revision
// names, its _meta included.
func unknownOfDiscovery(m *jsonrpc.Message) []byte {
	more := unknownMembers(m.Bytes(m.Result), "resultType", "supportedVersions", "capabilities", "instructions", "ttlMs", "cacheScope", "_meta")
	if meta := unknownMembers(m.Field(jsonrpc.Meta), metaServerInfo); meta != nil {
		more = jsonrpc.With(objectOr(more, "{}"), "_meta", meta)
	}
	return more
}

func speaks(versions []byte, version string) bool {
	list, err := jsonrpc.Split(versions)
	return err == nil && slices.ContainsFunc(list, func(v []byte) bool {
		s, _ := jsonrpc.String(v)
		return s == version
	})
}

func speaksLegacy(versions []byte) bool {
	return slices.ContainsFunc(legacyRevisions(), func(v string) bool { return speaks(versions, v) })
}

// saysModern reports whether a refused initialize came from a modern server.
func saysModern(r *reply) bool {
	return r.verdict.RPCError != nil && (isModernError(r.verdict.RPCError.Code) || r.verdict.RPCError.Code == -32601)
}

// heard weighs an answer to a request of the bridge's own against the era we
// believe in.
func (l *link) heard(u upstream, v *classify.Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up != u || l.cfg.Protocol != EraAuto {
		return
	}
	if !contradicts(u, v) {
		l.against = 0
		return
	}
	l.contradicted(u)
}

// contradicts reports whether an answer is not one that a server of u's era
// gives.
func contradicts(u upstream, v *classify.Verdict) bool {
	if u.era() == modernEra {
		return v.Outcome == classify.HTTPError && speaksOfEra(v.Status) &&
			(v.RPCError == nil || v.RPCError.Code >= -32019 && v.RPCError.Code <= -32000)
	}
	return v.RPCError != nil && isModernError(v.RPCError.Code)
}

// overheard takes the answer to a call of the host. It never changes the era by
// itself, but one that contradicts it lets the bridge ask anew, at most once in
// reprobeAfter: the probe is never a call.
func (l *link) overheard(u upstream, p *profile, v *classify.Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up != u || l.closed || l.cfg.Protocol != EraAuto || !contradicts(u, v) || time.Since(l.probed) < reprobeAfter {
		return
	}
	l.probed = time.Now()
	l.work.Go(func() {
		ctx, cancel := context.WithTimeoutCause(l.life, probeTimeout, limitReached("the time for server/discover"))
		defer cancel()
		r := l.ask(ctx, &modern{endpoint: l.endpoint, revision: rev2026_07_28}, p, "server/discover", probeTimeout)
		defer r.done()
		modernNow := r.verdict.Outcome == classify.Result && len(r.verdict.Reply.Field(jsonrpc.SupportedVersions)) > 0
		legacyNow := r.verdict.Outcome != classify.Result && (r.verdict.RPCError != nil && !isModernError(r.verdict.RPCError.Code) || speaksOfEra(r.verdict.Status))
		if u.era() == modernEra && !legacyNow || u.era() == legacyEra && !modernNow {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.up == u {
			l.eras.forget()
			l.up, l.against = nil, 0
			l.work.Go(func() { u.close(l.life) })
		}
	})
}

// contradicted counts an answer against the era we believe in; l.mu is held.
func (l *link) contradicted(u upstream) {
	if l.against++; l.against >= contradictions && time.Since(l.probed) >= reprobeAfter {
		l.eras.forget()
		l.up, l.against = nil, 0
		l.work.Go(func() { u.close(l.life) })
	}
}

// close ends what the upstream holds for us.
func (l *link) close(ctx context.Context, keepSessions bool) {
	l.endpoint.keepSessions.Store(keepSessions)
	l.mu.Lock()
	l.closed = true
	up := l.up
	l.mu.Unlock()
	if up != nil {
		up.close(ctx)
	}
	l.work.Wait()
	l.endpoint.wire.Close()
}

// newEndpoint builds the HTTP side from the configuration.
func newEndpoint(cfg *Config) (*endpoint, error) {
	a := newAccess(cfg)
	client, err := wire.New(wire.Config{
		URL:            cfg.URL,
		Headers:        staticHeaders(cfg),
		Proxy:          cfg.Proxy,
		CACertFile:     cfg.CACert,
		ClientCertFile: cfg.ClientCert,
		ClientKeyFile:  cfg.ClientKey,
		ConnectTimeout: cfg.ConnectTimeout,
		NoCookies:      cfg.NoCookies,
		UserAgent:      "mcpbridge/" + cfg.Version,
		Middleware:     a.around(),
		Log:            cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	stateDir := cfg.StateDir
	mem := &memory{limit: cfg.MaxMemory, spool: func() (*spool, error) { return newSpool(stateDir) }}
	return &endpoint{wire: client, memory: mem, access: a, cfg: cfg, log: cfg.Log}, nil
}

func staticHeaders(cfg *Config) http.Header {
	h := http.Header{}
	for _, configured := range cfg.Headers {
		configured.SetOn(h)
	}
	return h
}
