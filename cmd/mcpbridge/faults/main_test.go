package faults

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/cmd/mcpbridge/programtest"
)

// callLimit bounds whatever a test waits for; it says nothing about the bridge.
const callLimit = 40 * time.Second

func TestMain(m *testing.M) { programtest.Main(m) }

func TestSources(t *testing.T) {
	t.Parallel()
	programtest.Sources(t)
}

func program() string { return programtest.Path() }

// A lane is one process of the program and the server behind it.
type lane struct {
	t    testing.TB
	ctx  context.Context
	host *bridgetest.Host
	era  bridgetest.Era
	up   *bridgetest.Upstream // nil where a test has a server of its own
	dir  string               // state directory

	capabilities string // of a legacy host; "" is none
	answer       func(method string, params json.RawMessage) (any, error)
}

func limited(t testing.TB, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func startUpstream(t testing.TB, o bridgetest.Options) *bridgetest.Upstream {
	t.Helper()
	up, err := bridgetest.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	return up
}

// startLane starts the program as a host does, with HOME and PATH alone, and
// shakes hands in the server's era. The last argument is the URL.
func startLane(t testing.TB, era bridgetest.Era, up *bridgetest.Upstream, args ...string) *lane {
	t.Helper()
	return startNamed(t, "bridgetest-host", era, up, args...)
}

// startNamed is startLane with a client name.
func startNamed(t testing.TB, name string, era bridgetest.Era, up *bridgetest.Upstream, args ...string) *lane {
	t.Helper()
	l := &lane{t: t, ctx: limited(t, callLimit), era: era, up: up, dir: t.TempDir()}
	l.start(name, nil, args)
	return l
}

func (l *lane) start(name string, env, args []string) {
	l.t.Helper()
	home := l.t.TempDir()
	env = append(env, "HOME="+home, "PATH="+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
	if runtime.GOOS == "windows" {
		env = append(env, "SYSTEMROOT="+os.Getenv("SYSTEMROOT"), "LOCALAPPDATA="+home, "APPDATA="+home)
	}
	command := append([]string{program(), "--state-dir=" + l.dir, "--server-id=crm"}, args...)
	host, err := bridgetest.StartHost(bridgetest.HostOptions{Command: command, Env: env, Dir: home, Name: name, Answer: l.answer})
	if err != nil {
		l.t.Fatal(err)
	}
	l.host = host
	l.t.Cleanup(l.stop)
	l.shakeHands()
}

// stop ends the process and checks what it wrote.
func (l *lane) stop() {
	l.host.Kill()
	for _, v := range l.host.Violations() {
		l.t.Errorf("standard output: %s", v)
	}
	if log := l.host.Stderr(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") {
		l.t.Errorf("standard error: %s", log)
	}
}

func (l *lane) shakeHands() {
	l.t.Helper()
	var err error
	if l.era == bridgetest.Modern {
		_, err = l.host.Discover(l.ctx)
	} else {
		_, err = l.host.Initialize(l.ctx, "2025-11-25", cmp.Or(l.capabilities, "{}"))
	}
	if err != nil {
		l.t.Fatalf("%v; standard error: %s", err, l.host.Stderr())
	}
}

// knowTools waits until the bridge knows the server's tools, and with them
// their classes.
func (l *lane) knowTools() {
	l.t.Helper()
	for {
		r, err := l.host.Call(l.ctx, "tools/list", "{}")
		if err != nil {
			l.t.Fatalf("%v; standard error: %s", err, l.host.Stderr())
		}
		if strings.Contains(string(r.Result), `"write_note"`) {
			return
		}
	}
}

// call calls a tool and demands an answer, just one.
func (l *lane) call(tool, arguments string) bridgetest.Reply {
	l.t.Helper()
	return l.request("tools/call", bridgetest.ToolParams(tool, arguments))
}

func (l *lane) request(method, params string) bridgetest.Reply {
	l.t.Helper()
	r, err := l.host.Call(l.ctx, method, params)
	if err != nil {
		l.t.Fatalf("%s: %v; standard error: %s", method, err, l.host.Stderr())
	}
	return r
}
