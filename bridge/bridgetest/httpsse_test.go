package bridgetest

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// An ssePeer has an HTTP+SSE stream open.
type ssePeer struct {
	*peer
	body io.ReadCloser
	in   *bufio.Scanner
}

func openSSE(t *testing.T, u *Upstream) *ssePeer {
	t.Helper()
	p := newPeer(t, u.URL())
	res, err := p.client.Do(p.request(testContext(t), "GET", "", nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	s := &ssePeer{p, res.Body, bufio.NewScanner(res.Body)}
	s.url = strings.TrimSuffix(u.URL(), "/sse") + s.next()
	return s
}

// next returns the data of the next event, "" at the end of the stream.
func (s *ssePeer) next() string {
	for s.in.Scan() {
		if data, ok := strings.CutPrefix(s.in.Text(), "data: "); ok {
			return data
		}
	}
	return ""
}

func (s *ssePeer) handshake() {
	s.t.Helper()
	s.post(initializeBody, 202)
	if got := s.next(); !strings.Contains(got, `"protocolVersion":"2024-11-05"`) {
		s.t.Fatalf("initialize: %s", got)
	}
	s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202)
}

func (s *ssePeer) post(message string, status int) {
	s.t.Helper()
	if res, b := s.must("POST", message, nil); res.StatusCode != status {
		s.t.Errorf("%s: %d %s, want %d", message, res.StatusCode, b, status)
	}
}

func TestHTTPSSE(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: SSE})
	s := openSSE(t, u)
	s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 202)
	if got := s.next(); code([]byte(got)) != codeInvalidParams {
		t.Errorf("before the handshake: %s", got)
	}
	s.handshake()
	s.post(callBody("2", "write_note", `{"key":"k"}`), 202)
	if got := s.next(); !strings.Contains(got, "wrote k") {
		t.Errorf("call: %s", got)
	}
	s.post(callBody("3", "ask", `{"kind":"ping"}`), 202)
	m, err := parseMessage([]byte(s.next()))
	if err != nil || m.Method != "ping" {
		t.Fatalf("question: %+v, %v", m, err)
	}
	s.post(`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{}}`, 202)
	if got := s.next(); !strings.Contains(got, `"id":3`) {
		t.Errorf("after the answer: %s", got)
	}
	u.Notify("notifications/tools/list_changed", nil)
	if got := s.next(); !strings.Contains(got, "list_changed") {
		t.Errorf("notification: %s", got)
	}
	p := newPeer(t, u.URL())
	if res, _ := p.must("POST", initializeBody, nil); res.StatusCode != 405 {
		t.Errorf("POST to the stream: %d, want 405", res.StatusCode)
	}
	p.url = strings.Replace(u.URL(), "/sse", "/mcp", 1)
	if res, _ := p.must("POST", initializeBody, nil); res.StatusCode != 404 {
		t.Errorf("POST to /mcp: %d, want 404", res.StatusCode)
	}
	u.DropStreams()
	if got := s.next(); got != "" || s.in.Err() == nil {
		t.Errorf("after the drop: %q, %v", got, s.in.Err())
	}
	if err := u.Ledger().Wait(testContext(t), func(v *View) bool { return v.HTTP("GET")[0].Has(MarkClosed) }); err != nil {
		t.Fatal(err)
	}
	if res, _ := s.must("POST", callBody("4", "echo", "{}"), nil); res.StatusCode != 404 {
		t.Errorf("session without a stream: %d, want 404", res.StatusCode)
	}
}

func TestHTTPSSEFaults(t *testing.T) {
	t.Parallel()
	u := startFaulty(t, SSE, "status-after-effect:503@write_note", "lost-reply@put_item", "malformed@echo")
	s := openSSE(t, u)
	s.handshake()
	s.post(callBody("1", "write_note", `{"key":"k"}`), http.StatusServiceUnavailable)
	if got := s.next(); !strings.Contains(got, "wrote k") {
		t.Errorf("the reply did not come on the stream: %q", got)
	}
	s.post(callBody("2", "put_item", `{"key":"k"}`), 202)
	if err := u.Ledger().Wait(testContext(t), func(v *View) bool { return v.Effects("put_item") == 1 }); err != nil {
		t.Error(err)
	}
	s.post(callBody("3", "echo", `{}`), 202)
	if got := s.next(); !strings.Contains(got, `"jsonrpc"=`) {
		t.Errorf("not the malformed reply: %q", got)
	}
}

// TestStreamOptions: retry and priming on legacy streams, headers on all.
func TestStreamOptions(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Legacy, Priming: true, Retry: 5e8, AlwaysStream: true, Header: http.Header{"Set-Cookie": {"a=b"}}})
	p := newPeer(t, u.URL())
	p.initialize("2025-11-25")
	res, b := p.must("POST", callBody("1", "echo", `{"text":"x"}`), nil)
	if !strings.HasPrefix(string(b), "retry: 500\n\nid: ") || !strings.Contains(string(b), "data: \n\n") {
		t.Errorf("stream: %q", b)
	}
	if res.Header.Get("Set-Cookie") != "a=b" {
		t.Error("no cookie")
	}
}

func TestSessionless(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Legacy, Sessionless: true})
	p := newPeer(t, u.URL())
	p.initialize("2025-06-18")
	if p.session != "" {
		t.Error("a session id was given out")
	}
	if res, b := p.must("POST", callBody("1", "write_note", `{"key":"k"}`), nil); res.StatusCode != 200 {
		t.Errorf("%d %s", res.StatusCode, b)
	}
	for _, m := range []string{"GET", "DELETE"} {
		if res, _ := p.must(m, "", nil); res.StatusCode != 405 {
			t.Errorf("%s: %d, want 405", m, res.StatusCode)
		}
	}
}

func TestEra(t *testing.T) {
	t.Parallel()
	for e := Both; e <= SSE; e++ {
		if got, err := ParseEra(e.String()); err != nil || got != e {
			t.Errorf("%v: %v, %v", e, got, err)
		}
	}
	if _, err := ParseEra("stone"); err == nil {
		t.Error("an unknown era was accepted")
	}
}
