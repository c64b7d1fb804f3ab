package bridge

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// A sseServer is a server of HTTP+SSE that does as a test says.
type sseServer struct {
	*httptest.Server
	endpoint string                                                     // data of the endpoint event
	version  string                                                     // "" is 2024-11-05
	get      http.HandlerFunc                                           // instead of the stream
	post     func(w http.ResponseWriter, m *jsonrpc.Message, id string) // a request after the handshake; nil: 202

	mu   sync.Mutex
	seen []*http.Request // bodies are read
	out  chan string     // events of the newest stream; closed to end it
}

func newSSEServer(t *testing.T, s *sseServer) *sseServer {
	t.Helper()
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *sseServer) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.seen = append(s.seen, r)
	s.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && s.get != nil:
		s.get(w, r)
	case r.Method == http.MethodGet:
		s.stream(w, r)
	case r.URL.Path == "/sse": // the address of the stream takes no messages
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		s.take(w, body)
	}
}

func (s *sseServer) stream(w http.ResponseWriter, r *http.Request) {
	out := make(chan string, 256)
	s.mu.Lock()
	s.out = out
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	fmt.Fprintf(w, ": hello\n\nevent: endpoint\ndata: %s\n\n", s.endpoint)
	for {
		w.(http.Flusher).Flush()
		select {
		case event, ok := <-out:
			if !ok {
				return
			}
			io.WriteString(w, event)
		case <-r.Context().Done():
			return
		}
	}
}

func (s *sseServer) take(w http.ResponseWriter, body []byte) {
	m, err := jsonrpc.Read(body)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	case m.Method == "initialize":
		version := s.version
		if version == "" {
			version = rev2024_11_05
		}
		s.say(`{"jsonrpc":"2.0","id":` + string(m.Bytes(m.ID)) + `,"result":{"protocolVersion":"` + version + `","capabilities":{},"serverInfo":{"name":"fake","version":"1"}}}`)
	case m.Kind == jsonrpc.Request && s.post != nil:
		s.post(w, &m, string(m.Bytes(m.ID)))
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// say puts a message onto the stream.
func (s *sseServer) say(message string) { s.raw("data: " + message + "\n\n") }

func (s *sseServer) raw(text string) {
	s.mu.Lock()
	out := s.out
	s.mu.Unlock()
	out <- text
}

// endStream ends the stream behind what it was given.
func (s *sseServer) endStream() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.out)
}

func (s *sseServer) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// A sseFeed counts what it is told.
type sseFeed struct {
	deaf
	noticed, sessions, gaps atomic.Int64
}

func (f *sseFeed) notification(*jsonrpc.Message)       { f.noticed.Add(1) }
func (f *sseFeed) connected(*profile, handshake, bool) { f.sessions.Add(1) }
func (f *sseFeed) gap(*profile)                        { f.gaps.Add(1) }
func (f *sseFeed) following() bool                     { return false }

// A sseClient is the dialect alone, without a bridge around it.
type sseClient struct {
	*httpSSE
	t    *testing.T
	ctx  context.Context
	feed *sseFeed
	p    *profile
}

func newSSEClient(t *testing.T, s *sseServer, path string) *sseClient {
	t.Helper()
	at, err := url.Parse(s.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{URL: at, MaxMessage: 64 << 10, Headers: []auth.Header{{Name: "X-Key", Value: auth.NewSecret("k1")}}}.withDefaults()
	e, err := newEndpoint(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), sseTestLimit)
	var ids atomic.Int64
	c := &sseClient{t: t, ctx: ctx, feed: &sseFeed{}, p: legacyProfile(rev2025_03_26, nil, nil)}
	c.httpSSE = newHTTPSSE(ctx, e, func() int64 { return ids.Add(1) }, c.feed)
	t.Cleanup(func() {
		c.close(context.Background())
		e.wire.Close()
		cancel()
	})
	return c
}

// call delivers a call of a tool and judges the reply.
func (c *sseClient) call(ctx context.Context, write bool) *reply {
	m, err := jsonrpc.Read([]byte(`{"jsonrpc":"2.0","id":"host","method":"tools/call","params":{"name":"t"}}`))
	if err != nil {
		c.t.Error(err)
	}
	d := &delivery{msg: &m, method: m.Method, id: c.newID(), write: write, profile: c.p}
	if failed := c.prepare(ctx, c.p); failed != nil {
		return failed
	}
	r := c.deliver(ctx, d, deaf{})
	r.judge()
	r.done()
	return r
}

func (c *sseClient) wants(r *reply, o classify.Outcome, e classify.Effect) {
	c.t.Helper()
	if r.verdict.Outcome != o || r.verdict.Effect != e {
		c.t.Errorf("%v, effect %v (%s), want %v, %v", r.verdict.Outcome, r.verdict.Effect, r.verdict.Why, o, e)
	}
}

func toolResult(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"did it"}]}}`
}

// The address for messages is a URL reference like any other; where it leads
// elsewhere, nothing is sent.
func TestPostAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ stream, data, want string }{
		{"http://u/mcp/sse?key=1", "/mcp/messages?s=1", "http://u/mcp/messages?s=1"},
		{"http://u/mcp/sse?key=1", "messages?s=1", "http://u/mcp/messages?s=1"},
		{"http://u/mcp/sse/", "messages?s=1", "http://u/mcp/sse/messages?s=1"},
		{"http://u/mcp/sse?key=1", "?s=1", "http://u/mcp/sse?s=1"},
		{"http://u/mcp/sse", " \t/m?a=%2F&b=1%202 \r\n", "http://u/m?a=%2F&b=1%202"},
		{"http://u/mcp/sse", "http://u/m?s=1#part", "http://u/m?s=1"},
		{"http://u/sse", "HTTP://U:80/m", "http://U:80/m"},
		{"https://u:443/sse", "//u/m", "https://u/m"},
		{"http://[::1]:8080/sse", "http://[::1]:8080/m", "http://[::1]:8080/m"},
		{"http://me:secret@u/sse", "m", "http://u/m"},
		{"http://u/sse", "http://you:secret@u/m", "http://u/m"},
		{"http://u/sse", "", ""},
		{"http://u/sse", "http://v/m?s=secret", ""},
		{"http://u/sse", "http://u:81/m?s=1", "http://u/m?s=1"}, // what the server sees of itself
		{"http://u/sse", "//v/m?s=secret", ""},
		{"https://u:8443/sse", "http://u/m?s=1", "https://u:8443/m?s=1"},
		{"https://u/sse", "ftp://u/m?s=secret", ""},
		{"http://u/sse", "javascript:alert(1)", ""},
		{"http://u/sse", "http://u/%zz?s=secret", ""},
		{"http://u/sse", "http://u\x00/?s=secret", ""},
	} {
		stream, err := url.Parse(c.stream)
		if err != nil {
			t.Fatal(err)
		}
		got, err := postAddress(stream, []byte(c.data))
		switch {
		case c.want == "" && err == nil:
			t.Errorf("%q on %s: %s, want an error", c.data, c.stream, got)
		case c.want == "" && strings.Contains(err.Error(), "secret"):
			t.Errorf("%q on %s: the error tells a secret: %v", c.data, c.stream, err)
		case c.want != "" && (err != nil || got.String() != c.want):
			t.Errorf("%q on %s: %v, %v, want %s", c.data, c.stream, got, err, c.want)
		}
	}
}

// Where a server does not know of the prefix that a proxy takes off, and never
// another origin.
func TestHTTPSSEPrefixes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stream, data string
		want         []string
	}{
		{"http://u/sse", "/m", []string{"/m"}},
		{"http://u/api/sse", "/m?s=%2F1", []string{"/m?s=%2F1", "/api/m?s=%2F1"}},
		{"http://u/api/v1/sse?k=1", "http://u/m", []string{"/m", "/api/v1/m", "/api/m"}},
		{"http://u/a%2Fb/sse", "/m%2F", []string{"/m%2F", "/a%2Fb/m%2F"}},
		{"http://u/api/sse", "/api/m", []string{"/api/m"}},
		{"http://u/api/v1/sse", "/api/m", []string{"/api/m", "/api/v1/api/m"}},
		{"http://u/api/sse/", "/m", []string{"/m", "/api/m"}},
		{"http://u/api/sse", "m", []string{"/api/m"}},
		{"http://u/api/sse", "?s=1", []string{"/api/sse?s=1"}},
		{"http://u/1/2/3/4/5/6/sse", "/m", []string{"/m", "/1/2/3/4/5/6/m", "/1/2/3/4/5/m", "/1/2/3/4/m", "/1/2/3/m"}},
		{"http://u//v/sse", "//u/m", []string{"/m", "//v/m"}},
	} {
		stream, err := url.Parse(c.stream)
		if err != nil {
			t.Fatal(err)
		}
		all, err := postAddresses(stream, []byte(c.data))
		if err != nil {
			t.Errorf("%q on %s: %v", c.data, c.stream, err)
		}
		var got []string
		for _, to := range all {
			if to.Host != stream.Host || to.Scheme != stream.Scheme {
				t.Errorf("%q on %s: %s is another origin", c.data, c.stream, to)
			}
			got = append(got, to.RequestURI())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q on %s: %q, want %q", c.data, c.stream, got, c.want)
		}
	}
}

// TestHTTPSSEBehindAProxy: the proxy takes /api off and knows nothing else.
func TestHTTPSSEBehindAProxy(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"/messages?s=1", "http://HOST:1/messages?s=1"} {
		s := &sseServer{}
		s.post = func(w http.ResponseWriter, _ *jsonrpc.Message, id string) {
			w.WriteHeader(http.StatusAccepted)
			s.say(toolResult(id))
		}
		s = newSSEServer(t, s)
		s.Config.Handler = http.NewServeMux()
		s.Config.Handler.(*http.ServeMux).Handle("/api/", http.StripPrefix("/api", http.HandlerFunc(s.serve)))
		s.endpoint = strings.Replace(endpoint, "HOST", "127.0.0.1", 1)
		c := newSSEClient(t, s, "/api/sse")
		c.wants(c.call(c.ctx, true), classify.ToolSuccess, classify.Reported)
		for _, r := range s.requests()[1:] {
			if got := r.Method + " " + r.URL.RequestURI(); got != "POST /messages?s=1" {
				t.Errorf("%q: %s", endpoint, got)
			}
		}
	}
}

// Messages go to where the endpoint event points, with the configured headers on
// both channels.
func TestHTTPSSEAddress(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"/mcp/messages?s=1", "messages?s=1", "  /mcp/messages?s=1  ", "URL/mcp/messages?s=1"} {
		s := &sseServer{}
		s.post = func(w http.ResponseWriter, _ *jsonrpc.Message, id string) {
			w.WriteHeader(http.StatusAccepted)
			s.say(toolResult(id))
		}
		s = newSSEServer(t, s)
		s.endpoint = strings.Replace(endpoint, "URL", s.URL, 1)
		c := newSSEClient(t, s, "/mcp/sse?key=1")
		c.wants(c.call(c.ctx, true), classify.ToolSuccess, classify.Reported)
		for i, r := range s.requests() {
			want := "POST /mcp/messages?s=1"
			if i == 0 {
				want = "GET /mcp/sse?key=1"
			}
			if got := r.Method + " " + r.RequestURI; got != want || r.Header.Get("X-Key") != "k1" {
				t.Errorf("%q: request %d is %s, want %s; headers %v", endpoint, i, got, want, r.Header)
			}
		}
	}
}

// A stream that cannot be used says why, and nothing is posted.
func TestHTTPSSENoStream(t *testing.T) {
	t.Parallel()
	answer := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	for _, one := range []struct {
		get       http.HandlerFunc
		endpoint  string
		why       string
		elsewhere bool
	}{
		{nil, "http://127.0.0.9:9/messages?s=secret", "points to http://127.0.0.9:9, another origin", false},
		{nil, "   ", "endpoint event is empty", false},
		{answer(405, "text/plain", "no"), "", "HTTP 405", true},
		{answer(503, "text/plain", "down"), "", "HTTP 503", false},
		{answer(401, "text/plain", "who"), "", "HTTP 401", false},
		{answer(200, "text/html", "<html>"), "", `"text/html", not an event stream`, true},
		{answer(200, "text/event-stream", "data: {}\n\n"), "", "it ended before the endpoint event", false},
		{answer(200, "text/event-stream", "event: endpoint\ndata: /m"), "", "it ended before the endpoint event", false},
	} {
		s := newSSEServer(t, &sseServer{get: one.get, endpoint: one.endpoint})
		c := newSSEClient(t, s, "/sse")
		r := c.call(c.ctx, true)
		c.wants(r, classify.Unreachable, classify.None)
		if !strings.Contains(r.verdict.Why, one.why) || strings.Contains(r.verdict.Why, "secret") {
			t.Errorf("said %q, want %q", r.verdict.Why, one.why)
		}
		if notSSE(r) != one.elsewhere {
			t.Errorf("%q: shows that the server speaks another transport: %v", r.verdict.Why, notSSE(r))
		}
		if n := len(s.requests()); n != 1 {
			t.Errorf("%q: %d requests", r.verdict.Why, n)
		}
	}
}

// The ways in which a reply comes, and in which it does not.
func TestHTTPSSEReplies(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		post    func(s *sseServer, w http.ResponseWriter, id string)
		outcome classify.Outcome
		effect  classify.Effect
	}{
		"in the answer to the POST": {func(_ *sseServer, w http.ResponseWriter, id string) {
			io.WriteString(w, toolResult(id))
		}, classify.ToolSuccess, classify.Reported},
		"an error in the answer to the POST": {func(_ *sseServer, w http.ResponseWriter, id string) {
			io.WriteString(w, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32601,"message":"no"}}`)
		}, classify.JSONRPCError, classify.None},
		"another id in the answer to the POST": {func(_ *sseServer, w http.ResponseWriter, _ string) {
			io.WriteString(w, toolResult("99999"))
		}, classify.InvalidEnvelope, classify.Possible},
		"before the POST is answered": {func(s *sseServer, w http.ResponseWriter, id string) {
			s.say(toolResult(id))
			w.(http.Flusher).Flush()
		}, classify.ToolSuccess, classify.Reported},
		"after much else": {func(s *sseServer, w http.ResponseWriter, id string) {
			w.WriteHeader(http.StatusAccepted)
			io.WriteString(w, "Accepted")
			s.raw("event: ping\ndata: now\n\n: comment\n\ndata: no JSON\n\nevent: endpoint\ndata: http://127.0.0.1:9/other\n\n")
			s.say(toolResult("77777"))
			s.say(`{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`)
			s.say(toolResult(id))
		}, classify.ToolSuccess, classify.Reported},
		"unreadable": {func(s *sseServer, w http.ResponseWriter, id string) {
			w.WriteHeader(http.StatusAccepted)
			s.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[}}`)
		}, classify.MalformedJSON, classify.Possible},
		"both result and error": {func(s *sseServer, w http.ResponseWriter, id string) {
			w.WriteHeader(http.StatusAccepted)
			s.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{},"error":{"code":1,"message":"x"}}`)
		}, classify.InvalidEnvelope, classify.Possible},
		"too large": {func(s *sseServer, w http.ResponseWriter, id string) {
			w.WriteHeader(http.StatusAccepted)
			s.say(strings.Replace(toolResult(id), "did it", strings.Repeat("x", 70<<10), 1))
		}, classify.StreamIncomplete, classify.Possible},
		"with an end of the stream instead of its blank line": {func(s *sseServer, w http.ResponseWriter, id string) {
			w.WriteHeader(http.StatusAccepted)
			s.raw("data: " + toolResult(id))
			s.endStream()
		}, classify.ToolSuccess, classify.Reported},
		"half, at the end of the stream": {func(s *sseServer, w http.ResponseWriter, id string) {
			w.WriteHeader(http.StatusAccepted)
			s.raw("data: " + toolResult(id)[:20])
			s.endStream()
		}, classify.StreamIncomplete, classify.Possible},
		"refused": {func(_ *sseServer, w http.ResponseWriter, _ string) {
			w.WriteHeader(http.StatusTooManyRequests)
		}, classify.HTTPError, classify.None},
		"session unknown": {func(_ *sseServer, w http.ResponseWriter, _ string) {
			http.Error(w, "Could not find session", http.StatusNotFound)
		}, classify.HTTPError, classify.None},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &sseServer{endpoint: "/m"}
			s.post = func(w http.ResponseWriter, _ *jsonrpc.Message, id string) { one.post(s, w, id) }
			s = newSSEServer(t, s)
			c := newSSEClient(t, s, "/sse")
			r := c.call(c.ctx, true)
			c.wants(r, one.outcome, one.effect)
			if r.tooLarge != (name == "too large") {
				t.Errorf("too large: %v", r.tooLarge)
			}
			if name == "after much else" && (c.strays.Load() != 1 || c.feed.noticed.Load() != 1) {
				t.Errorf("%d replies to nobody, %d notices, want 1 and 1", c.strays.Load(), c.feed.noticed.Load())
			}
		})
	}
}

// Batches come where the session speaks the one revision that has them.
func TestHTTPSSEBatch(t *testing.T) {
	t.Parallel()
	for version, outcome := range map[string]classify.Outcome{rev2025_03_26: classify.ToolSuccess, rev2025_06_18: classify.TimedOut} {
		s := &sseServer{endpoint: "/m", version: version}
		s.post = func(w http.ResponseWriter, _ *jsonrpc.Message, id string) {
			w.WriteHeader(http.StatusAccepted)
			s.say(`[{"jsonrpc":"2.0","method":"notifications/x"},` + toolResult(id) + `]`)
		}
		s = newSSEServer(t, s)
		c := newSSEClient(t, s, "/sse")
		if failed := c.prepare(c.ctx, c.p); failed != nil {
			t.Fatal(failed.verdict.Why)
		}
		ctx, cancel := context.WithTimeoutCause(c.ctx, time.Second, limitReached("--job-timeout"))
		r := c.call(ctx, true)
		cancel()
		if r.verdict.Outcome != outcome {
			t.Errorf("%s: %v (%s), want %v", version, r.verdict.Outcome, r.verdict.Why, outcome)
		}
		for _, req := range s.requests()[2:] {
			if got := req.Header.Get("Mcp-Protocol-Version"); (version == rev2025_06_18) != (got == version) {
				t.Errorf("%s: header %q", version, got)
			}
		}
	}
}

// Many calls at once on one stream, answered in the wrong order.
func TestHTTPSSEManyCalls(t *testing.T) {
	t.Parallel()
	const calls = 40
	var held []string
	var mu sync.Mutex
	s := &sseServer{endpoint: "/m"}
	s.post = func(w http.ResponseWriter, _ *jsonrpc.Message, id string) {
		w.WriteHeader(http.StatusAccepted)
		mu.Lock()
		defer mu.Unlock()
		if held = append(held, id); len(held) < calls {
			return
		}
		for _, id := range slices.Backward(held) {
			s.say(strings.Replace(toolResult(id), "did it", "did "+id, 1))
		}
	}
	s = newSSEServer(t, s)
	c := newSSEClient(t, s, "/sse")
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			r := c.call(c.ctx, true)
			if want := "did " + string(r.expect.ID); r.verdict.Outcome != classify.ToolSuccess || !strings.Contains(string(r.verdict.Reply.Raw), `"`+want+`"`) {
				t.Errorf("%v: %s, want %q", r.verdict.Outcome, r.verdict.Reply.Raw, want)
			}
		})
	}
	all.Wait()
	gets := slices.DeleteFunc(s.requests(), func(r *http.Request) bool { return r.Method != http.MethodGet })
	if len(gets) != 1 || c.feed.sessions.Load() != 1 {
		t.Errorf("%d streams, %d sessions", len(gets), c.feed.sessions.Load())
	}
}

// A session that is renewed for one call does not take the stream away from
// those that still wait on it.
func TestHTTPSSERenew(t *testing.T) {
	t.Parallel()
	s := &sseServer{endpoint: "/m"}
	posted := make(chan string, 2)
	s.post = func(w http.ResponseWriter, _ *jsonrpc.Message, id string) {
		w.WriteHeader(http.StatusAccepted)
		posted <- id
	}
	s = newSSEServer(t, s)
	c := newSSEClient(t, s, "/sse")
	if failed := c.prepare(c.ctx, c.p); failed != nil {
		t.Fatal(failed.verdict.Why)
	}
	old := c.session(c.p)
	s.mu.Lock()
	firstStream := s.out
	s.mu.Unlock()
	var calling sync.WaitGroup
	calling.Go(func() { c.wants(c.call(c.ctx, true), classify.ToolSuccess, classify.Reported) })
	id := <-posted
	c.renew(&delivery{profile: c.p, stream: old})
	if failed := c.prepare(c.ctx, c.p); failed != nil {
		t.Fatal(failed.verdict.Why)
	}
	if c.session(c.p) == old {
		t.Error("the session was not replaced")
	}
	firstStream <- "data: " + toolResult(id) + "\n\n"
	calling.Wait()
	select {
	case <-old.gone:
	case <-c.ctx.Done():
		t.Error("the old stream stays open with nothing waiting on it")
	}
	if c.feed.gaps.Load() != 1 {
		t.Errorf("%d gaps", c.feed.gaps.Load())
	}
}

// Nothing goes on after close, however it came.
func TestHTTPSSEClose(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := &sseServer{endpoint: "/m"}
	posted := make(chan string, 1)
	s.post = func(w http.ResponseWriter, _ *jsonrpc.Message, id string) {
		w.WriteHeader(http.StatusAccepted)
		posted <- id
	}
	t.Run("close", func(t *testing.T) {
		s = newSSEServer(t, s)
		c := newSSEClient(t, s, "/sse")
		var calling sync.WaitGroup
		calling.Go(func() { c.wants(c.call(c.ctx, true), classify.StreamIncomplete, classify.Possible) })
		<-posted
		c.close(c.ctx)
		calling.Wait()
		c.wants(c.call(c.ctx, true), classify.Unreachable, classify.None)
	})
	goleak.VerifyNone(t, before)
}

// A stream that stays silent, as that of another transport may, is given up.
func TestHTTPSSESilentStream(t *testing.T) {
	t.Parallel()
	s := newSSEServer(t, &sseServer{get: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}})
	c := newSSEClient(t, s, "/mcp")
	r := c.call(c.ctx, true)
	c.wants(r, classify.Unreachable, classify.None)
	if !strings.Contains(r.verdict.Why, "endpoint event") || !notSSE(r) {
		t.Errorf("said %q; shows that the server speaks another transport: %v", r.verdict.Why, notSSE(r))
	}
}

// A remembered transport is given up where the server answers otherwise.
func TestHTTPSSERemembered(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		remembered string
		era        bridgetest.Era
		then       string
	}{
		{sseEraName, bridgetest.Both, modernEraName},
		{sseEraName, bridgetest.Legacy, legacyEraName},
		{sseEraName, bridgetest.SSE, sseEraName},
		{legacyEraName, bridgetest.SSE, sseEraName},
		{modernEraName, bridgetest.SSE, sseEraName},
	} {
		up, err := bridgetest.Start(bridgetest.Options{Era: one.era})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(up.Close)
		dir := t.TempDir()
		eras := newEraCache(dir, up.URL())
		eras.set(one.remembered)
		ctx, host := startSSEBridge(t, sseTestConfig{URL: up.URL(), StateDir: dir}, bridgetest.HostOptions{})
		if _, err := host.Initialize(ctx, rev2025_06_18, ""); err != nil {
			t.Fatal(err)
		}
		reply, err := host.CallTool(ctx, "write_note", `{"key":"k"}`)
		if err != nil || reply.IsError() || up.Ledger().Deliveries("write_note") != 1 {
			t.Errorf("%s, then %v: %s, %v", one.remembered, one.era, reply.Raw, err)
		}
		if got := eras.get(); got != one.then {
			t.Errorf("%s, then %v: remembers %s, want %s", one.remembered, one.era, got, one.then)
		}
	}
}

// What the search for the era reports: the refusal of initialize, unless the
// stream shows what is really wrong.
func TestHTTPSSEReason(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		endpoint string
		status   int // of the answer to GET; 0: a stream
		why      string
	}{
		{"", http.StatusUnauthorized, "HTTP 401"},
		{"", http.StatusBadGateway, "HTTP 405"},
		{"", http.StatusNotFound, "HTTP 405"},
		{"http://127.0.0.9:9/m", 0, "another origin"},
	} {
		s := &sseServer{endpoint: one.endpoint}
		if one.status != 0 {
			s.get = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(one.status) }
		}
		c := newSSEClient(t, newSSEServer(t, s), "/sse")
		l := c.newLink()
		up, failed := l.ready(c.ctx, c.p)
		if up != nil || failed == nil || !strings.Contains(failed.verdict.Why, one.why) {
			t.Errorf("GET answers %d: %v, %+v, want %q", one.status, up, failed, one.why)
		}
	}
}

// newLink makes a link to the server of c, on its endpoint.
func (c *sseClient) newLink() *link {
	cfg := *c.endpoint.cfg
	life, end := context.WithCancel(c.ctx)
	l := &link{cfg: &cfg, endpoint: c.endpoint, life: life, feed: c.feed, eras: newEraCache(c.t.TempDir(), cfg.URL.String())}
	c.t.Cleanup(func() { end(); l.close(context.Background(), false) })
	return l
}

// A server that stops to speak HTTP+SSE while the bridge runs is looked at anew.
func TestHTTPSSEDoubt(t *testing.T) {
	t.Parallel()
	s := &sseServer{endpoint: "/m"}
	var moved atomic.Bool
	s.get = func(w http.ResponseWriter, r *http.Request) {
		if moved.Load() {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		s.stream(w, r)
	}
	s = newSSEServer(t, s)
	c := newSSEClient(t, s, "/sse")
	l := c.newLink()
	l.eras.set(sseEraName)
	up, failed := l.ready(c.ctx, c.p)
	if failed != nil {
		t.Fatal(failed.verdict.Why)
	}
	first := up.(*httpSSE).session(c.p)
	moved.Store(true)
	s.endStream()
	<-first.gone
	for range contradictions {
		if _, failed := l.ready(c.ctx, c.p); failed == nil || !strings.Contains(failed.verdict.Why, "404") {
			t.Fatalf("after the server has moved: %v", failed)
		}
	}
	if l.known() != nil || l.eras.get() != "" {
		t.Errorf("still believes in %v, and remembers %q", l.known(), l.eras.get())
	}
}

// The reply to a call that may have an effect is waited for beyond the grace of
// others after its POST has failed: there is nothing else to learn from.
func TestHTTPSSEPatience(t *testing.T) {
	t.Parallel()
	for write, outcome := range map[bool]classify.Outcome{true: classify.ToolSuccess, false: classify.HTTPError} {
		s := &sseServer{endpoint: "/m"}
		s.post = func(w http.ResponseWriter, _ *jsonrpc.Message, id string) {
			w.WriteHeader(http.StatusGatewayTimeout)
			time.AfterFunc(lateReplyGrace+lateReplyGrace/4, func() { s.say(toolResult(id)) })
		}
		s = newSSEServer(t, s)
		c := newSSEClient(t, s, "/sse")
		if r := c.call(c.ctx, write); r.verdict.Outcome != outcome || r.capture.Status != http.StatusGatewayTimeout {
			t.Errorf("write %v: %v (%s), want %v", write, r.verdict.Outcome, r.verdict.Why, outcome)
		}
	}
}

// A session that did not come to stand is tried again by whoever needs it next,
// and a pause before a reopening is cut short by the same.
func TestHTTPSSEOpensAgain(t *testing.T) {
	t.Parallel()
	s := &sseServer{endpoint: "/m"}
	var down atomic.Bool
	s.get = func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		s.stream(w, r)
	}
	s.post = func(w http.ResponseWriter, _ *jsonrpc.Message, id string) {
		w.WriteHeader(http.StatusAccepted)
		s.say(toolResult(id))
	}
	s = newSSEServer(t, s)
	c := newSSEClient(t, s, "/sse")
	down.Store(true)
	for range 2 {
		c.wants(c.call(c.ctx, true), classify.Unreachable, classify.None)
	}
	down.Store(false)
	c.wants(c.call(c.ctx, true), classify.ToolSuccess, classify.Reported)
	for range 3 { // the pauses alone would take seven seconds
		old := c.session(c.p)
		s.endStream()
		<-old.gone
		began := time.Now()
		c.wants(c.call(c.ctx, true), classify.ToolSuccess, classify.Reported)
		if took := time.Since(began); took > firstPause {
			t.Errorf("opened again after %v, with a call waiting", took)
		}
	}
}
