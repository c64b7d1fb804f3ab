package main

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// Two bridges of one user that need a sign-in at once open one window between
// them, and both go on.
func TestOneWindow(t *testing.T) {
	p := protect(t, authtest.Quirks{}, bridgetest.Options{})
	hosts := []*bridgetest.Host{p.bridge(p.absent()), p.bridge(p.absent())}
	answers := make(chan bridgetest.Reply, len(hosts))
	for _, host := range hosts {
		go func() {
			r, _ := host.CallTool(p.ctx, "echo", `{"text":"hello"}`)
			answers <- r
		}()
	}
	p.visit(p.waitOpened())
	for range hosts {
		if r := <-answers; r.IsError() || !strings.Contains(r.Text(), "hello") {
			t.Errorf("%s", r.Raw)
		}
	}
	if l := p.auth.Ledger(); len(p.opened()) != 1 || l.Codes != 1 || l.Registrations != 1 {
		t.Errorf("pages %q, %d codes, %d registrations", p.opened(), l.Codes, l.Registrations)
	}
}

// The bridge that opened the window goes, however hosts end one; the page that the
// person still sees leads to the other one.
func TestSignInTakenOver(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		end  func(*bridgetest.Host) error
	}{
		"killed":                {[]string{"--linger=0"}, func(h *bridgetest.Host) error { h.Kill(); return nil }},
		"killed, with a worker": {nil, func(h *bridgetest.Host) error { h.Kill(); return nil }},
		"closed":                {nil, (*bridgetest.Host).CloseStdin},
		"signalled":             {nil, func(h *bridgetest.Host) error { return h.Signal(os.Interrupt) }},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "signalled" && runtime.GOOS == "windows" {
				t.Skip("Windows has no signals to send")
			}
			p := protect(t, authtest.Quirks{}, bridgetest.Options{})
			first := p.bridge(p.absent(), c.args...)
			if err := first.Request(first.NextID(), "tools/call", bridgetest.ToolParams("echo", `{"text":"first"}`)); err != nil {
				t.Fatal(err)
			}
			page := p.waitOpened()
			second := p.bridge(p.absent(), "--linger=0")
			id := second.NextID()
			if err := second.Request(id, "tools/call", bridgetest.ToolParams("echo", `{"text":"second"}`)); err != nil {
				t.Fatal(err)
			}
			if err := c.end(first); err != nil {
				t.Fatal(err)
			}
			gone := time.Now()
			for { // until the callback is bound again
				if status, err := authtest.Visit(page); err == nil && status == 200 {
					break
				}
				if time.Since(gone) > 5*time.Second {
					t.Fatal("nobody took the sign-in over")
				}
			}
			r, err := second.WaitReply(p.ctx, id)
			if err != nil || r.IsError() || !strings.Contains(r.Text(), "second") {
				t.Errorf("%s, %v", r.Raw, err)
			}
			if took := time.Since(gone); took > 5*time.Second || len(p.opened()) != 1 {
				t.Errorf("after %v; pages %q", took, p.opened())
			}
		})
	}
}

// A sign-in on the command line reaches a bridge that runs: its host is told of
// the tools without having asked again.
func TestLoginReachesBridge(t *testing.T) {
	p := protect(t, authtest.Quirks{}, bridgetest.Options{})
	host := p.bridge(nil)
	if list := p.list(host); strings.Contains(list, `"echo"`) {
		t.Fatalf("%s", list)
	}
	if code, out, errs := p.run(p.env, nil, p.account("login")...); code != exitOK || !strings.Contains(out, "Signed in to crm") {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	signedIn := time.Now()
	if _, err := host.WaitNotification(p.ctx, "notifications/tools/list_changed"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(signedIn); took > 5*time.Second {
		t.Errorf("the host was told after %v", took)
	}
	if !strings.Contains(p.list(host), `"echo"`) {
		t.Error("the list has no tools")
	}
	p.echoes(host)
}
