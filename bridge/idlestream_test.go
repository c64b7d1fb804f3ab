package bridge

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// An idleServer is a legacy server that says when its GET stream comes and goes.
type idleServer struct {
	*httptest.Server
	opened, closed chan string // Last-Event-ID
	proceed        chan struct{}
}

func newIdleServer(t *testing.T) *idleServer {
	t.Helper()
	s := &idleServer{opened: make(chan string, 16), closed: make(chan string, 16), proceed: make(chan struct{})}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *idleServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		last := r.Header.Get("Last-Event-ID")
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: e1\ndata: %s\n\n", `{"jsonrpc":"2.0","method":"notifications/example"}`)
		w.(http.Flusher).Flush()
		s.opened <- last
		<-r.Context().Done()
		s.closed <- last
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, _ := jsonrpc.Read(body)
	results := map[string]string{
		"initialize":            `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}`,
		"tools/list":            `{"tools":[{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`,
		"tools/call":            `{"content":[]}`,
		"resources/subscribe":   `{}`,
		"resources/unsubscribe": `{}`,
	}
	switch result, known := results[m.Method]; {
	case m.Kind != jsonrpc.Request:
		w.WriteHeader(http.StatusAccepted)
	case !known:
		w.WriteHeader(http.StatusNotFound)
	default:
		if m.Method == "tools/call" {
			<-s.proceed
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "s1")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.Bytes(m.ID), result)
	}
}

// within waits for one value of a channel.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	limit := time.NewTimer(boundsLimit)
	defer limit.Stop()
	select {
	case v := <-c:
		return v
	case <-limit.C:
		t.Fatalf("never: %s", what)
	}
	return *new(T) // not reached
}

// The GET stream of a session that nobody uses is closed, and the next use opens
// it again, from where it was; what may have been missed is looked at. An open
// call, a subscription and a listen keep it.
func TestIdleStream(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	s := newIdleServer(t)
	r := newBoundsRig(t, s.URL+"/mcp", func(c *Config) { c.idleStream = limit })
	r.shakeHands(`{}`)
	if last := within(t, "the stream", s.opened); last != "" {
		t.Errorf("opened after event %q", last)
	}
	within(t, "its end", s.closed)

	r.send(`{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"read"}}`)
	if last := within(t, "the stream for a call", s.opened); last != "e1" {
		t.Errorf("opened after event %q", last)
	}
	open := map[string]func(){
		"a call":         func() { s.proceed <- struct{}{}; r.answer(`"c"`) },
		"a subscription": func() { r.send(`{"jsonrpc":"2.0","id":"u","method":"resources/unsubscribe","params":{"uri":"x:y"}}`) },
		"a listen":       func() { r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"n"}}`) },
	}
	keeps := func(what string) {
		t.Helper()
		wait := time.NewTimer(3 * limit)
		defer wait.Stop()
		select {
		case <-s.closed:
			t.Errorf("closed with %s open", what)
		case <-wait.C:
		}
		open[what]()
		within(t, "the end after "+what, s.closed)
	}
	keeps("a call")
	r.send(`{"jsonrpc":"2.0","id":"s","method":"resources/subscribe","params":{"uri":"x:y"}}`)
	within(t, "the stream for a subscription", s.opened)
	keeps("a subscription")
	r.send(`{"jsonrpc":"2.0","id":"n","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},%s}}`, modernMeta(`{}`))
	within(t, "the stream for a listen", s.opened)
	keeps("a listen")
}

func TestIdleStreamByDefault(t *testing.T) {
	t.Parallel()
	if got := (Config{}).withDefaults().idleStream; got != 10*time.Minute {
		t.Errorf("closed after %v", got)
	}
}
