package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// Nothing that a host does by itself opens a browser; the first call does, waits
// for the person, and goes on. Then the host is told of the tools.
func TestSignInByCall(t *testing.T) {
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern, bridgetest.SSE} {
		t.Run(era.String(), func(t *testing.T) {
			p := protect(t, authtest.Quirks{}, bridgetest.Options{Era: era})
			host := p.bridge(p.env)
			list := p.list(host)
			if !strings.Contains(list, "starts the sign-in") || strings.Contains(list, `"echo"`) {
				t.Errorf("the list before the sign-in: %s", list)
			}
			if pages := p.opened(); pages != nil {
				t.Errorf("a page was opened before anybody called: %q", pages)
			}
			p.echoes(host)
			if _, err := host.WaitNotification(p.ctx, "notifications/tools/list_changed"); err != nil {
				t.Error(err)
			}
			if list := p.list(host); !strings.Contains(list, `"echo"`) || strings.Contains(list, "starts the sign-in") {
				t.Errorf("the list after the sign-in: %s", list)
			}
			if n := len(p.opened()); n != 1 || p.auth.Ledger().Codes != 1 {
				t.Errorf("%d pages, ledger %+v", n, p.auth.Ledger())
			}
			if n := p.up.Ledger().Deliveries("echo"); n != 1 {
				t.Errorf("%d deliveries of echo got past the server's guard", n)
			}
		})
	}
}

// A call of the bridge's own tools starts the sign-in as well.
func TestSignInByOwnTool(t *testing.T) {
	for _, tool := range []string{"mcpbridge_job", "mcpbridge_status"} {
		t.Run(tool, func(t *testing.T) {
			p := protect(t, authtest.Quirks{}, bridgetest.Options{})
			host := p.bridge(p.env)
			p.list(host)
			if r := p.call(host, tool, "{}"); r.IsError() || !strings.Contains(r.Text(), "is connected") {
				t.Errorf("%s", r.Raw)
			}
			if !strings.Contains(p.list(host), `"echo"`) || len(p.opened()) != 1 {
				t.Errorf("pages %q", p.opened())
			}
		})
	}
}

// The person does not come in time: the answer says where to sign in, and the
// exact command. Other requests say so at once. When the person comes, all goes
// on without another page.
func TestSignInNeeded(t *testing.T) {
	p := protect(t, authtest.Quirks{}, bridgetest.Options{})
	host := p.bridge(p.absent(), "--answer-within=1500ms", "--scope=notes read")
	p.list(host)
	r := p.call(host, "write_note", `{"key":"a","text":"b"}`)
	path, err := exec.LookPath("mcpbridge")
	if err != nil {
		t.Fatal(err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		t.Fatal(err)
	}
	command := path + " login '--scope=notes read' --token-store=file --server-id=crm --state-dir=" + p.dir + " " + p.up.URL()
	for _, want := range []string{"SIGN-IN NEEDED: server crm ", "nothing was executed", command} {
		if !strings.Contains(r.Text(), want) {
			t.Errorf("not in the answer: %q\n%s", want, r.Text())
		}
	}
	page := p.waitOpened()
	if !r.IsError() || pageIn(r.Text()) != page {
		t.Errorf("%s; opened was %s", r.Raw, page)
	}
	if r, err := host.Call(p.ctx, "resources/read", `{"uri":"a://b"}`); err != nil || r.Error == nil || r.Error.Code != -31005 {
		t.Errorf("another request: %s, %v", r.Raw, err)
	}
	p.visit(page)
	if _, err := host.WaitNotification(p.ctx, "notifications/tools/list_changed"); err != nil {
		t.Fatal(err)
	}
	if r := p.call(host, "write_note", `{"key":"a","text":"b"}`); r.IsError() {
		t.Errorf("after the sign-in: %s", r.Raw)
	}
	if n := p.up.Ledger().Effects("write_note"); n != 1 || len(p.opened()) != 1 {
		t.Errorf("%d effects, pages %q", n, p.opened())
	}
}

// Where no browser starts, nobody waits for one: the page is in the answer at
// once, and on standard error.
func TestNoBrowser(t *testing.T) {
	p := protect(t, authtest.Quirks{}, bridgetest.Options{})
	host := p.bridge([]string{"BROWSER=/nowhere/browser"})
	p.list(host)
	asked := time.Now()
	r := p.call(host, "echo", `{"text":"hello"}`)
	page := pageIn(r.Text())
	if page == "" || !strings.HasPrefix(r.Text(), "SIGN-IN NEEDED") || time.Since(asked) > 10*time.Second {
		t.Fatalf("after %v: %s", time.Since(asked), r.Raw)
	}
	if err := host.WaitStderr(p.ctx, "response_type=code"); err != nil {
		t.Errorf("the page is not on standard error: %v", err)
	}
	p.visit(page)
	if _, err := host.WaitNotification(p.ctx, "notifications/tools/list_changed"); err != nil {
		t.Error(err)
	}
	p.echoes(host)
}

// pageIn is the address of the sign-in page that a text names.
func pageIn(text string) string {
	for word := range strings.FieldsSeq(strings.NewReplacer("(", " ", ",", " ", ")", " ").Replace(text)) {
		if strings.HasPrefix(word, "http") && strings.Contains(word, "response_type=code") {
			return word
		}
	}
	return ""
}
