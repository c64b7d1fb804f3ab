package bridgetest

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestParseFault(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Fault{
		"lost-reply":                       {Name: "lost-reply"},
		"lost-reply@write_note":            {Name: "lost-reply", Tool: "write_note"},
		"status:503,200@tools/listx3":      {Name: "status", Argument: "503,200", Method: "tools/list", Times: 3},
		"429;retry-after=1@*":              {Name: "429", Argument: "retry-after=1", Method: "*"},
		"status:503;retry-after=2+4":       {Name: "status", Argument: "503;retry-after=2", After: 4},
		"redirect:307,/mcp/":               {Name: "redirect", Argument: "307,/mcp/"},
		"trickle:3/5ms@echo":               {Name: "trickle", Argument: "3/5ms", Tool: "echo"},
		"discover:-32601x1":                {Name: "discover", Argument: "-32601", Times: 1},
		"cut-phase:before-last-chunk@GET":  {Name: "cut-phase", Argument: "before-last-chunk", Method: "GET"},
		"401-bearer:http://127.0.0.1:1/x":  {Name: "401-bearer", Argument: "http://127.0.0.1:1/x"},
		"not-2.0":                          {Name: "not-2.0"},
		"slow-initialized:300ms@*x2+1":     {Name: "slow-initialized", Argument: "300ms", Method: "*", Times: 2, After: 1},
		"session-lost@ping":                {Name: "session-lost", Method: "ping"},
		"stall:after-effect@initialize":    {Name: "stall", Argument: "after-effect", Method: "initialize"},
		"cut:10@notifications/initialized": {Name: "cut", Argument: "10", Method: "notifications/initialized"},
	} {
		f, err := ParseFault(text)
		if err != nil || f != want {
			t.Errorf("%s: %+v, %v; want %+v", text, f, err, want)
		}
		if again, err := ParseFault(f.String()); err != nil || again != f {
			t.Errorf("%s comes back as %s", text, f)
		}
	}
	for _, text := range []string{
		"", "no-such", "status", "status:abc", "status:99", "cut:-1", "cut-phase:never", "delay:soon", "delay:-1s",
		"trickle:0/1s", "trickle:5", "redirect:307", "discover:maybe", "malformed:arg", "h2:other", "list-pages:0", "lost-reply@",
	} {
		if f, err := ParseFault(text); err == nil {
			t.Errorf("%q was taken as %+v", text, f)
		}
	}
}

// A faultCase is one fault on a tools/call of write_note (or another request),
// and what must be seen of it.
type faultCase struct {
	fault   string
	era     Era
	request func(*peer) (*http.Response, []byte, error) // nil: write_note, modern
	check   func(res *http.Response, body []byte, err error) bool
	effects int
}

func noteCall(p *peer) (*http.Response, []byte, error) {
	return p.modernCall("write_note", `{"key":"k"}`)
}

func status(want int, part string) func(*http.Response, []byte, error) bool {
	return func(res *http.Response, body []byte, err error) bool {
		return err == nil && res.StatusCode == want && strings.Contains(string(body), part)
	}
}

func broken(_ *http.Response, _ []byte, err error) bool { return err != nil }

func wasReset(_ *http.Response, _ []byte, err error) bool {
	return errors.Is(err, syscall.ECONNRESET)
}

func cutBody(res *http.Response, body []byte, err error) bool {
	return err != nil && res != nil && len(body) > 0
}

func body(ok func(string) bool) func(*http.Response, []byte, error) bool {
	return func(res *http.Response, b []byte, err error) bool {
		return err == nil && res.StatusCode == 200 && ok(string(b))
	}
}

func contains(part string) func(string) bool {
	return func(s string) bool { return strings.Contains(s, part) }
}

func header(name, want string) func(*http.Response, []byte, error) bool {
	return func(res *http.Response, _ []byte, err error) bool {
		return err == nil && strings.Contains(res.Header.Get(name), want)
	}
}

func legacyDo(method, message string) func(*peer) (*http.Response, []byte, error) {
	return func(p *peer) (*http.Response, []byte, error) {
		p.initialize("2025-11-25")
		return p.do(method, message, nil)
	}
}

func get(p *peer) (*http.Response, []byte, error) {
	p.initialize("2025-11-25")
	return p.do("GET", "", nil)
}

// impatient leaves as soon as the ledger shows that its request is held.
func impatient(method, message string, h http.Header) func(*peer) (*http.Response, []byte, error) {
	return func(p *peer) (*http.Response, []byte, error) {
		ctx, cancel := context.WithCancel(testContext(p.t))
		var watch sync.WaitGroup
		watch.Go(func() {
			defer cancel()
			if err := p.up.Ledger().Wait(ctx, held); err != nil {
				p.t.Error(err)
			}
		})
		defer watch.Wait()
		res, err := p.client.Do(p.request(ctx, method, message, h))
		if err != nil {
			return nil, nil, err
		}
		defer func() { _ = res.Body.Close() }()
		b, err := io.ReadAll(res.Body)
		return res, b, err
	}
}

func held(v *View) bool {
	for _, e := range v.Entries() {
		for _, ev := range e.Events {
			if ev.Mark == MarkFault && (strings.HasPrefix(ev.Detail, "stalled at") || ev.Detail == "get-hang" || ev.Detail == "discover") {
				return true
			}
		}
	}
	return false
}

func left(_ *http.Response, _ []byte, err error) bool { return errors.Is(err, context.Canceled) }

// unserved sends a call that is not even read.
func unserved(p *peer) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(testContext(p.t), 50*time.Millisecond)
	defer cancel()
	res, err := p.client.Do(p.request(ctx, "POST", modernBody("1", "tools/call", `"name":"write_note"`), modernHeader("tools/call", "write_note")))
	if err == nil {
		_ = res.Body.Close()
	}
	return res, nil, err
}

func impatientNote(p *peer) (*http.Response, []byte, error) {
	return impatient("POST", modernBody("1", "tools/call", `"name":"write_note","arguments":{"key":"k"}`), modernHeader("tools/call", "write_note"))(p)
}

func timedOut(_ *http.Response, _ []byte, err error) bool {
	return errors.Is(err, context.DeadlineExceeded)
}

func discover(p *peer) (*http.Response, []byte, error) {
	return p.modern("1", "server/discover", "", "")
}

func impatientDiscover(p *peer) (*http.Response, []byte, error) {
	return impatient("POST", modernBody("1", "server/discover", ""), modernHeader("server/discover", ""))(p)
}

func list(p *peer) (*http.Response, []byte, error) { return p.modern("1", "tools/list", "", "") }

func streamWrite(p *peer) (*http.Response, []byte, error) {
	b := strings.Replace(modernBody("1", "tools/call", `"name":"stream_write","arguments":{"key":"k","n":3}`), `"_meta":{`, `"_meta":{"progressToken":1,`, 1)
	return p.do("POST", b, modernHeader("tools/call", "stream_write"))
}

func unzipped(b []byte) string {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return ""
	}
	out, _ := io.ReadAll(z)
	return string(out)
}

const initializeBody = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`

func faultCases() []faultCase {
	wrote := `"text":"wrote k"`
	return slices.Concat([]faultCase{
		{fault: "status:503;retry-after=1", check: status(503, "")},
		{fault: "status:503;retry-after=7", check: header("Retry-After", "7")},
		{fault: "status:200", check: status(200, wrote), effects: 1},
		{fault: "status-after-effect:503", check: status(503, ""), effects: 1},
		{fault: "html:502", check: status(502, "<html>")},
		{fault: "empty:202", check: status(202, "")},
		{fault: "empty:200", check: body(func(s string) bool { return s == "" })},
		{fault: "401", check: status(401, "")},
		{fault: "401-bearer:http://x/prm", check: header("WWW-Authenticate", `resource_metadata="http://x/prm"`)},
		{fault: "403-scope:notes", check: header("WWW-Authenticate", `scope="notes"`)},
		{fault: "406", check: status(406, "")},
		{fault: "429;retry-after=1", check: header("Retry-After", "1")},
		{fault: "redirect:307,/mcp/", check: header("Location", "/mcp/")},
		{fault: "redirect:308,/mcp", check: status(308, "")},
		{fault: "redirect-other-origin", check: header("Location", "http://localhost:")},
		{fault: "delay:1ms", check: status(200, wrote), effects: 1},
		{fault: "cut:0", check: wasReset, effects: 1},
		{fault: "cut:40", check: broken, effects: 1},
		{fault: "lost-reply", check: broken, effects: 1},
		{fault: "lost-reply@stream_write", request: streamWrite, check: cutBody, effects: 1},
		{fault: "trickle:50/1ms", check: status(200, wrote), effects: 1},
		{fault: "malformed", check: body(func(s string) bool { return !json.Valid([]byte(s)) }), effects: 1},
		{fault: "truncated-json", check: body(func(s string) bool { return s != "" && !json.Valid([]byte(s)) }), effects: 1},
		{fault: "wrong-id", check: body(contains(`"id":"of another request"`)), effects: 1},
		{fault: "null-id", check: body(contains(`"id":null`)), effects: 1},
		{fault: "no-id", check: body(func(s string) bool { return json.Valid([]byte(s)) && !strings.Contains(s, `"id"`) }), effects: 1},
		{fault: "both", check: body(contains(`"error":{`)), effects: 1},
		{fault: "not-2.0", check: body(contains(`"jsonrpc":"1.0"`)), effects: 1},
		{fault: "duplicate-names", check: body(func(s string) bool { return strings.Count(s, `"result":`) == 2 }), effects: 1},
		{fault: "batch", check: body(func(s string) bool { return s[0] == '[' }), effects: 1},
		{fault: "bad-error", check: body(contains(`"error":"it went wrong"`)), effects: 1},
		{fault: "bad-content", check: body(contains(`"content":"not an array"`)), effects: 1},
		{fault: "bad-is-error", check: body(contains(`"isError":"no"`)), effects: 1},
		{fault: "unknown-result-type", check: body(contains(`"resultType":"postponed"`)), effects: 1},
		{fault: "gzip", check: body(func(s string) bool { return strings.Contains(unzipped([]byte(s)), wrote) }), effects: 1},
		{fault: "gzip@stream_write", request: streamWrite, check: body(func(s string) bool { return strings.Contains(unzipped([]byte(s)), wrote) }), effects: 1},
		{fault: "gzip:lazy@stream_write", request: streamWrite, check: body(func(s string) bool { return strings.Contains(unzipped([]byte(s)), wrote) }), effects: 1},
		{fault: "bad-gzip:length", check: broken, effects: 1},
		{fault: "bad-gzip:br", check: header("Content-Encoding", "br"), effects: 1},
		{fault: "bad-gzip:garbage", check: body(func(s string) bool { return unzipped([]byte(s)) == "" }), effects: 1},
		{fault: "charset", check: header("Content-Type", `Application/json;charset="UTF-8"; x=y`), effects: 1},
		{fault: "charset@stream_write", request: streamWrite, check: header("Content-Type", `Text/Event-Stream;charset`), effects: 1},
		{fault: "stream-end", check: body(func(s string) bool { return !strings.Contains(s, "result") }), effects: 1},
		{fault: "stream-cut-after:1@stream_write", request: streamWrite, check: cutBody, effects: 1},
		{fault: "stream-cut-after:0", check: broken, effects: 1},
		{fault: "crlf", check: body(func(s string) bool { return strings.HasSuffix(s, "}\r\n\r\n") }), effects: 1},
		{fault: "cr", check: body(func(s string) bool { return strings.HasSuffix(s, "}\r\r") && !strings.Contains(s, "\n") }), effects: 1},
		{fault: "multi-data-lines", check: body(func(s string) bool { return strings.Count(s, "data: ") > 5 }), effects: 1},
		{fault: "comments", check: body(func(s string) bool { return s[0] == ':' }), effects: 1},
		{fault: "priming-event", check: body(func(s string) bool { return strings.HasPrefix(s, "id: ") }), effects: 1},
		{fault: "goaway", check: func(res *http.Response, _ []byte, err error) bool { return err == nil && res.Close }, effects: 1},
	}, phaseCases(), eraCases())
}

func phaseCases() []faultCase {
	return []faultCase{
		{fault: "cut-phase:accept", check: wasReset},
		{fault: "cut-phase:head-read", check: broken},
		{fault: "cut-phase:body-read", check: wasReset},
		{fault: "cut-phase:before-effect", check: wasReset},
		{fault: "cut-phase:after-effect", check: wasReset, effects: 1},
		{fault: "cut-phase:after-headers", check: broken, effects: 1},
		{fault: "cut-phase:half-reply", check: cutBody, effects: 1},
		{fault: "cut-phase:half-reply@stream_write", request: streamWrite, check: cutBody, effects: 1},
		{fault: "cut-phase:before-last-chunk", check: func(_ *http.Response, b []byte, err error) bool {
			return err != nil && json.Valid(b) && len(b) > 0
		}, effects: 1},
		{fault: "stall:accept", request: unserved, check: timedOut},
		{fault: "stall:head-read", request: impatientNote, check: left},
		{fault: "stall:body-read", request: impatientNote, check: left},
		{fault: "stall:before-effect", request: impatientNote, check: left},
		{fault: "stall:after-effect", request: impatientNote, check: left, effects: 1},
		{fault: "stall:after-headers", request: impatientNote, check: left, effects: 1},
		{fault: "stall:half-reply", request: impatientNote, check: left, effects: 1},
		{fault: "stall:before-last-chunk", request: impatientNote, check: left, effects: 1},
	}
}

func eraCases() []faultCase {
	note := callBody("1", "write_note", `{"key":"k"}`)
	cases := []faultCase{
		{fault: "session-lost", era: Legacy, request: legacyDo("POST", note), check: status(404, "Session not found")},
		{fault: "session-400", era: Legacy, request: legacyDo("POST", note), check: status(400, "No valid session ID")},
		{fault: "session-503", era: Legacy, request: legacyDo("POST", note), check: status(503, "")},
		{fault: "slow-initialized:5ms", era: Legacy, request: legacyDo("POST", note), check: status(200, "wrote k"), effects: 1},
		{fault: "get-405", era: Legacy, request: get, check: status(405, "")},
		{fault: "no-get", era: Legacy, request: get, check: status(404, "")},
		{fault: "get-200-text", era: Legacy, request: get, check: header("Content-Type", "text/plain")},
		{fault: "get-close-at-once", era: Legacy, request: get, check: body(func(s string) bool { return s == "" })},
		{fault: "get-close-at-once:comment", era: Legacy, request: get, check: body(contains(": "))},
		{fault: "get-close-at-once:retry0", era: Legacy, request: get, check: body(contains("retry: 0"))},
		{fault: "get-hang", era: Legacy, request: impatient("GET", "", nil), check: left},
		{fault: "version-400", era: Legacy, request: discover, check: status(400, "supported versions: 2025-06-18")},
		{fault: "initialize-header-400", era: Legacy, request: func(p *peer) (*http.Response, []byte, error) {
			return p.do("POST", initializeBody, http.Header{"Mcp-Protocol-Version": {"2025-11-25"}})
		}, check: status(400, "MCP-Protocol-Version")},
		{fault: "discover:close", request: discover, check: broken},
		{fault: "discover:silent", request: impatientDiscover, check: left},
		{fault: "discover:400-text", request: discover, check: status(400, "bad request")},
		{fault: "no-cache-hints", request: list, check: body(func(s string) bool { return !strings.Contains(s, "ttlMs") && strings.Contains(s, "resultType") })},
		{fault: "no-cache-hints:all", request: list, check: body(func(s string) bool { return !strings.Contains(s, "resultType") })},
		{fault: "list-pages:2", request: list, check: body(contains(`"nextCursor":"2"`))},
	}
	for _, n := range []string{"-32601", "-32602", "-32600", "-32603", "-32000"} {
		cases = append(cases, faultCase{fault: "discover:" + n, request: discover, check: status(200, `"code":`+n)})
	}
	for n, s := range map[string]int{"404": 404, "405": 405, "406": 406, "500": 500} {
		cases = append(cases, faultCase{fault: "discover:" + n, request: discover, check: status(s, "")})
	}
	return cases
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range faultCases() {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			u := startFaulty(t, c.era, c.fault)
			request := c.request
			if request == nil {
				request = noteCall
			}
			p := newPeer(t, u.URL())
			p.up = u
			res, b, err := request(p)
			if !c.check(res, b, err) {
				t.Errorf("got %v, %q, %v", res, b, err)
			}
			if got := u.Ledger().Effects("write_note") + u.Ledger().Effects("stream_write"); got != c.effects {
				t.Errorf("%d effects, want %d", got, c.effects)
			}
		})
	}
}

// TestEveryFaultIsTested: the cases above, and those with a test of their own.
func TestEveryFaultIsTested(t *testing.T) {
	t.Parallel()
	tested := []string{"close-idle", "h2"}
	for _, c := range faultCases() {
		f, err := ParseFault(c.fault)
		if err != nil {
			t.Errorf("%s: %v", c.fault, err)
		}
		tested = append(tested, f.Name)
	}
	for _, f := range FaultNames() {
		if !slices.Contains(tested, f.Name) {
			t.Errorf("fault %s has no test", f.Name)
		}
		if f.Line == "" || f.Default == "" {
			t.Errorf("fault %s is not explained", f.Name)
		}
	}
}

func TestFaultBudget(t *testing.T) {
	t.Parallel()
	u := startFaulty(t, Modern, "status:503,502@echox3+1", "status:500@tools/list")
	p := newPeer(t, u.URL())
	var got []int
	for range 6 {
		res, _, err := p.modernCall("echo", "{}")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, res.StatusCode)
	}
	if want := []int{200, 503, 502, 502, 200, 200}; !slices.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
	if res, _, err := noteCall(p); err != nil || res.StatusCode != 200 {
		t.Errorf("another tool was befallen: %v, %v", res, err)
	}
}

// TestCloseIdle: a kept connection is closed by the server after a while.
func TestCloseIdle(t *testing.T) {
	t.Parallel()
	u := startFaulty(t, Modern, "close-idle:10ms")
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(u.URL(), "http://"), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c) // ends when the server closes
	if err != nil || !bytes.HasPrefix(got, []byte("HTTP/1.1 405 ")) {
		t.Errorf("got %q, %v", got, err)
	}
}

// http2Client speaks HTTP/2 to u.
func http2Client(t *testing.T, p *peer, cfg *tls.Config) {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: cfg, Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetHTTP2(true)
	tr.Protocols.SetUnencryptedHTTP2(cfg == nil)
	t.Cleanup(tr.CloseIdleConnections)
	p.client.Transport = tr
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{true, false} {
		for _, fault := range []string{"goaway", "h2:refusedx1", "h2:goawayx1", "h2:protocol-errorx1", "cut:20"} {
			var server, client *tls.Config
			if encrypted {
				cfg, pool, err := SelfSigned()
				if err != nil {
					t.Fatal(err)
				}
				server, client = cfg, &tls.Config{RootCAs: pool}
			}
			f, err := ParseFault(fault)
			if err != nil {
				t.Fatal(err)
			}
			u := start(t, Options{Era: Modern, TLS: server, HTTP2: true, Faults: []Fault{f}})
			p := newPeer(t, u.URL())
			http2Client(t, p, client)
			res, b, err := noteCall(p)
			switch {
			case fault == "goaway":
				if err != nil || res.ProtoMajor != 2 || u.Ledger().Effects("write_note") != 1 {
					t.Errorf("tls %v, %s: %v, %q, %v", encrypted, fault, res, b, err)
				}
			case fault == "cut:20":
				if err == nil || u.Ledger().Effects("write_note") != 1 {
					t.Errorf("tls %v, %s: %v, %q", encrypted, fault, res, b)
				}
			case (err == nil) != (len(u.Ledger().Entries()) == 1):
				t.Errorf("tls %v, %s: %d requests came through, %v", encrypted, fault, len(u.Ledger().Entries()), err)
			}
			t.Logf("tls %v, %s: %v", encrypted, fault, err)
		}
	}
}

// FuzzParseFault: what is accepted is written back as the same fault.
func FuzzParseFault(f *testing.F) {
	for _, c := range faultCases() {
		f.Add(c.fault)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fault, err := ParseFault(text)
		if err != nil {
			return
		}
		if again, err := ParseFault(fault.String()); err != nil || again != fault {
			t.Errorf("%q is %+v, comes back as %q: %+v, %v", text, fault, fault.String(), again, err)
		}
	})
}
