package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// No secret that passed through the program is anywhere in what it leaves: logs of
// the loudest kind, its output, the state directory, the trace of a crash.
func TestSecretsStayInside(t *testing.T) {
	p := protect(t, authtest.Quirks{ClientID: "app", ClientSecret: "client-hush", NoRegistration: true, Subject: "ann"}, bridgetest.Options{})
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("X-Api-Key: key-hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	logFile := filepath.Join(p.dir, "logs", "bridge.log")
	args := []string{"--linger=0", "--log-level=debug", "--log-format=json", "--log-file=" + logFile,
		"--client-id=app", "--header-file=" + headers, "--header=X-Other: ${OTHER}"}
	env := append(p.env, "MCPBRIDGE_CLIENT_SECRET=client-hush", "OTHER=other-hush")
	host := p.bridge(env, args...)
	p.list(host)
	p.echoes(host)
	p.call(host, "write_note", `{"key":"a","text":"b"}`)
	p.auth.ExpireAccess()
	p.echoes(host) // renewed
	p.auth.RevokeRefresh()
	p.auth.ExpireAccess()
	p.echoes(host) // by another sign-in
	p.auth.Change(func(q *authtest.Quirks) { q.Deny = "access_denied" })
	p.auth.RevokeRefresh()
	p.auth.ExpireAccess()
	if r := p.call(host, "write_note", `{"key":"b","text":"b"}`); !r.IsError() {
		t.Errorf("a denied sign-in: %s", r.Raw)
	}
	p.auth.Change(func(q *authtest.Quirks) { q.Deny = "" })
	code, out, errs := p.run(env, nil, p.account("login", "--client-id=app", "--log-level=debug")...)
	if code != exitOK {
		t.Errorf("login: exit code %d, %s%s", code, out, errs)
	}
	p.echoes(host)
	crash(t, p, host)
	p.checkLeft("client-hush", "key-hush", "other-hush")
	if secrets := p.auth.Secrets(); len(secrets) < 9 {
		t.Errorf("only %d secrets of the authorization server were used", len(secrets))
	}
	if info, err := os.Stat(logFile); err != nil || info.Size() == 0 {
		t.Errorf("there is no log to look at: %v", err)
	}
}

// checkLeft wants no secret in what is left: what the programs wrote, and every
// file of the state directory.
func (p *protected) checkLeft(configured ...string) {
	t := p.t
	t.Helper()
	left := p.said.all()
	for _, name := range filesBelow(t, p.dir) {
		text, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a worker may still be at it
			t.Fatal(err)
		}
		left[name] = text
	}
	secrets := slices.DeleteFunc(append(p.auth.Secrets(), configured...), func(one string) bool { return one == "" })
	for where, text := range left {
		for _, secret := range secrets {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s holds %q", where, secret)
			}
		}
	}
}

// crash ends the bridge with the trace of all that it does.
func crash(t *testing.T, p *protected, host *bridgetest.Host) {
	t.Helper()
	if runtime.GOOS == "windows" {
		host.Kill()
		return
	}
	if err := host.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Wait(p.ctx); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(host.Stderr(), "goroutine") {
		t.Error("there is no trace to look at")
	}
}
