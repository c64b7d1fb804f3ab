package eras

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

func rawTool(name, result string) bridgetest.Tool {
	return bridgetest.Tool{Name: name, Annotations: []byte(`{"readOnlyHint":true}`), Run: func(*bridgetest.Call) (any, error) {
		return json.RawMessage(result), nil
	}}
}

// TestOutputSchemaThatIsNoObject: kept for modern hosts, left out for the others.
func TestOutputSchemaThatIsNoObject(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern})
	for _, v := range []string{modern, v2511} {
		r := start(t, up, rigOptions{version: v})
		list := r.ok(r.call("tools/list", ""))
		if got := strings.Contains(list, `"outputSchema":{"type":"array"`); got != (v == modern) {
			t.Errorf("%s: array as outputSchema: %t", v, got)
		}
		want(t, v, list, `"outputSchema":{"type":"object"`)
		call := r.ok(r.tool("structured_array", "{}"))
		if got := rawAt([]byte(call), "structuredContent"); v == modern && got != "[1,2,3]" || v != modern && got != "" {
			t.Errorf("%s: structuredContent %s", v, got)
		}
		want(t, v, call, `[1,2,3]`) // as text, where it was there already
	}
}

func TestStructuredContentBecomesText(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern, Tools: []bridgetest.Tool{
		rawTool("bare", `{"content":[],"structuredContent":[1, 2]}`),
		{Name: "late", Annotations: []byte(`{"readOnlyHint":true}`), Run: func(c *bridgetest.Call) (any, error) {
			return json.RawMessage(`{"content":[],"structuredContent":"odd"}`), c.Sleep(lateAfter)
		}},
	}})
	r := start(t, up, rigOptions{version: v2511, args: []string{"--answer-within=1500ms"}})
	got := r.tool("bare", "{}")
	if rawAt(got.Result, "structuredContent") != "" || !strings.Contains(got.Text(), "[1,") {
		t.Errorf("bare: %s", got.Raw)
	}
	end := r.jobEnd(string(r.tool("late", "{}").Result))
	wantNot(t, "kept result", end, `"structuredContent":"odd"`)
	want(t, "kept result", end, `\"odd\"`)
}

func TestYoungContentTypes(t *testing.T) {
	t.Parallel()
	blocks := `{"content":[{"type":"text","text":"t"},{"type":"audio","data":"AAAA","mimeType":"audio/wav"},{"type":"resource_link","uri":"test://x","name":"x"}]}`
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Both, Tools: []bridgetest.Tool{rawTool("blocks", blocks)}})
	for _, v := range []string{v2024, v2503, v2506, v2511, modern} {
		r := start(t, up, rigOptions{version: v})
		got := r.ok(r.tool("blocks", "{}"))
		if has := strings.Contains(got, `"audio"`); has != (v >= v2503) {
			t.Errorf("%s: audio %t: %s", v, has, got)
		}
		if has := strings.Contains(got, `"resource_link"`); has != (v >= v2506) {
			t.Errorf("%s: resource_link %t: %s", v, has, got)
		}
		want(t, v, got, "test://x")
	}
}

// TestCacheHints: the server's own, not above the bridge's bound, and private
// and 0 where there are none (2026-07-28, caching).
func TestCacheHints(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern})
	r := start(t, up, rigOptions{version: modern})
	for _, m := range []string{"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"} {
		got := r.ok(r.call(m, `{"uri":"test://static/readme"}`))
		if at([]byte(got), "ttlMs") == "" || at([]byte(got), "cacheScope") == "" {
			t.Errorf("%s: no cache hints: %.300s", m, got)
		}
	}
	got := r.ok(r.call("tools/list", ""))
	if ttl := at([]byte(got), "ttlMs"); ttl != "60000" {
		t.Errorf("tools/list: ttlMs %s, want the bound of 60000", ttl)
	}
	call := r.ok(r.tool("now", "{}"))
	if at([]byte(call), "ttlMs") != "" {
		t.Errorf("tools/call has cache hints: %s", call)
	}
	old := start(t, startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy}), rigOptions{version: modern})
	for _, m := range []string{"tools/list", "prompts/list", "resources/read"} {
		got := old.ok(old.call(m, `{"uri":"test://static/readme"}`))
		if at([]byte(got), "ttlMs") != "0" || at([]byte(got), "cacheScope") != "private" {
			t.Errorf("%s from a legacy server: %.300s", m, got)
		}
	}
}

// TestCacheHintsOverPages: the shortest time of all pages, and public only if
// every page says so.
func TestCacheHintsOverPages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, ttl, scope string
		pages            []string
	}{
		{"public throughout", "30000", "public", []string{`"ttlMs":50000,"cacheScope":"public"`, `"ttlMs":30000,"cacheScope":"public"`}},
		{"one page private", "30000", "private", []string{`"ttlMs":30000,"cacheScope":"public"`, `"ttlMs":50000,"cacheScope":"private"`, `"ttlMs":50000,"cacheScope":"public"`}},
		{"one page silent", "0", "private", []string{`"ttlMs":30000,"cacheScope":"public"`, `"example":1`}},
	} {
		s := startStub(t, func(_ *stub, w http.ResponseWriter, _ *http.Request, m request) bool {
			if m.Method != "tools/list" {
				return false
			}
			n := 0
			if cursor := at(m.Params, "cursor"); cursor != "" {
				n = int(cursor[0] - '0')
			}
			next := ""
			if n+1 < len(c.pages) {
				next = fmt.Sprintf(`,"nextCursor":"%d"`, n+1)
			}
			result(w, m, fmt.Sprintf(`{"resultType":"complete","tools":[{"name":"act%d","inputSchema":{"type":"object"}}],%s%s}`, n, c.pages[n], next))
			return true
		})
		r := start(t, nil, rigOptions{version: modern, url: s.URL})
		got := r.ok(r.call("tools/list", ""))
		for n := range c.pages {
			want(t, c.name, got, fmt.Sprintf(`"act%d"`, n))
		}
		if at([]byte(got), "ttlMs") != c.ttl || at([]byte(got), "cacheScope") != c.scope {
			t.Errorf("%s: ttlMs %s, cacheScope %s, want %s and %s", c.name, at([]byte(got), "ttlMs"), at([]byte(got), "cacheScope"), c.ttl, c.scope)
		}
	}
}

// TestHalfUpgradedServer: what a modern server left out is filled in.
func TestHalfUpgradedServer(t *testing.T) {
	t.Parallel()
	fault, err := bridgetest.ParseFault("no-cache-hints:all")
	if err != nil {
		t.Fatal(err)
	}
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern, Faults: []bridgetest.Fault{fault}})
	for _, v := range []string{modern, v2511} {
		r := start(t, up, rigOptions{version: v})
		got := r.ok(r.call("tools/list", ""))
		want(t, v, got, `"echo"`)
		if v == modern && (at([]byte(got), "ttlMs") != "0" || at([]byte(got), "cacheScope") != "private") {
			t.Errorf("hints: %.200s", got)
		}
		r.ok(r.call("resources/list", ""))
		r.ok(r.tool("now", "{}"))
	}
}

// TestPeersOfOneEra: what nobody knows passes byte for byte.
func TestPeersOfOneEra(t *testing.T) {
	t.Parallel()
	const params = `{"name":"act","arguments":{"n":9007199254740993, "f":1e400,"s":"\u0041\u2028"},"_meta":{"example.com/k":{"a" : [1.0]}},"unknown":{"x":1E2}}`
	const kept = `"content":[],"unknown":{"big":18446744073709551615,"f":1.50},"_meta":{"example.com/r":[1, 2]}`
	for _, v := range []string{v2511, modern} {
		s := startStub(t, func(_ *stub, w http.ResponseWriter, _ *http.Request, m request) bool {
			switch m.Method {
			case "tools/call":
				events(w, `{"jsonrpc":"2.0","method":"notifications/example","params":{"n":1.0}}`,
					`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{`+kept+resultType(v)+`}}`)
				return true
			case "example/method":
				result(w, m, `{"answer":1.0`+resultType(v)+`}`)
				return true
			}
			return v != modern && legacyStub(w, m)
		})
		r := start(t, nil, rigOptions{version: v, url: s.URL})
		sentAs := params
		if v == modern {
			sentAs = strings.Replace(params, `"_meta":{`, `"_meta":{"`+metaPrefix+`protocolVersion":"`+modern+`","`+metaPrefix+`clientCapabilities":{},`, 1)
		}
		line := `{"jsonrpc":"2.0","id":"\u0041","method":"tools/call","params":` + sentAs + "}\n"
		r.host.Expect(`"\u0041"`)
		if err := r.host.SendRaw([]byte(line)); err != nil {
			t.Fatal(err)
		}
		got, err := r.host.WaitReply(r.step(), `"\u0041"`)
		if err != nil {
			t.Fatal(err)
		}
		want(t, v+" result", string(got.Raw), `"unknown":{"big":18446744073709551615,"f":1.50}`, `"example.com/r":[1, 2]`)
		sent := s.requests("tools/call")[0].Body
		want(t, v+" request", sent, `"arguments":{"n":9007199254740993, "f":1e400,"s":"\u0041\u2028"}`, `"unknown":{"x":1E2}`)
		want(t, v+" request", sent, `"example.com/k":{"a" : [1.0]}`)
		m := r.call("example/method", `{"p":1.0}`)
		want(t, v+" unknown method", string(m.Raw), `"answer":1.0`)
		want(t, v+" unknown method", s.requests("example/method")[0].Body, `"p":1.0`)
		note := r.host.Notifications(func(m bridgetest.HostMessage) bool { return m.Method == "notifications/example" })
		if len(note) != 1 || !strings.Contains(string(note[0].Raw), `{"n":1.0}`) {
			t.Errorf("%s: unknown notification: %v", v, note)
		}
	}
}

// TestPeersOfOneEraBesideCalls: the same for what a server says of itself, for its
// lists, and for what it says without being asked.
func TestPeersOfOneEraBesideCalls(t *testing.T) {
	t.Parallel()
	const (
		capabilities = `"capabilities":{"tools":{"listChanged":true,"x":1.0},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"example.com/cap":{"a" : [1, 2]}}`
		more         = `"example":{"n":1.50},"_meta":{"example.com/k":1.0}`
		list         = `"tools":[{"name":"act","inputSchema":{"type":"object"},"unknown":1.0}],"example":[ 1.0 ]`
	)
	notices := func(tag string) []string {
		var out []string
		for _, name := range []string{"example", "tools/list_changed", "prompts/list_changed", "resources/list_changed"} {
			out = append(out, `{"jsonrpc":"2.0","method":"notifications/`+name+`","params":{"n":1.0,"_meta":{`+tag+`"example.com/k":[1, 2]}}}`)
		}
		return append(out, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://x","n":1.0,"_meta":{`+tag+`"example.com/k":[1, 2]}}}`)
	}
	for _, v := range []string{v2511, modern} {
		say := make(chan bool, 1)
		s := startStub(t, func(_ *stub, w http.ResponseWriter, r *http.Request, m request) bool {
			switch {
			case m.HTTP == http.MethodGet && v != modern:
				events(w)
				<-say
				events(w, notices("")...)
				<-r.Context().Done()
			case m.Method == "initialize":
				result(w, m, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"stub","version":"1","x":1.0},`+capabilities+`,`+more+`}`)
			case m.Method == "server/discover" && v == modern:
				result(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private",`+capabilities+`,`+more+`}`)
			case m.Method == "tools/list":
				result(w, m, `{`+list+resultType(v)+`}`)
			case m.Method == "resources/subscribe":
				result(w, m, `{}`)
			case m.Method == "subscriptions/listen":
				tag := `"` + subscriptionID + `":` + string(m.ID)
				events(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{`+tag+`},"notifications":`+rawAt(m.Params, "notifications")+`}}`)
				if strings.Contains(m.Body, "example.com/things") {
					<-say
					events(w, notices(tag+",")...)
				}
				<-r.Context().Done()
			default:
				return v != modern && legacyStub(w, m)
			}
			return true
		})
		r := start(t, nil, rigOptions{version: v, url: s.URL, noHandshake: true})
		var first bridgetest.Reply
		var err error
		if v == modern {
			first, err = r.host.Discover(r.step())
		} else {
			first, err = r.host.Initialize(r.step(), v, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		want(t, v, string(first.Raw), `"x":1.0`, `"example.com/cap":{"a" : [1, 2]}`, `"example":{"n":1.50}`, `"example.com/k":1.0`)
		want(t, v, r.ok(r.call("tools/list", "")), `"unknown":1.0`, `"example":[ 1.0 ]`)
		const id = `"l"`
		if v == modern {
			const wanted = `"example.com/things":{"deep":[1.0]}`
			ack := r.listen(id, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["test://x"],`+wanted+`}`)
			want(t, "acknowledgment", string(ack.Raw), wanted)
		} else {
			r.ok(r.call("resources/subscribe", `{"uri":"test://x"}`))
		}
		say <- true
		for _, name := range []string{"example", "tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated"} {
			m, err := r.host.WaitNotification(r.step(), "notifications/"+name)
			if err != nil {
				t.Fatalf("%s: %v\n%s", v, err, r.host.Stderr())
			}
			want(t, v+" "+name, string(m.Raw), `"n":1.0`, `"example.com/k":[1, 2]`)
			if got := rawAt(m.Params, "_meta", subscriptionID); v == modern && got != id || v != modern && got != "" {
				t.Errorf("%s: %s is tagged %s", v, name, got)
			}
		}
	}
}

// TestListensForWhatNobodyKnows: all that hosts want under such names is asked
// for upstream, and what comes goes to those who asked.
func TestListensForWhatNobodyKnows(t *testing.T) {
	t.Parallel()
	both := make(chan bool, 1)
	s := startStub(t, func(_ *stub, w http.ResponseWriter, r *http.Request, m request) bool {
		if m.Method != "subscriptions/listen" {
			return false
		}
		tag := `"` + subscriptionID + `":` + string(m.ID)
		events(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{`+tag+`},"notifications":{}}}`)
		if rawAt(m.Params, "notifications", "example.com/ids") == `["a","b","c"]` {
			both <- true
			events(w, `{"jsonrpc":"2.0","method":"notifications/example","params":{"_meta":{`+tag+`}}}`)
		}
		<-r.Context().Done()
		return true
	})
	r := start(t, nil, rigOptions{version: modern, url: s.URL})
	r.ok(r.call("tools/list", ""))
	r.listen(`"tools"`, `{"toolsListChanged":true}`)
	r.listen(`1`, `{"example.com/ids":["a","b"]}`)
	r.listen(`2`, `{"example.com/ids":["b","c"]}`)
	select {
	case <-both:
	case <-r.step().Done():
		t.Fatalf("never asked for both: %v", s.requests("subscriptions/listen"))
	}
	r.notice("notifications/example", `1`)
	r.notice("notifications/example", `2`)
	if got := r.host.Notifications(about("notifications/example", `"tools"`)); len(got) > 0 {
		t.Errorf("to who did not ask: %s", got[0].Raw)
	}
}

func resultType(version string) string {
	if version == modern {
		return `,"resultType":"complete"`
	}
	return ""
}

// TestMetaAcrossEras: what belongs to an era stays in it; ours never leaves.
func TestMetaAcrossEras(t *testing.T) {
	t.Parallel()
	params := `{"name":"echo","arguments":{"text":"x"},"inputResponses":{"q":{}},"_meta":{"example.com/k":1,"io.github.mcpbridge/idempotencyKey":"key","io.modelcontextprotocol/logLevel":"info"}}`
	old := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
	for _, v := range []string{modern, v2511} {
		r := start(t, old, rigOptions{version: v})
		r.ok(r.call("tools/call", params))
		body := old.Ledger().Requests("tools/call")[0].Body
		want(t, v, body, `"example.com/k":1`)
		wantNot(t, v, body, "io.github.mcpbridge", metaPrefix)
		if v == modern {
			wantNot(t, v, body, "inputResponses")
		}
		old.Ledger().Reset()
	}
	s := startStub(t, func(_ *stub, w http.ResponseWriter, _ *http.Request, m request) bool {
		if m.Method == "tools/call" {
			result(w, m, `{"resultType":"complete","content":[],"ttlMs":1,"cacheScope":"public","_meta":{"`+metaPrefix+`serverInfo":{},"`+subscriptionID+`":1,"example.com/r":2}}`)
		}
		return m.Method == "tools/call"
	})
	r := start(t, nil, rigOptions{version: v2511, url: s.URL})
	got := r.call("tools/call", bridgetest.ToolParams("act", "{}"))
	wantNot(t, "result", string(got.Raw), metaPrefix, "resultType", "ttlMs", "cacheScope")
	want(t, "result", string(got.Raw), `"example.com/r":2`)
	wantNot(t, "request", s.requests("tools/call")[0].Body, "io.github.mcpbridge")
}

// TestHeaders: the values that the body has, encoded as they must be; the server
// compares each.
func TestHeaders(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern})
	for _, v := range []string{modern, v2511} {
		r := start(t, up, rigOptions{version: v})
		list := r.ok(r.call("tools/list", ""))
		wantNot(t, "tools/list", list, `"bad_header"`)
		for _, region := range []string{"plain", "Zürich", " edge ", "=?base64?eA==?=", "tab\tinside", "new\nline", ""} {
			quoted, err := json.Marshal(region)
			if err != nil {
				t.Fatal(err)
			}
			r.ok(r.tool("region_query", `{"region":`+string(quoted)+`,"options":{"limit":9007199254740991,"deep":true}}`))
		}
		r.ok(r.tool("region_query", `{"region":"r","options":{"limit":null}}`))
		before := r.count("tools/call")
		got := r.tool("region_query", `{"region":"r","options":{"limit":9007199254740992}}`)
		want(t, "limit 2^53", got.Text(), "NOT SENT", "2^53-1")
		if n := r.count("tools/call"); n != before {
			t.Errorf("%s: %d calls were sent", v, n-before)
		}
		for i, odd := range []string{"名前", " x "} {
			got := r.call("prompts/get", fmt.Sprintf(`{"name":%q}`, odd))
			if got.Error == nil || got.Error.Code != -32602 {
				t.Errorf("prompt %d: %s", i, got.Raw)
			}
		}
	}
	legacy := start(t, startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy, Tools: []bridgetest.Tool{{
		Name: "bad_header", InputSchema: []byte(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Bad Header"}}}`),
		Run: func(*bridgetest.Call) (any, error) { return bridgetest.Text(""), nil },
	}}}), rigOptions{version: v2511})
	want(t, "legacy server", legacy.ok(legacy.call("tools/list", "")), "bad_header")
}

// TestHeaderMismatch: the tool's schema changed unseen; it is fetched once.
func TestHeaderMismatch(t *testing.T) {
	t.Parallel()
	header := false
	schema := func() string {
		if header {
			return `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`
		}
		return `{"type":"object","properties":{"region":{"type":"string"}}}`
	}
	never := false
	s := startStub(t, func(_ *stub, w http.ResponseWriter, r *http.Request, m request) bool {
		switch {
		case m.Method == "tools/list":
			result(w, m, `{"resultType":"complete","tools":[{"name":"act","inputSchema":`+schema()+`}],"ttlMs":60000,"cacheScope":"private"}`)
		case m.Method == "tools/call" && (never || r.Header.Get("Mcp-Param-Region") == ""):
			header = true
			w.WriteHeader(http.StatusBadRequest)
			fail(w, m, -32020)
		case m.Method == "tools/call":
			result(w, m, `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
		default:
			return false
		}
		return true
	})
	r := start(t, nil, rigOptions{version: modern, url: s.URL})
	r.ok(r.call("tools/list", ""))
	want(t, "call", r.ok(r.tool("act", `{"region":"r"}`)), "done")
	if n := len(s.requests("tools/call")); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
	never = true
	got := r.tool("act", `{"region":"r"}`)
	want(t, "call", string(got.Raw), "-32020")
	if n := len(s.requests("tools/call")); n != 4 {
		t.Errorf("%d calls, want 4: once more and no further", n)
	}
}
