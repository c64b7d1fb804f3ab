package eras

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

func faulty(t *testing.T, o bridgetest.Options, faults ...string) *bridgetest.Upstream {
	t.Helper()
	for _, text := range faults {
		f, err := bridgetest.ParseFault(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Faults = append(o.Faults, f)
	}
	return startUpstream(t, o)
}

// TestOldServersAnswerTheProbe: whatever an old server says to server/discover,
// the session comes to stand.
func TestOldServersAnswerTheProbe(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"-32601", "-32602", "-32600", "-32603", "-32000", "400-text", "404", "405", "406", "500", "close", "silent"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			up := faulty(t, bridgetest.Options{Era: bridgetest.Legacy}, "discover:"+kind)
			r := start(t, up, rigOptions{version: v2511})
			r.ok(r.tool("now", "{}"))
			probes := r.count("server/discover")
			if probes != 1 {
				t.Errorf("%d probes, want 1", probes)
			}
			r.restart()
			r.ok(r.tool("now", "{}"))
			// 500, a cut and silence decide nothing and are not remembered.
			decides := kind != "500" && kind != "close" && kind != "silent"
			if again := r.count("server/discover") - probes; decides && again != 0 || !decides && again != 1 {
				t.Errorf("%d probes after a restart", again)
			}
		})
	}
}

func TestGuardInFrontOfTheProbe(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 403} {
		s := startStub(t, func(_ *stub, w http.ResponseWriter, _ *http.Request, m request) bool {
			switch m.Method {
			case "server/discover":
				w.WriteHeader(status)
			case "tools/call":
				result(w, m, `{"content":[{"type":"text","text":"done"}]}`)
			default:
				return legacyStub(w, m)
			}
			return true
		})
		r := start(t, nil, rigOptions{version: v2511, url: s.URL})
		want(t, fmt.Sprint(status), r.ok(r.tool("act", "{}")), "done")
	}
}

// TestCaptivePortal: a web page decides nothing, and nothing of it is kept.
func TestCaptivePortal(t *testing.T) {
	t.Parallel()
	var open atomic.Bool
	s := startStub(t, func(_ *stub, w http.ResponseWriter, _ *http.Request, m request) bool {
		if open.Load() {
			if m.Method == "tools/call" {
				result(w, m, `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
			}
			return m.Method == "tools/call"
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html><title>Hotel Wi-Fi</title>Welcome</html>")
		return true
	})
	for _, v := range []string{modern, v2511} {
		open.Store(false)
		r := start(t, nil, rigOptions{version: v, url: s.URL})
		got := r.tool("act", "{}")
		want(t, "call in the hotel", string(got.Raw), "NOT SENT", "Hotel Wi-Fi")
		open.Store(true)
		for range 200 {
			if got = r.tool("act", "{}"); strings.Contains(got.Text(), "done") {
				break
			}
		}
		want(t, "call after signing in there", string(got.Raw), "done")
	}
}

func TestOldServersAndVersions(t *testing.T) {
	t.Parallel()
	// 400 in plain text to each revision that is too new.
	up := faulty(t, bridgetest.Options{Era: bridgetest.Legacy}, "version-400:2025-03-26")
	r := start(t, up, rigOptions{version: v2511})
	r.ok(r.tool("now", "{}"))
	if n := r.count("initialize"); n != 3 {
		t.Errorf("%d times initialize, want one for each version", n)
	}
	// A header with the version on initialize itself.
	r = start(t, faulty(t, bridgetest.Options{Era: bridgetest.Legacy, NoGETStream: true}, "initialize-header-400"), rigOptions{version: v2511})
	r.ok(r.tool("now", "{}"))
	for _, e := range r.up.Ledger().Requests("initialize") {
		if e.Header.Get("MCP-Protocol-Version") != "" {
			t.Error("initialize carries a version header")
		}
	}
	// A server that insists on an older revision.
	r = start(t, startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy, LegacyOffered: []string{v2506}}), rigOptions{version: v2511})
	r.ok(r.tool("now", "{}"))
}

func TestInitializeIsAnsweredWith(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern})
	for asked, want := range map[string]string{
		v2024: v2024, v2503: v2503, v2506: v2506, v2511: v2511, modern: v2511, "2099-01-01": v2511, "2025-07-01": v2506, "1.0": v2024,
	} {
		r := start(t, up, rigOptions{version: v2511, noHandshake: true})
		got, err := r.host.Initialize(r.step(), asked, "{}")
		if err != nil || at(got.Result, "protocolVersion") != want {
			t.Errorf("asked for %s: %s %v, want %s", asked, got.Raw, err, want)
		}
	}
}

func TestVersionsOfModernRequests(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Both})
	r := start(t, up, rigOptions{version: modern, noHandshake: true})
	meta := func(version, more string) string {
		return `{"name":"now","_meta":{"` + metaPrefix + `protocolVersion":"` + version + `"` + more + `}}`
	}
	got := r.call("tools/call", meta("2099-01-01", `,"`+metaPrefix+`clientCapabilities":{}`))
	if got.Error == nil || got.Error.Code != -32022 || !strings.Contains(string(got.Error.Data), modern) {
		t.Errorf("unknown version: %s", got.Raw)
	}
	if got = r.call("tools/call", meta(modern, "")); got.Error == nil || got.Error.Code != -32602 {
		t.Errorf("without capabilities: %s", got.Raw)
	}
	if got = r.call("tools/call", meta(modern, `,"`+metaPrefix+`clientCapabilities":{},"`+metaPrefix+`logLevel":"loud"`)); got.Error == nil || got.Error.Code != -32602 {
		t.Errorf("unknown level: %s", got.Raw)
	}
	// 2026-07-28, basic, "_meta": what lacks a required field is malformed.
	for _, params := range []string{`{}`, `{"_meta":{}}`, `{"_meta":{"` + metaPrefix + `clientCapabilities":{}}}`} {
		if got = r.call("server/discover", params); got.Error == nil || got.Error.Code != -32602 {
			t.Errorf("server/discover with %s: %s", params, got.Raw)
		}
	}
	// What that revision took out is not found where a request is of it.
	for _, m := range []string{"ping", "initialize"} {
		if got = r.call(m, meta(modern, `,"`+metaPrefix+`clientCapabilities":{}`)); got.Error == nil || got.Error.Code != -32601 {
			t.Errorf("%s of %s: %s", m, modern, got.Raw)
		}
	}
	// A host that falls back and leaves _meta on has said initialize all the same.
	fallback := `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"h","version":"1"},"_meta":{"` + metaPrefix + `protocolVersion":"` + modern + `"}}`
	if got = r.call("initialize", fallback); at(got.Result, "protocolVersion") != v2511 {
		t.Errorf("initialize with both: %s", got.Raw)
	}
	// A request of no era is served as 2025-03-26.
	if got = r.call("tools/call", `{"name":"now"}`); got.Error != nil || at(got.Result, "resultType") != "" {
		t.Errorf("request of no era: %s", got.Raw)
	}
	for _, m := range []string{"logging/setLevel", "resources/subscribe"} {
		r.host.SetModern(true)
		old := start(t, startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy}), rigOptions{version: modern})
		old.ok(old.tool("now", "{}"))
		if got := old.call(m, `{"level":"info","uri":"test://x"}`); got.Error == nil || got.Error.Code != -32601 {
			t.Errorf("%s from a modern host: %s", m, got.Raw)
		}
	}
}

// TestVersionRefused: -32022 is met with another version once, -32020 with other
// headers, after as long as the server asks for; then it is told.
func TestVersionRefused(t *testing.T) {
	t.Parallel()
	for _, code := range []int{-32022, -32020} {
		for _, after := range []string{"", "1"} {
			s := startStub(t, func(_ *stub, w http.ResponseWriter, _ *http.Request, m request) bool {
				if m.Method != "tools/call" {
					return false
				}
				if after != "" {
					w.Header().Set("Retry-After", after)
				}
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`, m.ID, code)
				return true
			})
			r := start(t, nil, rigOptions{version: modern, url: s.URL})
			want(t, "call", string(r.tool("act", "{}").Raw), fmt.Sprint(code))
			calls := s.requests("tools/call")
			if len(calls) != 2 {
				t.Fatalf("%d: %d calls, want 2", code, len(calls))
			}
			if got := calls[1].At.Sub(calls[0].At); after != "" && got < time.Second {
				t.Errorf("%d: again after %v, and the server asked for 1 s", code, got)
			}
		}
	}
}

// TestHalfUpgradedFleet: two replicas, one of each era, behind one address.
func TestHalfUpgradedFleet(t *testing.T) {
	t.Parallel()
	old, young := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy, Sessionless: true}), startUpstream(t, bridgetest.Options{Era: bridgetest.Modern})
	var n atomic.Int64
	s := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
		to := old.URL()
		if n.Add(1)%2 == 0 {
			to = young.URL()
		}
		u, err := url.Parse(to)
		if err != nil {
			panic(err)
		}
		u.Path = ""
		p.SetURL(u)
	}})
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	r := start(t, old, rigOptions{version: v2511, url: s.URL + "/mcp"})
	worked := 0
	for range 20 {
		if got := r.tool("now", "{}"); got.Error == nil && !got.IsError() {
			worked++
		}
	}
	probes := len(old.Ledger().Requests("server/discover")) + len(young.Ledger().Requests("server/discover"))
	if probes > 3 {
		t.Errorf("%d probes for 20 calls", probes)
	}
	if worked < 5 {
		t.Errorf("%d of 20 calls worked", worked)
	}
}

// TestOverrides: --protocol and --transport beat the probe and what was remembered.
func TestOverrides(t *testing.T) {
	t.Parallel()
	both := startUpstream(t, bridgetest.Options{Era: bridgetest.Both})
	dir := t.TempDir() // remembers what is found without a flag
	use := func(up *bridgetest.Upstream, dir string, args ...string) (*rig, bridgetest.Reply) {
		up.Ledger().Reset()
		r := start(t, up, rigOptions{version: v2511, dir: dir, args: args})
		return r, r.tool("now", "{}")
	}
	r, got := use(both, dir)
	r.ok(got)
	if r.count("server/discover") != 1 || r.count("initialize") != 0 {
		t.Error("auto: a server of both eras is not spoken to in the newer one")
	}
	for _, remembered := range []string{"modern", "nothing"} {
		if remembered == "nothing" {
			dir = t.TempDir()
		}
		r, got = use(both, dir, "--protocol=legacy")
		r.ok(got)
		if r.count("server/discover") != 0 || r.count("initialize") != 1 {
			t.Errorf("legacy, %s remembered: %d probes, %d times initialize", remembered, r.count("server/discover"), r.count("initialize"))
		}
	}
	r, got = use(both, dir)
	r.ok(got)
	if r.count("initialize") != 0 {
		t.Error("an override was remembered")
	}
	old := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
	r, got = use(old, t.TempDir(), "--protocol=modern")
	want(t, "modern only", got.Text(), "NOT SENT", "server/discover")
	if r.count("initialize") != 0 {
		t.Error("modern: initialize was sent")
	}
	overSSE := startUpstream(t, bridgetest.Options{Era: bridgetest.SSE})
	r, got = use(overSSE, t.TempDir(), "--transport=sse")
	r.ok(got)
	if first := overSSE.Ledger().Entries()[0]; first.HTTP != http.MethodGet {
		t.Errorf("sse: the first request is %s", first.HTTP)
	}
	_, got = use(overSSE, t.TempDir(), "--transport=http")
	want(t, "http only", got.Text(), "NOT SENT")
	if n := len(overSSE.Ledger().HTTP(http.MethodGet)); n > 0 {
		t.Errorf("http: %d times GET", n)
	}
}

// TestServerChangesItsEra: what was remembered gives way.
func TestServerChangesItsEra(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, eras := range [][2]bridgetest.Era{{bridgetest.Legacy, bridgetest.Modern}, {bridgetest.Modern, bridgetest.Legacy}} {
		first := startUpstream(t, bridgetest.Options{Era: eras[0]})
		r := start(t, first, rigOptions{version: v2511, dir: dir})
		r.ok(r.tool("now", "{}"))
		address := strings.TrimSuffix(strings.TrimPrefix(first.URL(), "http://"), "/mcp")
		r.host.Kill()
		first.Close()
		r = start(t, startUpstream(t, bridgetest.Options{Era: eras[1], Listen: address}), rigOptions{version: v2511, dir: dir})
		r.ok(r.tool("now", "{}"))
	}
}

// TestSlowInitialized: nothing overtakes the notification.
func TestSlowInitialized(t *testing.T) {
	t.Parallel()
	up := faulty(t, bridgetest.Options{Era: bridgetest.Legacy}, "slow-initialized:300ms")
	r := start(t, up, rigOptions{version: v2511})
	r.ok(r.tool("now", "{}"))
	for _, e := range up.Ledger().Entries() {
		if e.Method != "" && e.Status >= 400 && e.Method != "server/discover" {
			t.Errorf("%s was answered %d", e.Method, e.Status)
		}
	}
}

// TestSessionsAreLost: in every shape, and the call goes on in a new one where
// the server proves that it did not execute it.
func TestSessionsAreLost(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"session-lost", "session-400", "session-503"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
			r := start(t, up, rigOptions{version: v2511})
			r.ok(r.call("resources/subscribe", `{"uri":"test://items/alpha"}`))
			r.ok(r.call("logging/setLevel", `{"level":"error"}`))
			up.Ledger().Reset()
			// A new session takes its time: nothing may go out on the old one meanwhile.
			if err := up.SetFault(fault+"@tools/callx1", "slow-initialized:100ms"); err != nil {
				t.Fatal(err)
			}
			got := r.tool("write_note", `{"key":"n","text":"t"}`)
			if fault == "session-503" {
				want(t, "call", got.Text(), "OUTCOME UNKNOWN")
				// The next call waits until the session was looked at.
				got = r.tool("write_note", `{"key":"n","text":"other"}`)
			}
			r.ok(got)
			r.seen("the subscription", answered("resources/subscribe", "alpha"))
			r.seen("the level", answered("logging/setLevel", "error"))
			// Events may be lost: the host looks again.
			if _, err := r.host.WaitNotification(r.step(), "notifications/resources/updated"); err != nil {
				t.Error(err)
			}
			if n := up.Ledger().EffectsOf("write_note", "n"); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
			if n := r.count("initialize"); n != 1 {
				t.Errorf("%d new sessions, want 1", n)
			}
		})
	}
}

// TestGETStreams: reopened slowly, given up where there is none, and not asked
// for where nothing could come.
func TestGETStreams(t *testing.T) {
	t.Parallel()
	for fault, most := range map[string]int{"get-405": 1, "no-get": 1, "get-200-text": 1, "get-close-at-once": 3, "get-close-at-once:comment": 3, "get-close-at-once:retry0": 3} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			up := faulty(t, bridgetest.Options{Era: bridgetest.Legacy}, fault)
			r := start(t, up, rigOptions{version: v2511})
			r.ok(r.tool("now", "{}"))
			r.seen("GET", func(e bridgetest.Entry) bool { return e.HTTP == http.MethodGet })
			ctx, cancel := context.WithTimeout(r.ctx, 4*time.Second)
			defer cancel()
			_ = up.Ledger().Wait(ctx, func(v *bridgetest.View) bool { return len(v.HTTP(http.MethodGet)) > most }) // must not come true
			if n := len(up.Ledger().HTTP(http.MethodGet)); n > most {
				t.Errorf("%d times GET in 4 s, want at most %d", n, most)
			}
			r.ok(r.tool("now", "{}"))
		})
	}
	t.Run("nothing could come", func(t *testing.T) {
		t.Parallel()
		s := startStub(t, func(_ *stub, w http.ResponseWriter, _ *http.Request, m request) bool {
			if m.Method == "tools/call" {
				result(w, m, `{"content":[]}`)
				return true
			}
			return legacyStub(w, m)
		})
		r := start(t, nil, rigOptions{version: v2511, url: s.URL})
		r.ok(r.tool("act", "{}"))
		r.ok(r.tool("act", "{}"))
		if n := s.gets(); n > 0 {
			t.Errorf("%d times GET", n)
		}
	})
}
