package hostside

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// A stub is a server without sessions that answers as a test says. It costs
// little, and can lack what every bridgetest upstream has.
type stub struct {
	*httptest.Server
	era   string                                                    // of its own: v2511 or modern
	caps  string                                                    // JSON object
	reply func(method string, params json.RawMessage) (int, string) // status and the members of the response; 0: not known

	mu   sync.Mutex
	seen []string // methods
}

func startStub(t testing.TB, era, caps string, reply func(method string, params json.RawMessage) (int, string)) *stub {
	t.Helper()
	s := &stub{era: era, caps: caps, reply: reply}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// ServeHTTP answers one request.
func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil || r.Method != http.MethodPost || json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	s.seen = append(s.seen, m.Method)
	s.mu.Unlock()
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	status, members := s.answer(m.Method, m.Params)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,`+members+`}`) // the client may have left
}

func (s *stub) answer(method string, params json.RawMessage) (int, string) {
	if status, members := s.reply(method, params); status != 0 {
		return status, members
	}
	info := fmt.Sprintf(`"capabilities":%s,"serverInfo":{"name":"stub","version":"1"}`, s.caps)
	switch {
	case method == "initialize" && s.era != modern:
		return http.StatusOK, `"result":{"protocolVersion":"` + s.era + `",` + info + `}`
	case method == "server/discover" && s.era == modern:
		return http.StatusOK, `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private",` + info + `}`
	case s.era == modern:
		return http.StatusNotFound, `"error":{"code":-32601,"message":"method not found"}`
	}
	return http.StatusOK, `"error":{"code":-32601,"message":"method not found"}`
}

// methods counts what arrived.
func (s *stub) methods() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for _, m := range s.seen {
		counts[m]++
	}
	return counts
}

// startBlobs starts a server whose one tool reads a blob of the size, cheaply,
// and tells how many calls of it have arrived.
func startBlobs(t testing.TB, size int) (url string, arrived <-chan struct{}) {
	blob := `"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`
	calls := make(chan struct{}, 1<<10)
	s := startStub(t, v2511, `{"tools":{}}`, func(method string, _ json.RawMessage) (int, string) {
		switch method {
		case "tools/list":
			return http.StatusOK, `"result":{"tools":[{"name":"blob","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`
		case "tools/call":
			calls <- struct{}{}
			return http.StatusOK, blob
		}
		return 0, ""
	})
	return s.URL + "/mcp", calls
}
