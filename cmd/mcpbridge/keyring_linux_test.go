package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// A sessionBus is a D-Bus of the test's own, with nothing on it that starts by
// itself.
type sessionBus struct {
	address string
	dir     string
}

// busConfig is that of a session bus without services to activate.
const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:dir=%s</listen><policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`

func startSessionBus(t *testing.T) *sessionBus {
	t.Helper()
	for _, program := range []string{"dbus-daemon", "dbus-send", "gnome-keyring-daemon"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("a real keyring needs %s (Debian: dbus, gnome-keyring)", program)
		}
	}
	dir, err := os.MkdirTemp("", "bus") // short: the path of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, busConfig, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("dbus-daemon", "--config-file="+config, "--nofork", "--nosyslog", "--print-address=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	startProcess(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the bus does not start: %v", err)
	}
	return &sessionBus{address: strings.TrimSpace(line), dir: dir}
}

// startProcess starts cmd and returns what ends it; it ends with the test.
func startProcess(t *testing.T, cmd *exec.Cmd) (end func()) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(end)
	return end
}

func (b *sessionBus) env() []string {
	return []string{"DBUS_SESSION_BUS_ADDRESS=" + b.address, "HOME=" + b.dir, "XDG_RUNTIME_DIR=" + b.dir,
		"XDG_DATA_HOME=" + filepath.Join(b.dir, "data"), "PATH=" + os.Getenv("PATH")}
}

// keyring starts a keyring, unlocked or locked, and returns what ends it.
func (b *sessionBus) keyring(t *testing.T, ctx context.Context, unlocked bool) (end func()) {
	t.Helper()
	args := []string{"--foreground", "--components=secrets", "--control-directory=" + b.dir}
	if unlocked {
		args = append(args, "--unlock")
	}
	cmd := exec.Command("gnome-keyring-daemon", args...)
	cmd.Env, cmd.Stdin = b.env(), strings.NewReader("a password")
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	end = startProcess(t, cmd)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ask := exec.CommandContext(ctx, "dbus-send", "--bus="+b.address, "--print-reply", "--dest=org.freedesktop.DBus", "/",
			"org.freedesktop.DBus.NameHasOwner", "string:org.freedesktop.secrets")
		if out, _ := ask.Output(); strings.Contains(string(out), "boolean true") {
			return end
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the keyring does not start")
		}
	}
}

// The key that seals the tokens is kept in a real keyring, for all processes, and
// nowhere else. One that is locked or gone is told of, with what to do.
func TestRealKeyring(t *testing.T) {
	p := protect(t, authtest.Quirks{}, bridgetest.Options{})
	bus := startSessionBus(t)
	end := bus.keyring(t, p.ctx, true)
	env := append(p.env, "DBUS_SESSION_BUS_ADDRESS="+bus.address)
	command := func(name string) []string {
		return []string{name, "--state-dir=" + p.dir, "--server-id=crm", p.up.URL()}
	}
	if code, out, errs := p.run(env, nil, command("login")...); code != exitOK {
		t.Fatalf("login: exit code %d, %s%s", code, out, errs)
	}
	place, err := os.ReadFile(filepath.Join(p.dir, "auth", "key.place"))
	if err != nil || string(place) != "keyring" {
		t.Errorf("the key is kept in %q, %v", place, err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "auth", "seal.key")); err == nil {
		t.Error("the key is in a file too")
	}
	host, _ := startBridge(t, env, "--state-dir="+p.dir, "--server-id=crm", p.up.URL())
	if _, err := host.Initialize(p.ctx, "2025-11-25", "{}"); err != nil {
		t.Fatal(err)
	}
	p.echoes(host)
	p.auth.ExpireAccess()
	p.echoes(host) // renewed
	if n := len(p.opened()); n != 1 {
		t.Errorf("%d pages", n)
	}
	end()
	whoami := func(state string) {
		t.Helper()
		if code, out, errs := p.run(env, nil, command("whoami")...); code == exitOK || !strings.Contains(errs, "unlock it") {
			t.Errorf("a keyring that is %s: exit code %d, %s%s", state, code, out, errs)
		}
	}
	whoami("gone")
	bus.keyring(t, p.ctx, false)
	whoami("locked")
}

// Where no session bus runs none is started, whatever is asked of the keyring.
func TestNoSessionBusIsStarted(t *testing.T) {
	p := protect(t, authtest.Quirks{}, bridgetest.Options{})
	bin := t.TempDir()
	marker := filepath.Join(bin, "started")
	for _, name := range []string{"dbus-launch", "dbus-daemon", "dbus-run-session", "gnome-keyring-daemon"} {
		script := fmt.Sprintf("#!/bin/sh\necho %s >>%s\n", name, marker)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	program, err := exec.LookPath("mcpbridge")
	if err != nil {
		t.Fatal(err)
	}
	for store, want := range map[string]int{"": exitOK, "--token-store=keyring": exitFailed} {
		state := t.TempDir()
		args := []string{"login", "--state-dir=" + state, p.up.URL()}
		if store != "" {
			args = append(args, store)
		}
		cmd := exec.CommandContext(p.ctx, program, args...)
		cmd.Env = append(p.env, "HOME="+state, "XDG_RUNTIME_DIR="+bin, "DISPLAY=:7", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
		cmd.Dir = state
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want || want != exitOK && !strings.Contains(string(out), "no keyring answers") {
			t.Errorf("%q: exit code %d, %s", store, got, out)
		}
	}
	if started, err := os.ReadFile(marker); err == nil {
		t.Errorf("started: %q", started)
	}
}
