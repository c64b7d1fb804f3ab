package browser

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// limit bounds the whole sign-in; a browser takes seconds to start.
const limit = 90 * time.Second

// launcher starts Chromium in a directory of its own, away from networks. The
// bridge runs it with the page as its argument.
const launcher = `#!/bin/sh
echo $$ > '%[2]s/pid'
exec '%[1]s' --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
  --disable-component-update --disable-sync --disable-dev-shm-usage --user-data-dir='%[2]s/profile' "$1" >/dev/null 2>&1
`

// TestSignInWithBrowser is a person with a host: a call opens the browser, the
// person signs in there, the call goes on.
func TestSignInWithBrowser(t *testing.T) {
	script, quit := browserScript(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	p := startProvider(t)
	up := startProtected(t, p)
	dir, home := filepath.Join(t.TempDir(), "state"), t.TempDir()
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "BROWSER=" + script, "GORACE=atexit_sleep_ms=0"}
	args := []string{"--state-dir=" + dir, "--token-store=file", "--client-id=app", "--server-id=crm", "--answer-within=80s", up.URL()}
	program := build(t)
	host, err := bridgetest.StartHost(bridgetest.HostOptions{Command: append([]string{program}, args...), Env: env, Dir: home})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Kill()
	if _, err := host.Initialize(ctx, "2025-11-25", "{}"); err != nil {
		t.Fatal(err)
	}
	r, err := host.CallTool(ctx, "echo", `{"text":"hello"}`)
	if err != nil || r.IsError() || !strings.Contains(r.Text(), "hello") {
		t.Fatalf("%s, %v; standard error: %s", r.Raw, err, host.Stderr())
	}
	if who := p.visitors(); len(who) != 1 || !strings.Contains(who[0], "Chrome") {
		t.Errorf("who signed in: %q", who)
	}
	quit()
	whoami := append([]string{"whoami"}, slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--answer") })...)
	cmd := exec.CommandContext(ctx, program, whoami...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "signed in") || !strings.Contains(string(out), "oauth-") {
		t.Errorf("whoami: %v, %s", err, out)
	}
}

// browserScript writes the launcher. Quit ends the browser that it started.
func browserScript(t *testing.T) (script string, quit func()) {
	t.Helper()
	chromium := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && chromium == "" {
			chromium = path
		}
	}
	if chromium == "" && os.Getenv("CI") == "" {
		t.Skip("no Chromium is installed; make browser installs it")
	}
	if chromium == "" {
		t.Fatal("no Chromium is installed")
	}
	dir, err := os.MkdirTemp("", "mcpbridge-browser-") // the browser writes into it until it ends
	if err != nil {
		t.Fatal(err)
	}
	script = filepath.Join(dir, "browser")
	if err := os.WriteFile(script, fmt.Appendf(nil, launcher, chromium, dir), 0o700); err != nil {
		t.Fatal(err)
	}
	quit = func() {
		if text, err := os.ReadFile(filepath.Join(dir, "pid")); err == nil {
			if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
				end(pid)
			}
		}
		_ = os.RemoveAll(dir)
	}
	t.Cleanup(quit)
	return script, quit
}

// end ends the browser, of which the process with this id is the first.
func end(pid int) {
	if one, err := os.FindProcess(pid); err == nil {
		_ = one.Kill() // it may have left already
	}
}

// startProtected starts a server that takes what the provider knows.
func startProtected(t *testing.T, p *provider) *bridgetest.Upstream {
	t.Helper()
	var url string
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"resource":"%s","authorization_servers":["%s"],"scopes_supported":["openid"]}`, url, p.URL)
	})
	up, err := bridgetest.Start(bridgetest.Options{Extra: mux, Authorize: func(w http.ResponseWriter, r *http.Request) bool {
		if p.knows(r.Header.Get("Authorization")) {
			return true
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	url = up.URL()
	return up
}

// build builds the program.
func build(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "mcpbridge")
	if out, err := exec.Command("go", "build", "-o", name, "..").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v: %s", err, out)
	}
	return name
}
