package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// An outspoken is a legacy server that sends the progress of a call on the GET
// stream, and answers the call with a JSON-RPC error and no stream.
type outspoken struct {
	code     int
	progress chan string   // a token
	seen     chan struct{} // the host has the progress
}

func (s *outspoken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		s.stream(w, r)
		return
	}
	raw, _ := io.ReadAll(r.Body) // a broken request has no method
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
		}
	}
	_ = json.Unmarshal(raw, &m)
	answer := func(format string, args ...any) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "s1")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,`+format+`}`, append([]any{m.ID}, args...)...)
	}
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "initialize":
		answer(`"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)
	case m.Method == "tools/list":
		answer(`"result":{"tools":[{"name":"write_note","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}}]}`)
	case m.Method == "tools/call":
		s.progress <- string(m.Params.Meta.ProgressToken)
		<-s.seen
		answer(`"error":{"code":%d,"message":"raised by the tool"}`, s.code)
	default:
		answer(`"error":{"code":-32601,"message":"no such method"}`)
	}
}

func (s *outspoken) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
	select {
	case token := <-s.progress:
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":1}}\n\n", token)
		_ = http.NewResponseController(w).Flush()
	case <-r.Context().Done():
		return
	}
	<-r.Context().Done()
}

// Progress of a call shows that it was begun, on whichever stream it comes: an
// error that follows is no proof that nothing was executed.
func TestProgressOnAnotherStream(t *testing.T) {
	t.Parallel()
	for _, code := range []int{-32601, -32600} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			s := &outspoken{code: code, progress: make(chan string), seen: make(chan struct{})}
			server := httptest.NewServer(s)
			t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
			l := startLogged(t, bridgetest.Legacy, nil, server.URL)
			l.knowTools()
			if err := l.host.Request(`"call"`, "tools/call", `{"name":"write_note","arguments":{},"_meta":{"progressToken":"p"}}`); err != nil {
				t.Fatal(err)
			}
			if _, err := l.host.WaitNotification(l.ctx, "notifications/progress"); err != nil {
				t.Fatal(err)
			}
			close(s.seen)
			if _, err := l.host.WaitReply(l.ctx, `"call"`); err != nil {
				t.Fatal(err)
			}
			find(t, l.records(), "exchange", "call").want(t, record{"outcome": "JSONRPC_ERROR", "effect": "possible"})
		})
	}
}
