package bridgetest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestModernValidation(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Both})
	with := func(h http.Header, k, v string) http.Header {
		h = maps.Clone(h)
		if v == "" {
			h.Del(k)
		} else {
			h.Set(k, v)
		}
		return h
	}
	call := modernHeader("tools/call", "echo")
	body := modernBody("1", "tools/call", `"name":"echo","arguments":{"text":"x"}`)
	region := func(args string) string {
		return modernBody("1", "tools/call", `"name":"region_query","arguments":`+args)
	}
	rh := modernHeader("tools/call", "region_query")
	for _, c := range []struct {
		name   string
		body   string
		header http.Header
		status int
		code   int
	}{
		{"right", body, call, 200, 0},
		{"no version header", body, with(call, "Mcp-Protocol-Version", ""), 400, codeHeaderMismatch},
		{"other version header", body, with(call, "Mcp-Protocol-Version", "2025-11-25"), 400, codeHeaderMismatch},
		{"no method header", body, with(call, "Mcp-Method", ""), 400, codeHeaderMismatch},
		{"other method header", body, with(call, "Mcp-Method", "tools/list"), 400, codeHeaderMismatch},
		{"no name header", body, with(call, "Mcp-Name", ""), 400, codeHeaderMismatch},
		{"other name header", body, with(call, "Mcp-Name", "fail"), 400, codeHeaderMismatch},
		{"encoded name header", body, with(call, "Mcp-Name", "=?base64?ZWNobw==?="), 200, 0},
		{"unknown version", strings.Replace(body, "2026-07-28", "2099-01-01", 1), with(call, "Mcp-Protocol-Version", "2099-01-01"), 400, codeUnsupportedVersion},
		{"no version in _meta", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, modernHeader("tools/list", ""), 400, codeInvalidParams},
		{"no capabilities in _meta", strings.Replace(body, "clientCapabilities", "somethingElse", 1), call, 400, codeInvalidParams},
		{"unknown method", modernBody("1", "tools/fly", ""), modernHeader("tools/fly", ""), 404, codeMethodNotFound},
		{"ping is gone", modernBody("1", "ping", ""), modernHeader("ping", ""), 404, codeMethodNotFound},
		{"bad log level", strings.Replace(body, `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"loud",`, 1), call, 400, codeInvalidParams},
		{"capability not declared", modernBody("1", "tools/call", `"name":"ask","arguments":{"kind":"sampling"}`), modernHeader("tools/call", "ask"), 400, codeMissingCapability},
		{"forged state", modernBody("1", "tools/call", `"name":"ask","arguments":{},"requestState":"abc"`), modernHeader("tools/call", "ask"), 200, codeInvalidParams},
		{"param header missing", region(`{"region":"eu"}`), rh, 400, codeHeaderMismatch},
		{"param header right", region(`{"region":"eu","options":{"limit":42}}`), with(with(rh, "Mcp-Param-Region", "eu"), "Mcp-Param-Limit", "42.0"), 200, 0},
		{"param header wrong", region(`{"region":"eu"}`), with(rh, "Mcp-Param-Region", "us"), 400, codeHeaderMismatch},
		{"param header without value", region(`{"region":null}`), with(rh, "Mcp-Param-Region", "us"), 400, codeHeaderMismatch},
		{"param header encoded", region(`{"region":"zürich"}`), with(rh, "Mcp-Param-Region", "=?base64?esO8cmljaA==?="), 200, 0},
		{"no accept", body, with(call, "Accept", "text/plain"), 406, codeInvalidRequest},
		{"no JSON", `{"jsonrpc"`, call, 400, codeParse},
		{"array", `[` + body + `]`, call, 400, codeParse},
		{"null id", strings.Replace(body, `"id":1`, `"id":null`, 1), call, 400, codeInvalidRequest},
		{"foreign origin", body, with(call, "Origin", "https://evil.example"), 403, 0},
		{"own origin", body, with(call, "Origin", "http://localhost:99"), 200, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			res, got := newPeer(t, u.URL()).must("POST", c.body, c.header)
			if res.StatusCode != c.status || code(got) != c.code {
				t.Errorf("%d with code %d, want %d with %d: %s", res.StatusCode, code(got), c.status, c.code, got)
			}
		})
	}
}

func TestModernResultsCarryHints(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Modern, Instructions: "mind"})
	p := newPeer(t, u.URL())
	for _, c := range []struct{ method, name, params, scope string }{
		{"server/discover", "", "", "public"},
		{"tools/list", "", "", "public"},
		{"resources/read", staticURI, `"uri":"` + staticURI + `"`, "private"},
		{"tools/call", "echo", `"name":"echo"`, ""},
	} {
		_, got, err := p.modern("1", c.method, c.name, c.params)
		if err != nil {
			t.Fatal(err)
		}
		r := open(got).open("result")
		if r.string("resultType") != "complete" || r.string("cacheScope") != c.scope || r.has("ttlMs") != (c.scope != "") {
			t.Errorf("%s: %s", c.method, got)
		}
		if r.open("_meta").open(metaServerInfo).string("name") != "bridgetest" {
			t.Errorf("%s: no serverInfo: %s", c.method, got)
		}
	}
	if res, _ := p.must("GET", "", nil); res.StatusCode != 405 {
		t.Errorf("GET: %d, want 405", res.StatusCode)
	}
	if res, got := p.must("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, nil); res.StatusCode != 400 || !strings.Contains(string(got), "2026-07-28") {
		t.Errorf("initialize: %d %s, want 400 that names the version", res.StatusCode, got)
	}
}

func TestLegacySession(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Both})
	p := newPeer(t, u.URL())
	post := func(body string, status, want int) {
		t.Helper()
		res, got := p.must("POST", body, p.header)
		if res.StatusCode != status || code(got) != want {
			t.Errorf("%s: %d with code %d, want %d with %d: %s", body, res.StatusCode, code(got), status, want, got)
		}
	}
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	post(list, 400, codeServer) // no session
	res, _ := p.must("POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2099-01-01","capabilities":{}}}`, nil)
	p.session = res.Header.Get("Mcp-Session-Id")
	post(list, 400, codeInvalidRequest) // not initialized
	post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, 200, 0)
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, 0)
	post(list, 200, 0)
	post(`{"jsonrpc":"2.0","id":3,"method":"no/such"}`, 200, codeMethodNotFound)
	post(`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"test://no"}}`, 200, codeResourceNotFound)
	p.header.Set("MCP-Protocol-Version", "1999-01-01")
	post(list, 400, codeServer)
	p.header.Set("MCP-Protocol-Version", "2025-11-25")
	if res, _ := p.must("DELETE", "", nil); res.StatusCode != 204 {
		t.Errorf("DELETE: %d", res.StatusCode)
	}
	post(list, 404, -32001)
	if u.Sessions() != 0 {
		t.Errorf("%d sessions, want none", u.Sessions())
	}
}

// TestModernMetaInsideSession: a modern request is served statelessly even with
// a session id on it.
func TestModernMetaInsideSession(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Both})
	p := newPeer(t, u.URL())
	p.initialize("2025-11-25")
	_, got, err := p.modernCall("echo", `{"text":"x"}`)
	if err != nil || open(got).open("result").string("resultType") != "complete" {
		t.Errorf("%s, %v", got, err)
	}
}

// events reads whole events from a stream until f returns false.
func events(t *testing.T, r io.Reader, f func(id, data string) bool) {
	t.Helper()
	sc := bufio.NewScanner(r)
	id, data := "", ""
	for sc.Scan() {
		switch line := sc.Text(); {
		case strings.HasPrefix(line, "id: "):
			id = line[4:]
		case strings.HasPrefix(line, "data: "):
			data += line[6:]
		case line == "":
			if data != "" && !f(id, data) {
				return
			}
			id, data = "", ""
		}
	}
}

func TestResumption(t *testing.T) {
	t.Parallel()
	u := startFaulty(t, Legacy, "stream-cut-after:2@stream_write")
	p := newPeer(t, u.URL())
	p.initialize("2025-11-25")
	body := strings.Replace(callBody("7", "stream_write", `{"n":3,"key":"k"}`), `"params":{`, `"params":{"_meta":{"progressToken":"p"},`, 1)
	res, err := p.client.Do(p.request(testContext(t), "POST", body, nil))
	if err != nil {
		t.Fatal(err)
	}
	last, seen := "", 0
	events(t, res.Body, func(id, _ string) bool { last, seen = id, seen+1; return true })
	_ = res.Body.Close()
	if seen != 2 {
		t.Fatalf("%d events before the cut, want 2", seen)
	}
	res, err = p.client.Do(p.request(testContext(t), "GET", "", http.Header{"Last-Event-Id": {last}}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var rest []string
	events(t, res.Body, func(_, data string) bool { rest = append(rest, data); return true })
	if len(rest) != 2 || !strings.Contains(rest[1], `"id":7`) {
		t.Errorf("resumed to %v, want one progress and the reply", rest)
	}
	if n := u.Ledger().EffectsOf("stream_write", "k"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	if res, _ := p.must("GET", "", http.Header{"Last-Event-Id": {"s999_1"}}); res.StatusCode != 400 {
		t.Errorf("unknown event id: %d, want 400", res.StatusCode)
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Modern})
	p := newPeer(t, u.URL())
	body := modernBody(`"sub"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://items/alpha"]}`)
	res, err := p.client.Do(p.request(testContext(t), "POST", body, modernHeader("subscriptions/listen", "")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var methods []string
	events(t, res.Body, func(_, data string) bool {
		m, err := parseMessage([]byte(data))
		if err != nil {
			t.Error(err)
		}
		tag := open(m.Params).open("_meta").string(metaSubscription) + open(m.Result).open("_meta").string(metaSubscription)
		if tag != "sub" {
			t.Errorf("no subscription id on %s", data)
		}
		methods = append(methods, m.Method)
		if len(methods) == 1 {
			if err := u.WaitListeners(testContext(t), 1); err != nil {
				t.Error(err)
			}
			u.Notify("notifications/prompts/list_changed", nil) // not asked for
			u.SetItem("beta", "not asked for")
			u.SetItem("alpha", "x")
			u.RemoveTool("echo")
			u.EndListens()
		}
		return true
	})
	want := []string{"notifications/subscriptions/acknowledged", "notifications/resources/updated", "notifications/tools/list_changed", ""}
	if !slices.Equal(methods, want) {
		t.Errorf("got %q, want %q", methods, want)
	}
}

// TestClientLeaves: leaving cancels a modern call that listens to it, and not a
// write that goes on; the ledger tells both.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	stopped := make(chan error, 1)
	wait := Tool{Name: "wait", Run: func(c *Call) (any, error) {
		<-c.Context().Done()
		stopped <- c.Context().Err()
		return nil, c.Context().Err()
	}}
	u := start(t, Options{Era: Modern, Tools: append(DefaultTools(), wait)})
	leave := func(tool, args string) {
		t.Helper()
		p := newPeer(t, u.URL())
		u.Ledger().Reset()
		ctx := testContext(t)
		gone := make(chan struct{})
		short, cancel := context.WithCancel(ctx)
		go func() {
			defer close(gone)
			res, err := p.client.Do(p.request(short, "POST", modernBody("1", "tools/call", `"name":"`+tool+`","arguments":`+args), modernHeader("tools/call", tool)))
			if err == nil {
				_ = res.Body.Close()
			}
		}()
		if err := u.Ledger().Wait(ctx, func(v *View) bool { return v.Deliveries(tool) == 1 }); err != nil {
			t.Error(err)
		}
		cancel()
		<-gone
		if err := u.Ledger().Wait(ctx, func(v *View) bool { return v.Requests("tools/call")[0].Has(MarkClosed) }); err != nil {
			t.Error(err)
		}
	}
	leave("wait", "{}")
	<-stopped
	leave("slow_write", `{"ms":200,"key":"late"}`)
	if err := u.Ledger().Wait(testContext(t), func(v *View) bool { return v.EffectsOf("slow_write", "late") == 1 }); err != nil {
		t.Error(err)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Both, Replicas: 2})
	p := newPeer(t, u.URL())
	p.initialize("2025-11-25")
	done := make(chan error, 1)
	go func() {
		_, _, err := p.do("POST", callBody("1", "slow_write", `{"ms":600000,"key":"never"}`), nil)
		done <- err
	}()
	if err := u.Ledger().Wait(testContext(t), func(v *View) bool { return v.Deliveries("slow_write") == 1 }); err != nil {
		t.Fatal(err)
	}
	u.Restart()
	if err := <-done; err == nil {
		t.Error("the call survived the restart")
	}
	p.url = u.URLs()[1]
	if res, _ := p.must("POST", callBody("2", "echo", "{}"), nil); res.StatusCode != 404 {
		t.Errorf("old session on the other replica: %d, want 404", res.StatusCode)
	}
	p.session = ""
	p.initialize("2025-06-18")
	p.url = u.URLs()[0] // replicas share sessions
	if res, got := p.must("POST", callBody("3", "write_note", `{"key":"a"}`), nil); res.StatusCode != 200 {
		t.Errorf("new session: %d %s", res.StatusCode, got)
	}
	if u.Ledger().Effects("slow_write") != 0 || u.Ledger().Effects("write_note") != 1 {
		t.Errorf("effects: %+v", u.Ledger().AllEffects())
	}
}

func TestCancelledIsNotAnswered(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Legacy})
	p := newPeer(t, u.URL())
	p.initialize("2025-11-25")
	body := strings.Replace(callBody(`"c1"`, "stream", `{"n":2,"interval":600000}`), `"params":{`, `"params":{"_meta":{"progressToken":"p"},`, 1)
	res, err := p.client.Do(p.request(testContext(t), "POST", body, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var got []string
	events(t, res.Body, func(_, data string) bool {
		got = append(got, data)
		q := newPeer(t, u.URL())
		q.session = p.session
		q.must("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"unknown"}}`, nil)
		q.must("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c1"}}`, nil)
		return true
	})
	if len(got) != 1 {
		t.Errorf("the cancelled call went on: %q", got)
	}
}

func TestStateIsSharedAndExportsRunTheirCourse(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Modern, Replicas: 2})
	a, b := newPeer(t, u.URLs()[0]), newPeer(t, u.URLs()[1])
	status := func(p *peer, tool, args string) string {
		t.Helper()
		_, got, err := p.modernCall(tool, args)
		if err != nil {
			t.Fatal(err)
		}
		return open(got).open("result").open("structuredContent").string("status")
	}
	if s := status(b, "get_export", `{"id":"e1"}`); s != "not_found" {
		t.Errorf("before the start: %q", s)
	}
	if s := status(a, "start_export", `{"requestId":"e1","ms":3600000}`); s != "queued" {
		t.Errorf("after the start: %q", s)
	}
	status(b, "start_export", `{"requestId":"e1","ms":0}`)
	if s := status(b, "get_export", `{"id":"e1"}`); s != "queued" {
		t.Errorf("a second start changed the first: %q", s)
	}
	if s := status(b, "start_export", `{"requestId":"e2","ms":0}`); s != "done" {
		t.Errorf("a quick export: %q", s)
	}
	if n := u.Ledger().EffectsOf("start_export", "e1"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

func TestBytesSurvive(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Both})
	p := newPeer(t, u.URL())
	for tool, want := range map[string]string{
		"unicode": "a\u2028b\u2029c\u0085d",
		"numbers": `"big":9007199254740993,"huge":18446744073709551615,"far":1e400,"fine":0.1000000000000000055,"minus":-0,"one":1.0`,
		"pretty":  "\n  \"content\": [",
	} {
		_, got, err := p.modernCall(tool, "{}")
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %v, %s", tool, err, got)
		}
	}
	_, got, err := p.modernCall("blob", `{"bytes":3000000}`)
	if err != nil || len(got) < 3_000_000 {
		t.Errorf("blob: %d bytes, %v", len(got), err)
	}
}

func TestLedgerOverHTTP(t *testing.T) {
	t.Parallel()
	u := start(t, Options{})
	p := newPeer(t, u.URL())
	if _, _, err := p.modernCall("write_note", `{"key":"k"}`); err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(u.URL(), "/mcp")
	ctl := newPeer(t, base+"/ledger")
	_, got := ctl.must("GET", "", nil)
	var l struct {
		Entries    []Entry
		Effects    []Effect
		Deliveries map[string]int
		Executed   map[string]int
	}
	if err := json.Unmarshal(got, &l); err != nil {
		t.Fatal(err)
	}
	if len(l.Entries) != 1 || l.Deliveries["write_note"] != 1 || l.Executed["write_note"] != 1 || l.Effects[0].Key != "k" {
		t.Errorf("ledger: %s", got)
	}
	e := l.Entries[0]
	if e.Method != "tools/call" || e.Tool != "write_note" || string(e.ID) != "1" || e.Status != 200 || !e.Has(MarkReply) {
		t.Errorf("entry: %+v", e)
	}
	ctl.url = base + "/ledger/reset"
	ctl.must("POST", "", nil)
	if n := len(u.Ledger().Entries()); n != 0 {
		t.Errorf("%d entries after the reset", n)
	}
	ctl.url = base + "/faults"
	if res, got := ctl.must("POST", `["status:503,200", {"Name":"crlf"}]`, nil); res.StatusCode != 204 {
		t.Errorf("set faults: %d %s", res.StatusCode, got)
	}
	if res, _ := ctl.must("POST", `["no-such"]`, nil); res.StatusCode != 400 {
		t.Errorf("unknown fault: %d, want 400", res.StatusCode)
	}
	if res, _, err := p.modernCall("echo", `{}`); err != nil || res.StatusCode != 503 {
		t.Errorf("after the fault was set: %v, %v", res, err)
	}
}
