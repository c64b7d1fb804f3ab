package bridge

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/bridge/wire"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// A cutter answers every request with the first so many bytes of one response.
type cutter struct {
	response string
	reset    bool // ends with a reset, not in good order
	requests atomic.Int64
}

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.requests.Add(1)
	n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/")) // the test makes it
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(c.response[:n])); err == nil && c.reset {
		conn.(*net.TCPConn).SetLinger(0)
	}
}

// A response may be cut at any byte of its head and its body, in good order or
// by a reset. A call is delivered once each time, is never told as one that had
// no effect unless the whole head says so, and is a result only where the whole
// reply came.
func TestCutAtEachByte(t *testing.T) {
	t.Parallel()
	const reply = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"ok"}]}}`
	const head, jsonType = "HTTP/1.1 200 OK\r\n", "Content-Type: application/json\r\n"
	const busy = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 9\r\n\r\n"
	for name, c := range map[string]struct {
		response string
		result   int // bytes with which there is a result; beyond the end: never
		none     int // bytes with which the status is known to be a refusal
	}{
		"length":   {head + jsonType + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(reply), reply), 0, 1 << 20},
		"chunks":   {head + jsonType + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(reply), reply), 0, 1 << 20},
		"to EOF":   {head + jsonType + "Connection: close\r\n\r\n" + reply, 0, 1 << 20},
		"stream":   {head + "Content-Type: text/event-stream\r\n\r\nid: 1\ndata: " + reply + "\n\n", 0, 1 << 20},
		"refusal":  {busy + "slow down", 1 << 20, len(busy)},
		"no reply": {head + "Content-Type: text/event-stream\r\n\r\n: wait\n\n", 1 << 20, 1 << 20},
	} {
		if c.result == 0 {
			c.result = strings.LastIndex(c.response, reply) + len(reply)
		}
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reset %v", name, reset), func(t *testing.T) {
				t.Parallel()
				s := &cutter{response: c.response, reset: reset}
				server := httptest.NewServer(s)
				t.Cleanup(server.Close)
				for n := range len(c.response) + 1 {
					r := cutReply(t, server.URL, n)
					v := &r.verdict
					success := v.Outcome == classify.ToolSuccess
					if success && n < c.result || !success && n == len(c.response) && !reset && c.result <= n {
						t.Errorf("after %d of %d bytes: %v: %s", n, len(c.response), v.Outcome, v.Why)
					}
					if v.Effect == classify.None && n < c.none {
						t.Errorf("after %d of %d bytes no effect is claimed: %v: %s", n, len(c.response), v.Outcome, v.Why)
					}
				}
				if n := s.requests.Load(); n != int64(len(c.response)+1) {
					t.Errorf("%d requests for %d deliveries", n, len(c.response)+1)
				}
			})
		}
	}
}

// cutReply is the reply to one delivery of a write that is answered by n bytes.
func cutReply(t *testing.T, server string, n int) *reply {
	t.Helper()
	at, err := url.Parse(fmt.Sprintf("%s/%d", server, n))
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{URL: at}.withDefaults()
	e, err := newEndpoint(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.wire.Close()
	expect := classify.Expectation{Method: "tools/call", ID: []byte("1"), Protocol: rev2026_07_28}
	r := e.send(t.Context(), &wire.Request{Method: http.MethodPost, Body: []byte("{}"), Write: true}, expect, deaf{})
	defer r.done()
	r.judge()
	return r
}

// A request may be cut at any byte as well, on a connection of its own. What the
// server executed is not denied, and nothing is executed twice.
func TestRequestCutAtEachByte(t *testing.T) {
	t.Parallel()
	server, err := bridgetest.Start(bridgetest.Options{Era: bridgetest.Modern})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	behind, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := bridgetest.StartProxy(behind.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	at := *behind
	at.Host = proxy.Addr()
	whole := 0 // the first cut that the call survived
	for n := 1; whole == 0 || n < whole+10; n++ {
		proxy.SetFault(bridgetest.ProxyFault{ResetUp: n})
		key := fmt.Sprint("note ", n)
		v := writeThrough(t, &at, key)
		effects := server.Ledger().EffectsOf("write_note", key)
		if v.Outcome == classify.ToolSuccess && whole == 0 {
			whole = n
		}
		if effects > 1 || effects == 1 && v.Effect == classify.None || effects == 0 && v.Outcome == classify.ToolSuccess {
			t.Errorf("cut after %d bytes: %d effects, and %v with effect %v: %s", n, effects, v.Outcome, v.Effect, v.Why)
		}
		if n > 1<<14 {
			t.Fatal("the request never came through")
		}
	}
}

// writeThrough makes one delivery of a write to a modern server.
func writeThrough(t *testing.T, at *url.URL, key string) classify.Verdict {
	t.Helper()
	cfg := Config{URL: at}.withDefaults()
	e, err := newEndpoint(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.wire.Close()
	m, err := jsonrpc.Read([]byte(`{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{"name":"write_note","arguments":{"key":"` + key + `"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	up := &modern{endpoint: e, revision: rev2026_07_28}
	d := &delivery{msg: &m, method: m.Method, name: "write_note", id: 1, write: true, profile: legacyProfile(rev2025_11_25, nil, nil)}
	r := up.deliver(t.Context(), d, deaf{})
	defer r.done()
	r.judge()
	return r.verdict
}
