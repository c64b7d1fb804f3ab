package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// One account from the first sign-in to the last trace.
func TestLoginWhoamiLogout(t *testing.T) {
	p := protect(t, authtest.Quirks{Subject: "ann"}, bridgetest.Options{})
	code, out, errs := p.run(nil, nil, p.account("whoami")...)
	if code != exitSignIn || !strings.Contains(out, "not signed in") || !strings.Contains(errs, " login ") {
		t.Errorf("whoami before: exit code %d, %s%s", code, out, errs)
	}
	if code, out, errs = p.run(p.env, nil, p.account("login")...); code != exitOK {
		t.Fatalf("login: exit code %d, %s%s", code, out, errs)
	}
	code, out, errs = p.run(nil, nil, p.account("whoami", "--json")...)
	if code != exitOK || !strings.Contains(out, `"signedIn":true`) || !strings.HasPrefix(principalIn(out), "oauth-") {
		t.Errorf("whoami after: exit code %d, %s%s", code, out, errs)
	}
	who := principalIn(out)
	host := p.bridge(nil) // no browser: it has what it needs
	p.list(host)
	if r := p.call(host, "slow_write", `{"key":"a","ms":1}`); r.IsError() {
		t.Errorf("%s", r.Raw)
	}
	if jobs := p.jobs(); !strings.Contains(jobs, who) {
		t.Errorf("no call is recorded for account %s: %s", who, jobs)
	}
	host.Kill()
	if code, out, errs = p.run(nil, nil, p.account("logout")...); code != exitOK || !strings.Contains(p.jobs(), who) {
		t.Errorf("logout without --forget: exit code %d, %s%s", code, out, errs)
	}
	if code, out, errs = p.run(nil, nil, p.account("logout", "--forget")...); code != exitOK || !strings.Contains(out, "1 recorded calls") {
		t.Errorf("logout: exit code %d, %s%s", code, out, errs)
	}
	if p.auth.Ledger().Revoked != 1 {
		t.Error("the tokens were not revoked")
	}
	if jobs := p.jobs(); strings.Contains(jobs, who) {
		t.Errorf("calls are left: %s", jobs)
	}
	for _, kind := range []string{"catalogues", "auth/tokens", "auth/clients", "auth/servers", "auth/pending"} {
		if files := filesBelow(t, filepath.Join(p.dir, kind)); len(files) > 0 {
			t.Errorf("left of the account: %q", files)
		}
	}
	if code, _, _ := p.run(nil, nil, p.account("whoami")...); code != exitSignIn {
		t.Errorf("whoami at last: exit code %d", code)
	}
}

func (p *protected) jobs() string {
	_, out, _ := p.run(nil, nil, "jobs", "list", "--json", "--state-dir="+p.dir)
	return out
}

func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// After signing out a running bridge presents nothing any more.
func TestLogoutReachesBridge(t *testing.T) {
	p := protect(t, authtest.Quirks{}, bridgetest.Options{})
	host := p.bridge(p.env)
	p.list(host)
	p.echoes(host)
	if code, out, errs := p.run(nil, nil, p.account("logout")...); code != exitOK {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	before := p.auth.Ledger()
	p.echoes(host) // by a new sign-in
	if after := p.auth.Ledger(); len(p.opened()) != 2 || after.Registrations != before.Registrations {
		t.Errorf("pages %q; %d registrations, before %d", p.opened(), after.Registrations, before.Registrations)
	}
}

// Signing out ends the sign-in for which a bridge waits: the page leads nowhere,
// nothing is stored, and the next call begins a new one.
func TestLogoutEndsSignIn(t *testing.T) {
	p := protect(t, authtest.Quirks{}, bridgetest.Options{})
	host := p.bridge(p.absent())
	id := host.NextID()
	if err := host.Request(id, "tools/call", bridgetest.ToolParams("echo", `{"text":"hello"}`)); err != nil {
		t.Fatal(err)
	}
	page := p.waitOpened()
	if code, out, errs := p.run(nil, nil, p.account("logout")...); code != exitOK {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	r, err := host.WaitReply(p.ctx, id)
	if err != nil || !strings.HasPrefix(r.Text(), "SIGN-IN NEEDED") || !strings.Contains(r.Text(), "ended by signing out") {
		t.Errorf("the bridge that waited: %s, %v", r.Raw, err)
	}
	if status, err := authtest.Visit(page); err == nil && status == http.StatusOK {
		t.Error("the page still leads to somebody")
	}
	if files := filesBelow(t, filepath.Join(p.dir, "auth", "tokens")); len(files) > 0 || p.auth.Ledger().Codes != 0 {
		t.Errorf("stored: %q, %d codes", files, p.auth.Ledger().Codes)
	}
	if code, out, errs := p.run(p.env, nil, p.account("login")...); code != exitOK {
		t.Errorf("login after that: exit code %d, %s%s", code, out, errs)
	}
	p.echoes(host)
}

// Without a browser here the address that a browser elsewhere ended at is pasted,
// also into another process than the one that waits.
func TestLoginByPaste(t *testing.T) {
	p := protect(t, authtest.Quirks{}, bridgetest.Options{})
	host := p.bridge(p.absent())
	id := host.NextID()
	if err := host.Request(id, "tools/call", bridgetest.ToolParams("echo", `{"text":"hello"}`)); err != nil {
		t.Fatal(err)
	}
	page := p.waitOpened()
	address := p.redirectOf(page)
	code, out, errs := p.run(nil, strings.NewReader("nonsense\n"+address+"\n"), p.account("login", "--no-browser")...)
	if code != exitOK || !strings.Contains(out, "Signed in") || !strings.Contains(errs, "mcpbridge: ") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	if r, err := host.WaitReply(p.ctx, id); err != nil || r.IsError() {
		t.Errorf("the bridge that waited: %s, %v", r.Raw, err)
	}
	if p.auth.Ledger().Codes != 1 {
		t.Errorf("ledger %+v", p.auth.Ledger())
	}
}

// redirectOf is where the authorization server sends the browser, which cannot go
// there.
func (p *protected) redirectOf(page string) string {
	p.t.Helper()
	address, err := authtest.Approve(page)
	if err != nil {
		p.t.Fatal(err)
	}
	return address
}

// Where no browser starts, a code for another device is shown if the server
// offers that, and at no other time, as the help text says.
func TestLoginByDevice(t *testing.T) {
	says := "Where no browser starts and the server\noffers it, a code to type on any device is shown instead."
	if !strings.Contains(loginHelp, says) {
		t.Errorf("the help text does not say %q", says)
	}
	const code, paste = "type the code", "paste that page's address here"
	for name, c := range map[string]struct {
		offered      bool
		env          []string
		args         []string
		told, untold string
	}{
		"no browser starts":              {true, []string{"BROWSER=/nowhere/browser"}, nil, code, paste},
		"the same, over ssh":             {true, []string{"SSH_CONNECTION=10.0.0.1 1 10.0.0.2 22"}, nil, code, paste},
		"it is not offered":              {false, []string{"BROWSER=/nowhere/browser"}, []string{"--auth-timeout=2s"}, paste, code},
		"a browser is not to be started": {true, nil, []string{"--auth-timeout=2s", "--no-browser"}, paste, code},
	} {
		t.Run(name, func(t *testing.T) {
			p := protect(t, authtest.Quirks{Device: c.offered, Pendings: 1}, bridgetest.Options{})
			got, out, errs := p.run(c.env, nil, p.account("login", c.args...)...)
			want := exitSignIn
			if c.told == code {
				want = exitOK
			}
			if got != want || !strings.Contains(errs, c.told) || strings.Contains(errs, c.untold) {
				t.Errorf("exit code %d, %s%s", got, out, errs)
			}
		})
	}
}

func TestLoginFails(t *testing.T) {
	p := protect(t, authtest.Quirks{Deny: "access_denied"}, bridgetest.Options{})
	if code, out, errs := p.run(p.env, nil, p.account("login")...); code != exitSignIn || !strings.Contains(errs, "refused") {
		t.Errorf("denied: exit code %d, %s%s", code, out, errs)
	}
	if code, out, errs := p.run(p.absent(), nil, p.account("login", "--auth-timeout=300ms")...); code != exitSignIn || !strings.Contains(errs, "in time") {
		t.Errorf("nobody came: exit code %d, %s%s", code, out, errs)
	}
	if code, _, errs := p.run(p.env, nil, p.account("login", "--header=Authorization: Bearer hunter2")...); code != exitUsage || strings.Contains(errs, "hunter2") {
		t.Errorf("fixed credentials: exit code %d, %s", code, errs)
	}
	if code, _, errs := p.run(p.env, nil, "login", "nosuchserver"); code != exitUsage || !strings.Contains(errs, "nosuchserver") {
		t.Errorf("unknown server: exit code %d, %s", code, errs)
	}
}

// The settings of a sign-in are kept: a login without them signs in the same
// client, and so does a bridge.
func TestLoginSettingsAreKept(t *testing.T) {
	p := protect(t, authtest.Quirks{ClientID: "app", ClientSecret: "c-s3cret", NoRegistration: true}, bridgetest.Options{})
	secret := "MCPBRIDGE_CLIENT_SECRET=c-s3cret"
	if code, out, errs := p.run(append(p.env, secret), nil, p.account("login", "--client-id=app")...); code != exitOK {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	if code, out, errs := p.run(append(p.env, secret), nil, p.account("login")...); code != exitOK {
		t.Errorf("again: exit code %d, %s%s", code, out, errs)
	}
	host := p.bridge([]string{secret})
	p.list(host)
	p.auth.ExpireAccess()
	p.echoes(host)
}

// A token command is run again when what it printed is refused, and never for
// nothing.
func TestTokenCommand(t *testing.T) {
	p := protect(t, authtest.Quirks{}, bridgetest.Options{})
	if code, _, errs := p.run(p.env, nil, p.account("login")...); code != exitOK {
		t.Fatal(errs)
	}
	tokens := p.auth.Secrets()
	script := filepath.Join(t.TempDir(), "token")
	for _, one := range tokens {
		if strings.HasPrefix(one, "access-") {
			if err := os.WriteFile(script, []byte(one), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	host := p.bridge(nil, "--token-command=cat "+script)
	p.echoes(host)
	code, out, _ := p.run(nil, nil, p.account("whoami", "--token-command=cat "+script, "--json")...)
	if code != exitOK || !strings.Contains(out, `"kind":"command"`) {
		t.Errorf("exit code %d, %s", code, out)
	}
}
