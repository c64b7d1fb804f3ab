package eras

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A stub is a server that answers as a test says, also in ways that no server
// should.
type stub struct {
	*httptest.Server
	reply func(s *stub, w http.ResponseWriter, r *http.Request, m request) bool // true: answered

	mu   sync.Mutex
	seen []request
}

// A request is what arrived: a message, and the HTTP request around it.
type request struct {
	HTTP   string
	Header http.Header
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Body   string
	At     time.Time
}

func startStub(t testing.TB, reply func(s *stub, w http.ResponseWriter, r *http.Request, m request) bool) *stub {
	t.Helper()
	s := &stub{reply: reply}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// ServeHTTP answers what the test does not: as a small modern server.
func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		return
	}
	m := request{HTTP: r.Method, Header: r.Header, Body: string(body), At: time.Now()}
	_ = json.Unmarshal(body, &m) // GET has none
	s.mu.Lock()
	s.seen = append(s.seen, m)
	s.mu.Unlock()
	if s.reply(s, w, r, m) {
		return
	}
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "server/discover":
		result(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"ttlMs":0,"cacheScope":"private"}`)
	case m.Method == "tools/list":
		result(w, m, `{"resultType":"complete","tools":[{"name":"act","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}],"ttlMs":0,"cacheScope":"private"}`)
	case m.Method == "subscriptions/listen":
		s.listen(w, r, m)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not known"}}`, m.ID)
	}
}

func (s *stub) listen(w http.ResponseWriter, r *http.Request, m request) {
	events(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"`+subscriptionID+`":`+string(m.ID)+`},"notifications":{"toolsListChanged":true}}}`)
	<-r.Context().Done()
}

// legacyStub answers as a small legacy server without sessions.
func legacyStub(w http.ResponseWriter, m request) bool {
	switch {
	case m.HTTP != http.MethodPost || m.ID == nil || m.Method == "":
		return false
	case m.Method == "server/discover":
		fail(w, m, -32601)
	case m.Method == "initialize":
		result(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"stub","version":"1"}}`)
	case m.Method == "tools/list":
		result(w, m, `{"tools":[{"name":"act","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`)
	default:
		return false
	}
	return true
}

func result(w http.ResponseWriter, m request, value string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, value)
}

func fail(w http.ResponseWriter, m request, code int) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, m.ID, code)
}

// events writes messages as events and leaves the stream open.
func events(w http.ResponseWriter, messages ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, m := range messages {
		fmt.Fprintf(w, "data: %s\n\n", strings.ReplaceAll(m, "\n", ""))
	}
	_ = http.NewResponseController(w).Flush() // the client may have left
}

// requests are those with the method, oldest first.
func (s *stub) requests(method string) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.seen), func(m request) bool { return m.Method != method })
}

func (s *stub) gets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(s.seen), func(m request) bool { return m.HTTP != http.MethodGet }))
}
