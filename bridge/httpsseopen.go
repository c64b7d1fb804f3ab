package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/wire"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/classify/sse"
)

const (
	// endpointTimeout bounds the time until a stream has named the address for
	// messages. A server of another transport may leave its stream silent.
	endpointTimeout = 10 * time.Second
	// steadyFor is how long a stream must have lived for the pauses between
	// streams to begin anew.
	steadyFor = 10 * time.Second

	openingStream = "open the event stream"
)

// keep holds the stream of s open, and those that come after it, with growing
// pauses. A first one that does not come to stand is not tried again before
// somebody needs it.
func (u *httpSSE) keep(s *sseSession) {
	pause := firstPause
	for {
		began := time.Now()
		u.hold(s)
		if !s.again && !s.stood() {
			return
		}
		if s.stood() && time.Since(began) > steadyFor {
			pause = firstPause
		}
		next := u.successor(s)
		if next == nil {
			return
		}
		if !next.pause(pause) {
			next.fail(notConnected(hostGone("the bridge is leaving")))
			return
		}
		s, pause = next, min(2*pause, maxPause)
	}
}

// successor is the session after s, unless there is one already.
func (u *httpSSE) successor(s *sseSession) *sseSession {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || u.sessions[s.profile.key] != s {
		return nil
	}
	next := newSSESession(u.ctx, s.profile, true)
	u.sessions[s.profile.key] = next
	return next
}

// hold opens the stream of s and reads it to its end.
func (u *httpSSE) hold(s *sseSession) {
	defer s.cancel(nil)
	late := time.AfterFunc(endpointTimeout, func() { s.cancel(limitReached("the time for the endpoint event")) })
	defer late.Stop()
	r := &reply{connecting: openingStream, endedBy: byUpstream, expect: classify.Expectation{Protocol: rev2024_11_05}}
	resp, err := u.openStream(s, r)
	if err == nil && u.endpoint.access.mended(s.ctx, r) {
		resp.Body.Close()
		resp, err = u.openStream(s, r)
	}
	if err != nil {
		r.failed(s.ctx, err)
		r.judge()
		s.fail(r)
		return
	}
	defer resp.Body.Close()
	if !r.isStream() {
		u.noStream(s, r, resp)
		return
	}
	events := u.endpoint.events(resp.Body)
	to, err := u.awaitAddress(events)
	if err != nil {
		r.noAddress(s.ctx, err)
		s.fail(r)
		return
	}
	late.Stop()
	u.work.Go(func() { u.shake(s, to) })
	how := u.read(s, events)
	s.end(how)
	s.cancel(how)
	<-s.ready
}

// openStream asks for the stream and reads the head of the answer into r.
func (u *httpSSE) openStream(s *sseSession, r *reply) (*wire.Response, error) {
	ctx, shown := u.endpoint.access.watch(s.ctx)
	resp, err := u.endpoint.wire.Do(ctx, &wire.Request{Method: http.MethodGet, Header: header(hdrAccept, acceptSSE)})
	if err != nil {
		return nil, err
	}
	r.head(resp)
	u.endpoint.access.heard(r, shown)
	return resp, nil
}

// noStream ends the opening of a session whose GET was answered by something
// else than an event stream.
func (u *httpSSE) noStream(s *sseSession, r *reply, resp *wire.Response) {
	if r.capture.Status/100 != 2 {
		u.endpoint.readBody(s.ctx, resp.Body, resp.ContentLength, r)
	}
	r.judge()
	if r.capture.Status/100 == 2 {
		r.verdict.Why = fmt.Sprintf("%s: the answer to GET is %q, not an event stream", openingStream, cut(r.contentType, 80))
	}
	r.done()
	r.capture.Body = nil
	s.fail(r)
}

// noAddress judges a stream that did not name the address for messages.
func (r *reply) noAddress(ctx context.Context, err error) {
	r.capture.Detail, r.endedBy = readDetail(err), byNetwork
	if errors.Is(err, io.EOF) {
		r.capture.Detail, r.endedBy = "it ended before the endpoint event", byUpstream
	}
	var refused *addressError
	r.spoken = errors.As(err, &refused)
	r.interrupted(ctx)
	r.judge()
	r.verdict.Why = openingStream + ": " + r.capture.Detail
}

// awaitAddress reads the stream up to its endpoint event: 2024-11-05,
// transports, "HTTP with SSE".
func (u *httpSSE) awaitAddress(events *sse.Reader) ([]*url.URL, error) {
	for {
		ev, err := events.Next()
		if err != nil {
			return nil, err
		}
		if ev.Type == "endpoint" && !ev.Unfinished {
			defer free(ev.Release)
			return postAddresses(u.endpoint.cfg.URL, ev.Data)
		}
		free(ev.Release)
	}
}

// An addressError says why messages are not sent to where an endpoint event
// points. It names no path and no query: they hold the session's id.
type addressError struct{ why string }

func (e *addressError) Error() string { return "the server's endpoint event " + e.why }

// postAddresses are where messages may go by the data of an endpoint event: what
// it resolves to against the URL of the stream (RFC 3986, section 5.2), and what
// it would be if a proxy takes a prefix off the path and the server does not know
// (a stream at /api/sse whose endpoint is /messages). All are of the configured
// origin: nothing goes anywhere else.
func postAddresses(stream *url.URL, data []byte) ([]*url.URL, error) {
	to, err := postAddress(stream, data)
	if err != nil {
		return nil, err
	}
	all := []*url.URL{to}
	ref, err := url.Parse(string(bytes.TrimSpace(data)))
	if err != nil || !strings.HasPrefix(ref.Path, "/") {
		return all, nil
	}
	prefix := strings.TrimSuffix(stream.EscapedPath(), "/")
	for range maxPrefixes {
		prefix = prefix[:max(strings.LastIndexByte(prefix, '/'), 0)]
		if strings.Trim(prefix, "/") == "" {
			break
		}
		if strings.HasPrefix(to.EscapedPath(), prefix+"/") {
			continue
		}
		below := *to // never parsed as a reference: a path may begin like a host
		below.RawPath = prefix + to.EscapedPath()
		if below.Path, err = url.PathUnescape(below.RawPath); err != nil {
			break
		}
		all = append(all, &below)
	}
	return all, nil
}

// maxPrefixes bounds the prefixes that are tried.
const maxPrefixes = 4

// postAddress resolves the data of an endpoint event. Another host is refused:
// credentials and messages go to the configured origin only. The same host under
// another scheme or port is what a server sees of itself behind a proxy: it is
// read as the configured origin.
func postAddress(stream *url.URL, data []byte) (*url.URL, error) {
	ref := string(bytes.TrimSpace(data))
	if ref == "" {
		return nil, &addressError{"is empty"}
	}
	to, err := stream.Parse(ref)
	if err != nil {
		return nil, &addressError{"holds no URL"}
	}
	web := strings.EqualFold(to.Scheme, "http") || strings.EqualFold(to.Scheme, "https")
	if originText(to) != originText(stream) && web && strings.EqualFold(to.Hostname(), stream.Hostname()) {
		to.Scheme, to.Host = stream.Scheme, stream.Host
	}
	if originText(to) != originText(stream) {
		return nil, &addressError{fmt.Sprintf("points to %s, another origin than %s: nothing is sent there; if a proxy stands between, configure the server's public address there",
			cut(originText(to), 120), originText(stream))}
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	return to, nil
}

// originText is scheme, host and port of a URL (RFC 6454, section 4).
func originText(u *url.URL) string {
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		port = ""
	} else {
		port = ":" + port
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return scheme + "://" + host + port
}

// shake makes the handshake of s, whose stream is being read. Only when it has
// ended does anything else go out.
func (u *httpSSE) shake(s *sseSession, to []*url.URL) {
	ctx, cancel := context.WithTimeoutCause(s.ctx, initializeTimeout, &ending{byBridge, "the server did not answer initialize in time", classify.Timeout})
	defer cancel()
	failed := u.initializeAt(ctx, s, to)
	if failed != nil {
		failed.spoken = true
		s.fail(failed)
		return
	}
	u.initialized(ctx, s)
	u.restore(ctx, s)
	close(s.ready)
	u.feed.connected(s.profile, s.handshake, s.again)
	if s.again {
		u.missed(s)
	}
}

// initializeAt makes the handshake where messages are taken: the first address is
// what the server says, the others are tried where it takes none there.
func (u *httpSSE) initializeAt(ctx context.Context, s *sseSession, to []*url.URL) *reply {
	var first *reply
	for i, address := range to {
		s.to.Store(address)
		failed := s.profile.eachVersion(func(version string) *reply { return u.initialize(ctx, s, version) })
		if failed == nil {
			if i > 0 {
				u.log.Info("the server's endpoint event leaves out a prefix of the configured URL: messages go below it")
			}
			return nil
		}
		if first == nil {
			first = failed
		}
		if status := failed.capture.Status; status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
			break
		}
	}
	return first // what the server says is where it belongs
}

// missed tells of everything that may have changed while there was no stream.
func (u *httpSSE) missed(s *sseSession) {
	u.feed.gap(s.profile)
	if s.profile.era == modernEra {
		return // its subscriptions are known to the feed
	}
	for _, r := range u.standing.of(s.profile) {
		uri := r.msg.Field(jsonrpc.URI)
		m, err := jsonrpc.Read(concat(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":`, uri, `}}`))
		if len(uri) > 0 && err == nil {
			u.feed.notification(&m)
		}
	}
}

func (u *httpSSE) initialize(ctx context.Context, s *sseSession, version string) *reply {
	id := u.newID()
	expect := s.expectation("initialize", id)
	expect.Protocol, expect.Session = version, false
	r := u.carry(ctx, s, &letter{id: id, header: s.headers(), method: "initialize", out: deaf{}, expect: expect, body: s.profile.initializeBody(id, version)})
	defer r.done()
	h, failed := r.handshake()
	s.handshake = h
	return failed
}

func (u *httpSSE) initialized(ctx context.Context, s *sseSession) {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	if err := u.post(ctx, s, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		u.log.Warn("the server did not take notifications/initialized", "error", err)
	}
}

// restore tells a new session what the one before it knew.
func (u *httpSSE) restore(ctx context.Context, s *sseSession) {
	for _, r := range u.standing.of(s.profile) {
		id := u.newID()
		body := pair{host: s.profile.era, upstream: legacyEra}.request(r.msg, id, metaPatch{drop: perRequest})
		got := u.carry(ctx, s, &letter{id: id, header: s.headers(), method: r.msg.Method, out: deaf{}, body: body, expect: s.expectation(r.msg.Method, id)})
		if got.judge(); got.verdict.Outcome != classify.Result {
			u.log.Warn("could not be restored in the new session", "method", r.msg.Method, "error", got.verdict.Why)
		}
		got.done()
	}
}

// read takes every event of the stream and returns how it ended.
func (u *httpSSE) read(s *sseSession, events *sse.Reader) *ending {
	for {
		ev, err := events.Next()
		var tooLong *sse.TooLongError
		var store *sse.StoreError
		switch {
		case errors.As(err, &tooLong):
			u.lost(s, "larger than --max-message", arrival{tooLarge: true})
		case errors.As(err, &store):
			u.lost(s, store.Error(), arrival{})
		case err != nil && s.ctx.Err() != nil:
			return endingOf(s.ctx)
		case errors.Is(err, io.EOF):
			return &ending{byUpstream, "the server ended its event stream", classify.Cut}
		case err != nil:
			return &ending{byNetwork, "the event stream broke: " + readDetail(err), classify.Cut}
		default:
			u.take(s, ev)
		}
	}
}
