package hostside

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// reprobe is the least time between two probes that contradicting answers cause.
const reprobe = 10 * time.Second

// era is what a state directory remembers of the one server it knows.
func era(t testing.TB, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "eras", "*"))
	if err != nil || len(files) == 0 {
		return ""
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// count is how many requests with a method arrived.
func count(up *bridgetest.Upstream, method string) int { return len(up.Ledger().Requests(method)) }

// An era is remembered across processes: a legacy server is probed once in all,
// a modern one never asked to shake hands.
func TestEraIsRemembered(t *testing.T) {
	t.Parallel()
	for _, of := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		up := startUpstream(t, bridgetest.Options{Era: of})
		r := start(t, up, setup{version: v2511})
		r.echo("1")
		for range 2 {
			r.restart()
			r.echo("again")
		}
		probes, handshakes := count(up, "server/discover"), count(up, "initialize")
		switch {
		case era(t, r.dir) != of.String():
			t.Errorf("remembered as %q, not %v", era(t, r.dir), of)
		case of == bridgetest.Legacy && (probes != 1 || handshakes != 3):
			t.Errorf("legacy: %d probes and %d handshakes by 3 processes", probes, handshakes)
		case of == bridgetest.Modern && (probes != 3 || handshakes != 0): // what it can do comes with the probe
			t.Errorf("modern: %d probes and %d handshakes by 3 processes", probes, handshakes)
		}
	}
}

// A server that speaks another era in the next process is found out by that one.
func TestEraChangesBetweenProcesses(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]bridgetest.Era{{bridgetest.Legacy, bridgetest.Modern}, {bridgetest.Modern, bridgetest.Legacy}} {
		before, after := startUpstream(t, bridgetest.Options{Era: pair[0]}), startUpstream(t, bridgetest.Options{Era: pair[1]})
		door, url := startDoor(t, before)
		for _, version := range []string{v2511, modern} {
			door.SetTarget(address(before.URL()))
			r := start(t, before, setup{version: version, url: url})
			r.echo("before")
			r.quit()
			door.SetTarget(address(after.URL()))
			after.Ledger().Reset()
			r.launch()
			r.echo("after")
			if got := era(t, r.dir); got != pair[1].String() {
				t.Errorf("%v to %v: remembered as %q", pair[0], pair[1], got)
			}
			r.restart()
			r.echo("and on")
			if n := count(after, "initialize"); pair[1] == bridgetest.Modern && n > 1 {
				t.Errorf("%d handshakes with a server that is modern now", n)
			}
			if n := count(after, "server/discover"); pair[1] == bridgetest.Legacy && n > 1 {
				t.Errorf("%d probes of a server that is legacy now", n)
			}
		}
	}
}

// A server that speaks another era while the process runs is found out by the
// bridge's own requests, without a probe for each call.
func TestEraChangesDuringProcess(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]bridgetest.Era{{bridgetest.Legacy, bridgetest.Modern}, {bridgetest.Modern, bridgetest.Legacy}} {
		t.Run(pair[0].String()+" to "+pair[1].String(), func(t *testing.T) {
			t.Parallel()
			before := startUpstream(t, bridgetest.Options{Era: pair[0], TTL: time.Millisecond})
			after := startUpstream(t, bridgetest.Options{Era: pair[1], TTL: time.Millisecond, Authorize: tellsVersions(pair[1])})
			door, url := startDoor(t, before)
			r := start(t, before, setup{version: v2511, url: url})
			r.knowTools()
			r.echo("before")
			door.SetTarget(address(after.URL()))
			door.Drop()
			changed := time.Now()
			for {
				if got := r.tool("echo", `{"text":"after"}`); got.Text() == "after" {
					break
				}
				r.names() // the host looks again, and the bridge with it
				if r.ctx.Err() != nil || time.Since(changed) > 3*reprobe {
					t.Fatalf("never found out: %d requests\n%.2000s", len(after.Ledger().Entries()), r.host.Stderr())
				}
				pause(r, 100*time.Millisecond)
			}
			t.Logf("found out after %v", time.Since(changed))
			limit := 1 + int(time.Since(changed)/reprobe) + 1
			if n := count(after, "server/discover"); n > limit {
				t.Errorf("%d probes in %v", n, time.Since(changed))
			}
			if got := era(t, r.dir); got != pair[1].String() {
				t.Errorf("remembered as %q", got)
			}
		})
	}
}

// tellsVersions lets a modern server say -32022 to older revisions, as 2026-07-28
// wants it (versioning, "Protocol Version Negotiation").
func tellsVersions(era bridgetest.Era) func(http.ResponseWriter, *http.Request) bool {
	if era != bridgetest.Modern {
		return nil
	}
	return func(w http.ResponseWriter, r *http.Request) bool {
		if v := r.Header.Get("MCP-Protocol-Version"); r.Method != http.MethodPost || v == "" || v >= modern {
			return true
		}
		var m struct{ ID json.RawMessage }
		if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
			m.ID = json.RawMessage("null")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"]}}}`, m.ID)
		return false
	}
}

// pause lets time pass for the process, not for a condition of the test.
func pause(r *rig, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ctx.Done():
	}
}

// Every answer of old servers to the probe leads to a working session, the first
// request is never a tools/call, and what decides nothing is not remembered.
func TestEveryAnswerToProbe(t *testing.T) {
	t.Parallel()
	kinds := map[string]bool{ // whether it says that the server is legacy
		"-32601": true, "-32602": true, "-32600": true, "-32603": true, "-32000": true, "400-text": true, "404": true, "405": true, "406": true,
		"500": false, "close": false, "silent": false,
	}
	for kind, says := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t, bridgetest.Options{})
			if err := up.SetFault("discover:" + kind); err != nil {
				t.Fatal(err)
			}
			r := start(t, up, setup{})
			r.echo("no handshake of the host's") // its first line is a tools/call
			r.shakeHands(v2506)
			r.echo("after one")
			if first := up.Ledger().Entries()[0].Method; first != "server/discover" {
				t.Errorf("the first request is %s", first)
			}
			for _, e := range up.Ledger().Requests("tools/call") {
				if e.Session == "" {
					t.Errorf("a call without a session: %s", e.Body)
				}
			}
			if got := era(t, r.dir); (got == "legacy") != says || got == "modern" {
				t.Errorf("remembered as %q", got)
			}
		})
	}
}

// Refusals that say nothing about the era are not remembered, and do not keep a
// server from being found out later.
func TestUndecidedProbe(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"401@*", "status:403@*", "status:429@*", "status:503@*", "html:502@*"} {
		up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern})
		if err := up.SetFault(fault); err != nil {
			t.Fatal(err)
		}
		r := start(t, up, setup{version: v2506})
		if got := r.tool("echo", `{"text":"x"}`); !got.IsError() {
			t.Errorf("%s: %s", fault, got.Raw)
		}
		if got := era(t, r.dir); got != "" {
			t.Errorf("%s: remembered as %q", fault, got)
		}
		if n := up.Ledger().Deliveries("echo"); n != 0 {
			t.Errorf("%s: %d calls were sent before the era was known", fault, n)
		}
		if err := up.SetFault(); err != nil {
			t.Fatal(err)
		}
		r.echo("now")
		if got := era(t, r.dir); got != "modern" {
			t.Errorf("%s: later remembered as %q", fault, got)
		}
	}
}

// sessionShapes are the ways in which servers say that a session is gone.
func sessionShapes() []string { return []string{"session-lost", "session-400", "session-503"} }

// A session that was lost is made anew once for all who meet the loss, and each
// of their calls is executed once.
func TestSessionLostUnderManyCalls(t *testing.T) {
	t.Parallel()
	const calls = 20
	for _, shape := range sessionShapes() {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
			r := start(t, up, setup{version: v2511})
			r.knowTools()
			r.echo("before")
			if err := up.SetFault(shape + "@write_notex1"); err != nil {
				t.Fatal(err)
			}
			up.Ledger().Reset()
			key := func(i int) string { return "k" + string(rune('a'+i)) }
			for i := range calls {
				if err := r.host.Request(`"`+key(i)+`"`, "tools/call", bridgetest.ToolParams("write_note", `{"key":"`+key(i)+`"}`)); err != nil {
					t.Fatal(err)
				}
			}
			for i := range calls {
				got, n := r.answerTo(`"`+key(i)+`"`), up.Ledger().EffectsOf("write_note", key(i))
				// A bare 503 says nothing about sessions, and nothing about the call.
				if shape == "session-503" && strings.HasPrefix(got.Text(), "OUTCOME UNKNOWN") && n == 0 {
					continue
				}
				if got.Text() != "wrote "+key(i) {
					t.Errorf("call %d: %s", i, got.Raw)
				}
				if n != 1 {
					t.Errorf("call %d was executed %d times", i, n)
				}
			}
			if got := r.tool("write_note", `{"key":"later"}`); got.Text() != "wrote later" {
				t.Errorf("a later call: %s", got.Raw)
			}
			if n := count(up, "initialize"); n != 1 {
				t.Errorf("%d handshakes for one loss", n)
			}
			r.quit()
			if n := len(up.Ledger().HTTP(http.MethodDelete)); n != 1 {
				t.Errorf("%d sessions were ended in the end, want the one that stood", n)
			}
		})
	}
}

// An answer that breaks off after an event is resumed from there: reads and
// writes alike, the call once, no event twice.
func TestResumption(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"stream", "stream_write"} {
		up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy, Retry: 20 * time.Millisecond})
		r := start(t, up, setup{version: v2511})
		r.knowTools()
		if err := up.SetFault("stream-cut-after:2@" + tool + "x1"); err != nil {
			t.Fatal(err)
		}
		params := `{"name":"` + tool + `","arguments":{"key":"k","n":6,"interval":30},"_meta":{"progressToken":"t"}}`
		if got := r.request("tools/call", params); got.IsError() || got.Error != nil || got.Text() == "" {
			t.Errorf("%s: %s", tool, got.Raw)
		}
		if got := progressOf(r, `"t"`); len(got) != 6 || got[5] != 6 {
			t.Errorf("%s: progress %v", tool, got)
		}
		if n := up.Ledger().Deliveries(tool); n != 1 {
			t.Errorf("%s was delivered %d times", tool, n)
		}
		resumed := 0
		for _, e := range up.Ledger().HTTP(http.MethodGet) {
			if e.Header.Get("Last-Event-ID") != "" {
				resumed++
			}
		}
		if resumed == 0 {
			t.Errorf("%s: the answer came without being resumed", tool)
		}
	}
}

// gets are the GETs that opened, or tried to open, the stream of a session.
func gets(v *bridgetest.View) []bridgetest.Entry { return v.HTTP(http.MethodGet) }

// A server without a GET stream is asked once, in whichever way it says so.
func TestGETStreamRefused(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"get-405", "no-get", "get-200-text"} {
		up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
		if err := up.SetFault(fault); err != nil {
			t.Fatal(err)
		}
		r := start(t, up, setup{version: v2511})
		r.knowTools()
		r.ledger(func(v *bridgetest.View) bool { return len(gets(v)) > 0 && gets(v)[0].Status != 0 })
		pause(r, 1500*time.Millisecond) // longer than the first pause before a stream is opened again
		r.echo("on")
		if n := len(up.Ledger().HTTP(http.MethodGet)); n != 1 {
			t.Errorf("%s: asked %d times", fault, n)
		}
	}
}

// A GET stream that ends at once is opened again after pauses that grow, and the
// host is told that it may have missed something; one that hangs holds nothing up.
func TestGETStreamThatEnds(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"get-close-at-once", "get-close-at-once:comment", "get-close-at-once:retry0"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
			if err := up.SetFault(fault); err != nil {
				t.Fatal(err)
			}
			r := start(t, up, setup{version: v2511})
			r.ledger(func(v *bridgetest.View) bool { return len(gets(v)) >= 3 })
			opened := up.Ledger().HTTP(http.MethodGet)
			at := func(i int) time.Time { return opened[i].Events[0].At }
			if first, second := at(1).Sub(at(0)), at(2).Sub(at(1)); first < time.Second || second < 2*time.Second {
				t.Errorf("opened again after %v and %v", first, second)
			}
			if _, err := r.host.WaitNotification(r.ctx, "notifications/prompts/list_changed"); err != nil {
				t.Error(err)
			}
			r.echo("on")
		})
	}
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
	if err := up.SetFault("get-hang"); err != nil {
		t.Fatal(err)
	}
	r := start(t, up, setup{version: v2511})
	r.echo("while the GET hangs")
	if n := len(up.Ledger().HTTP(http.MethodGet)); n > 1 {
		t.Errorf("%d GETs at once", n)
	}
}

// The stream is opened after the session stands, notices come over it, and the
// session is ended in the end.
func TestGETStreamCarriesNotices(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
	r := start(t, up, setup{version: v2511})
	r.knowTools()
	if err := up.WaitListeners(r.ctx, 1); err != nil {
		t.Fatal(err)
	}
	ready := false
	for _, e := range up.Ledger().Entries() {
		ready = ready || e.Method == "notifications/initialized" && e.Has(bridgetest.MarkReply)
		if e.HTTP == http.MethodGet && (!ready || e.Session == "") {
			t.Errorf("a GET before the session stood: session %q", e.Session)
		}
	}
	up.Notify("notifications/resources/updated", map[string]any{"uri": "test://items/alpha"})
	up.AddTool(bridgetest.Tool{Name: "newcomer", Description: "New."})
	if _, err := r.host.WaitNotification(r.ctx, "notifications/tools/list_changed"); err != nil {
		t.Fatal(err)
	}
	if got := r.request("tools/list", "{}"); !strings.Contains(string(got.Result), "newcomer") {
		t.Error("the new tool is not listed")
	}
	r.quit()
	if up.Sessions() != 0 || len(up.Ledger().HTTP(http.MethodDelete)) != 1 {
		t.Errorf("%d sessions are left after %d DELETEs", up.Sessions(), len(up.Ledger().HTTP(http.MethodDelete)))
	}
}
