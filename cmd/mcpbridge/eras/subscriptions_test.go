package eras

import (
	"net/http"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// about accepts notifications with the method for a listen.
func about(method, id string) func(bridgetest.HostMessage) bool {
	return func(m bridgetest.HostMessage) bool {
		return m.Method == method && rawAt(m.Params, "_meta", subscriptionID) == id
	}
}

const (
	toolsChanged   = "notifications/tools/list_changed"
	promptsChanged = "notifications/prompts/list_changed"
	updated        = "notifications/resources/updated"
)

func bothEras() []bridgetest.Era { return []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} }

// TestListensWithFiltersOfTheirOwn: each gets what it asked for under its own id,
// byte for byte.
func TestListensWithFiltersOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, era := range bothEras() {
		r := start(t, startUpstream(t, bridgetest.Options{Era: era}), rigOptions{version: modern})
		r.ok(r.tool("now", "{}"))
		const prompts, items, both = `"\u0070"`, `7`, `"both"`
		ack := r.listen(prompts, `{"promptsListChanged":true}`)
		if got := rawAt(ack.Params, "notifications"); got != `{"promptsListChanged":true}` {
			t.Errorf("%s: acknowledged %s", era, got)
		}
		r.listen(items, `{"resourceSubscriptions":["test://items/a"]}`)
		r.listen(both, `{"promptsListChanged":true,"resourceSubscriptions":["test://items/a","test://items/b"]}`)
		for _, id := range []string{prompts, both} {
			r.untilHeard("prompts for "+id, func() { r.up.Notify(promptsChanged, nil) }, about(promptsChanged, id))
		}
		for _, id := range []string{items, both} {
			r.untilHeard("a for "+id, func() { r.up.SetItem("a", "1") }, about(updated, id))
		}
		r.untilHeard("b", func() { r.up.SetItem("b", "1") }, func(m bridgetest.HostMessage) bool {
			return about(updated, both)(m) && at(m.Params, "uri") == "test://items/b"
		})
		odd := r.host.Notifications(func(m bridgetest.HostMessage) bool {
			id := rawAt(m.Params, "_meta", subscriptionID)
			return id == prompts && m.Method == updated || id == items && (m.Method == promptsChanged || at(m.Params, "uri") == "test://items/b")
		})
		if len(odd) > 0 {
			t.Errorf("%s: not asked for: %v", era, odd)
		}
	}
}

// TestNoticeAtOnce: what the server says in the moment in which it begins to tell
// is told, behind the acknowledgment.
func TestNoticeAtOnce(t *testing.T) {
	t.Parallel()
	s := startStub(t, func(_ *stub, w http.ResponseWriter, r *http.Request, m request) bool {
		if m.Method != "subscriptions/listen" {
			return false
		}
		tag := `"_meta":{"` + subscriptionID + `":` + string(m.ID) + `}`
		events(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+tag+`,"notifications":{"toolsListChanged":true}}}`,
			`{"jsonrpc":"2.0","method":"`+updated+`","params":{`+tag+`,"uri":"test://x"}}`)
		<-r.Context().Done()
		return true
	})
	for _, v := range []string{v2511, modern} {
		r := start(t, nil, rigOptions{version: v, url: s.URL})
		r.ok(r.tool("mcpbridge_job", "{}"))
		if v == modern {
			r.listen(`"l"`, `{"resourceSubscriptions":["test://x"]}`)
			r.notice(updated, `"l"`)
			continue
		}
		r.ok(r.call("resources/subscribe", `{"uri":"test://x"}`))
		if _, err := r.host.WaitNotification(r.step(), updated); err != nil {
			t.Error(err)
		}
	}
}

// TestListenNamesWhatCanBeKept: no more than the server offers.
func TestListenNamesWhatCanBeKept(t *testing.T) {
	t.Parallel()
	s := startStub(t, func(_ *stub, w http.ResponseWriter, _ *http.Request, m request) bool { return legacyStub(w, m) })
	r := start(t, nil, rigOptions{version: modern, url: s.URL})
	ack := r.listen(`"l1"`, `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["test://x"]}`)
	if got := rawAt(ack.Params, "notifications"); got != `{"toolsListChanged":true}` {
		t.Errorf("acknowledged %s", got)
	}
	bad := r.call("subscriptions/listen", `{"notifications":7}`)
	if bad.Error == nil || bad.Error.Code != -32602 {
		t.Errorf("no filter: %s", bad.Raw)
	}
}

// TestServerDropsTheListen: the host's goes on, and is told once of what it may
// have missed, after the new one stands.
func TestServerDropsTheListen(t *testing.T) {
	t.Parallel()
	for _, drop := range []struct {
		name string
		do   func(*bridgetest.Upstream)
	}{
		{"streams cut", (*bridgetest.Upstream).DropStreams}, {"ended in order", (*bridgetest.Upstream).EndListens}, {"restart", (*bridgetest.Upstream).Restart},
	} {
		for _, p := range []pair{{modern, bridgetest.Modern}, {modern, bridgetest.Legacy}, {v2511, bridgetest.Modern}, {v2511, bridgetest.Legacy}} {
			if drop.name == "ended in order" && p.era == bridgetest.Legacy {
				continue
			}
			t.Run(drop.name+", "+p.String(), func(t *testing.T) {
				t.Parallel()
				r := start(t, startUpstream(t, bridgetest.Options{Era: p.era}), rigOptions{version: p.version})
				r.ok(r.tool("now", "{}"))
				const id, uri = `"l"`, "test://items/alpha"
				mine := func(m bridgetest.HostMessage) bool { return m.Method == updated && at(m.Params, "uri") == uri }
				if r.modern() {
					r.listen(id, `{"resourceSubscriptions":["`+uri+`"]}`)
				} else {
					r.ok(r.call("resources/subscribe", `{"uri":"`+uri+`"}`))
				}
				r.untilHeard("a first update", func() { r.up.SetItem("alpha", "1") }, mine)
				before := len(r.host.Notifications(mine))
				drop.do(r.up)
				if p.era == bridgetest.Legacy && drop.name == "restart" {
					r.ok(r.tool("now", "{}")) // a lost session is noticed by using it
				}
				// The one notice that something may have been missed, and then news again.
				r.untilMore("the gap", before, mine, func() {})
				r.untilMore("an update", len(r.host.Notifications(mine)), mine, func() { r.up.SetItem("alpha", "2") })
				if r.modern() && len(r.host.Replies(id)) > 0 {
					t.Errorf("the host's listen was ended: %s", r.host.Replies(id)[0].Raw)
				}
			})
		}
	}
}

// untilMore does something until the host has more notifications of a kind than
// it had before.
func (r *rig) untilMore(what string, before int, kind func(bridgetest.HostMessage) bool, do func()) {
	r.t.Helper()
	for range 100 {
		do()
		r.moment()
		if len(r.host.Notifications(kind)) > before {
			return
		}
	}
	r.t.Fatalf("the host never heard of %s\n%s", what, r.host.Stderr())
}

// TestListenEndsWithTheBridge: in order, by a result with its id.
func TestListenEndsWithTheBridge(t *testing.T) {
	t.Parallel()
	r := start(t, startUpstream(t, bridgetest.Options{Era: bridgetest.Modern}), rigOptions{version: modern})
	r.listen(`"end"`, `{"toolsListChanged":true}`)
	if err := r.host.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	got, err := r.host.WaitReply(r.step(), `"end"`)
	if err != nil || rawAt(got.Result, "_meta", subscriptionID) != `"end"` || at(got.Result, "resultType") != "complete" {
		t.Errorf("end of the listen: %s %v", got.Raw, err)
	}
}

// TestServerWithoutListen: lived without, and not asked again and again.
func TestServerWithoutListen(t *testing.T) {
	t.Parallel()
	s := startStub(t, func(_ *stub, w http.ResponseWriter, _ *http.Request, m request) bool {
		if m.Method == "subscriptions/listen" {
			w.WriteHeader(http.StatusNotFound)
			fail(w, m, -32601)
		}
		return m.Method == "subscriptions/listen"
	})
	r := start(t, nil, rigOptions{version: v2511, url: s.URL})
	r.ok(r.call("tools/list", ""))
	if err := r.host.WaitStderr(r.step(), "subscriptions/listen"); err != nil {
		t.Fatal(err)
	}
	r.ok(r.call("resources/subscribe", `{"uri":"test://x"}`))
	r.ok(r.call("ping", ""))
	if n := len(s.requests("subscriptions/listen")); n != 1 {
		t.Errorf("%d times subscriptions/listen, want 1", n)
	}
}

// TestAskedBeforeTheServerWasThere: level and subscriptions reach it all the same.
func TestAskedBeforeTheServerWasThere(t *testing.T) {
	t.Parallel()
	for _, v := range []string{v2511, modern} {
		first := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
		address := first.URL()
		first.Close()
		r := start(t, nil, rigOptions{version: v, url: address})
		const uri = "test://items/alpha"
		if v == modern {
			r.listen(`"l1"`, `{"resourceSubscriptions":["`+uri+`"]}`)
		} else {
			r.ok(r.call("logging/setLevel", `{"level":"error"}`))
			r.ok(r.call("resources/subscribe", `{"uri":"`+uri+`"}`))
		}
		r.up = startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy, Listen: address[len("http://") : len(address)-len("/mcp")]})
		r.tool("now", "{}")
		r.seen("resources/subscribe", answered("resources/subscribe", uri))
		if v != modern {
			r.seen("logging/setLevel", answered("logging/setLevel", "error"))
		}
	}
}

// TestNoticeOfTheSameList: the server's word passes, whatever the list says.
func TestNoticeOfTheSameList(t *testing.T) {
	t.Parallel()
	for _, p := range pairs() {
		r := start(t, startUpstream(t, bridgetest.Options{Era: p.era}), rigOptions{version: p.version})
		r.ok(r.call("tools/list", ""))
		const id = `"same"`
		mine := func(m bridgetest.HostMessage) bool { return m.Method == toolsChanged }
		if r.modern() {
			r.listen(id, `{"toolsListChanged":true}`)
			mine = about(toolsChanged, id)
		}
		if err := r.up.WaitListeners(r.step(), 1); err != nil {
			t.Fatal(err)
		}
		r.untilHeard("a change that is none", func() { r.up.Notify(toolsChanged, nil) }, mine)
	}
}
