package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// A token that ends in the middle of a session costs one further delivery and no
// page, reads and writes alike.
func TestRenewedInSession(t *testing.T) {
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			p := protect(t, authtest.Quirks{}, bridgetest.Options{Era: era, NoGETStream: true})
			host := p.bridge(p.env)
			p.list(host)
			p.echoes(host)
			if _, err := host.WaitNotification(p.ctx, "notifications/tools/list_changed"); err != nil {
				t.Fatal(err)
			}
			p.quiet()
			before := p.auth.Ledger()
			p.auth.ExpireAccess()
			if r := p.call(host, "write_note", `{"key":"a","text":"b"}`); r.IsError() {
				t.Fatalf("%s", r.Raw)
			}
			after := p.auth.Ledger()
			if refused, renewed := after.Refused-before.Refused, after.Refreshes-before.Refreshes; refused != 1 || renewed != 1 {
				t.Errorf("%d refusals and %d renewals, want one of each", refused, renewed)
			}
			if n := p.up.Ledger().Effects("write_note"); n != 1 || len(p.opened()) != 1 || after.Reused != 0 {
				t.Errorf("%d effects, pages %q, %d tokens used twice", n, p.opened(), after.Reused)
			}
		})
	}
}

// quiet waits until the bridge asks nothing more by itself.
func (p *protected) quiet() {
	p.t.Helper()
	for {
		before := p.auth.Ledger()
		timer := time.NewTimer(300 * time.Millisecond)
		select {
		case <-timer.C:
		case <-p.ctx.Done():
			p.t.Fatal("the bridge does not come to rest")
		}
		if after := p.auth.Ledger(); after.Calls == before.Calls && after.Refused == before.Refused {
			return
		}
	}
}

// A refresh token that the server revoked leads to one new page, in the running
// process.
func TestSignInAgain(t *testing.T) {
	p := protect(t, authtest.Quirks{Subject: "ann"}, bridgetest.Options{})
	host := p.bridge(p.env)
	p.echoes(host)
	_, before, _ := p.run(nil, nil, p.account("whoami", "--json")...)
	p.auth.RevokeRefresh()
	p.auth.ExpireAccess()
	p.echoes(host)
	_, after, _ := p.run(nil, nil, p.account("whoami", "--json")...)
	if n := len(p.opened()); n != 2 {
		t.Errorf("%d pages, want 2", n)
	}
	if principalIn(before) == "" || principalIn(before) != principalIn(after) {
		t.Errorf("the account changed: %s, then %s", before, after)
	}
}

func principalIn(report string) string {
	_, rest, _ := strings.Cut(report, `"principal":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// A call that needs a further scope gets it once; what was there before stays.
func TestStepUp(t *testing.T) {
	p := protect(t, authtest.Quirks{}, bridgetest.Options{})
	p.need = func(tool string) string {
		if tool == "write_note" {
			return "write"
		}
		return "read"
	}
	host := p.bridge(p.env)
	p.echoes(host)
	if r := p.call(host, "write_note", `{"key":"a","text":"b"}`); r.IsError() {
		t.Fatalf("%s", r.Raw)
	}
	p.echoes(host)
	asked := p.auth.Ledger().Requested
	if last := asked[len(asked)-1].Get("scope"); !strings.Contains(last, "read") || !strings.Contains(last, "write") {
		t.Errorf("asked for %q, want both scopes", last)
	}
	if n := p.up.Ledger().Effects("write_note"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// A server that refuses whatever it is given ends in one answer and no loop.
func TestStepUpWithoutEnd(t *testing.T) {
	p := &protected{}
	var refused atomic.Int64
	p2 := protect(t, authtest.Quirks{}, bridgetest.Options{Authorize: func(w http.ResponseWriter, r *http.Request) bool {
		if !p.auth.Allow(w, r, "") {
			return false
		}
		if p.scope(r) == "" {
			return true
		}
		refused.Add(1)
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="gold"`)
		w.WriteHeader(http.StatusForbidden)
		return false
	}})
	*p = *p2
	p.need = func(string) string { return "gold" }
	host := p.bridge(p.env)
	r := p.call(host, "write_note", `{"key":"a","text":"b"}`)
	if !r.IsError() || !strings.HasPrefix(r.Text(), "FAILED") || !strings.Contains(r.Text(), "nothing was executed") {
		t.Errorf("%s", r.Raw)
	}
	if n, pages := refused.Load(), len(p.opened()); n != 2 || pages != 2 {
		t.Errorf("%d refused deliveries and %d pages, want 2 and 2", n, pages)
	}
}

// A plain 403 is an answer: no page, no further delivery.
func TestForbidden(t *testing.T) {
	var calls atomic.Int64
	p := protect(t, authtest.Quirks{}, bridgetest.Options{Authorize: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Mcp-Name") != "write_note" {
			return true
		}
		calls.Add(1)
		w.WriteHeader(http.StatusForbidden)
		return false
	}})
	host := p.bridge(p.env)
	if r := p.call(host, "write_note", `{"key":"a","text":"b"}`); !r.IsError() || !strings.HasPrefix(r.Text(), "FAILED") {
		t.Errorf("%s", r.Raw)
	}
	if n := calls.Load(); n != 1 || p.opened() != nil {
		t.Errorf("%d deliveries, pages %q", n, p.opened())
	}
}

// A guard that refuses the unknown method server/discover, with no word of a
// token, hides a server that needs none.
func TestGuardedDiscover(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			p := protect(t, authtest.Quirks{}, bridgetest.Options{Era: bridgetest.Legacy, Authorize: func(w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Mcp-Method") != "server/discover" {
					return true
				}
				w.WriteHeader(status)
				return false
			}})
			p.echoes(p.bridge(p.env))
			if p.opened() != nil {
				t.Errorf("pages %q", p.opened())
			}
		})
	}
}

// Nothing that was presented follows a redirect to another origin.
func TestForeignRedirect(t *testing.T) {
	var asked atomic.Int64
	foreign := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer foreign.Close()
	p := &protected{}
	var away atomic.Bool
	*p = *protect(t, authtest.Quirks{}, bridgetest.Options{Authorize: func(w http.ResponseWriter, r *http.Request) bool {
		if !p.auth.Allow(w, r, "") {
			return false
		}
		if !away.Load() {
			return true
		}
		http.Redirect(w, r, foreign.URL+"/mcp", http.StatusTemporaryRedirect)
		return false
	}})
	host := p.bridge(p.env, "--header=X-Api-Key: hunter2")
	p.echoes(host)
	away.Store(true)
	if r := p.call(host, "echo", `{"text":"hello"}`); !r.IsError() || !strings.Contains(r.Text(), "redirect") {
		t.Errorf("%s", r.Raw)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests reached the other origin", n)
	}
	for _, h := range p.auth.Ledger().Foreign {
		if h.Get("X-Api-Key") != "" {
			t.Errorf("a configured header went to the authorization server: %v", h)
		}
	}
}

// A call that the server refused for want of a sign-in is recorded for the account
// that makes it in the end; what it began as ends as not executed.
func TestRecordedForTheAccount(t *testing.T) {
	p := &protected{}
	*p = *protect(t, authtest.Quirks{}, bridgetest.Options{Authorize: func(w http.ResponseWriter, r *http.Request) bool {
		return p.scope(r) == "" || p.auth.Allow(w, r, "") // lists are for everybody
	}})
	p.need = func(string) string { return "any" }
	host := p.bridge(p.env)
	p.list(host)
	if !strings.Contains(p.list(host), `"write_note"`) {
		t.Fatal("the list is not public")
	}
	if r := p.call(host, "write_note", `{"key":"a","text":"b"}`); r.IsError() {
		t.Fatalf("%s", r.Raw)
	}
	var states []string
	for line := range strings.Lines(p.jobs()) {
		states = append(states, strings.SplitN(principalIn(line), "-", 2)[0]+" "+stateIn(line))
	}
	slices.Sort(states)
	if want := []string{"anonymous failed none", "oauth completed reported"}; !slices.Equal(states, want) {
		t.Errorf("recorded: %q, want %q", states, want)
	}
	if n := p.up.Ledger().Effects("write_note"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func stateIn(line string) string {
	_, state, _ := strings.Cut(line, `"state":"`)
	state, _, _ = strings.Cut(state, `"`)
	_, effect, _ := strings.Cut(line, `"effect":"`)
	effect, _, _ = strings.Cut(effect, `"`)
	return state + " " + effect
}

// A modern host is told on the listen that it asked on.
func TestSignInOfModernHost(t *testing.T) {
	p := protect(t, authtest.Quirks{}, bridgetest.Options{Era: bridgetest.Modern})
	host, _ := startBridge(t, p.env, "--state-dir="+p.dir, "--token-store=file", p.up.URL())
	if _, err := host.Discover(p.ctx); err != nil {
		t.Fatal(err)
	}
	p.list(host)
	if err := host.Request(host.NextID(), "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := host.WaitNotification(p.ctx, "notifications/subscriptions/acknowledged"); err != nil {
		t.Fatal(err)
	}
	p.echoes(host)
	if _, err := host.WaitNotification(p.ctx, "notifications/tools/list_changed"); err != nil {
		t.Error(err)
	}
	if !strings.Contains(p.list(host), `"echo"`) {
		t.Error("the list has no tools")
	}
}
