package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// startBridge starts the program as a host does: on pipes, with HOME and PATH
// alone, in a directory that is not its own.
func startBridge(t *testing.T, env []string, args ...string) (*bridgetest.Host, string) {
	t.Helper()
	path, err := exec.LookPath("mcpbridge") // this test program, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	env = append(env, "HOME="+home, "PATH="+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
	if runtime.GOOS == "windows" {
		env = append(env, "SYSTEMROOT="+os.Getenv("SYSTEMROOT"), "LOCALAPPDATA="+home, "APPDATA="+home)
	}
	host, err := bridgetest.StartHost(bridgetest.HostOptions{Command: append([]string{path}, args...), Env: env, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		host.Kill()
		for _, v := range host.Violations() {
			t.Errorf("standard output: %s", v)
		}
	})
	return host, home
}

func startUpstream(t *testing.T) *bridgetest.Upstream {
	t.Helper()
	up, err := bridgetest.Start(bridgetest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	return up
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), awaitLimit)
	t.Cleanup(cancel)
	return ctx
}

// Standard output holds messages and nothing else, however much is logged, and
// secrets are in no log.
func TestLoudestBridge(t *testing.T) {
	t.Parallel()
	ctx, up := limited(t), startUpstream(t)
	for _, format := range []string{"text", "json"} {
		logFile := filepath.Join(t.TempDir(), "logs", "mcpbridge.log")
		host, _ := startBridge(t, []string{"AUTH=Bearer hunter2"},
			"--log-level=debug", "--log-format="+format, "--log-file="+logFile, "--header=Authorization:${AUTH}", up.URL())
		if _, err := host.Initialize(ctx, "2025-06-18", "{}"); err != nil {
			t.Fatal(err)
		}
		reply, err := host.CallTool(ctx, "echo", `{"text":"hello"}`)
		if err != nil || !strings.Contains(reply.Text(), "hello") {
			t.Fatalf("echo: %q, %v", reply.Text(), err)
		}
		if err := host.CloseStdin(); err != nil {
			t.Fatal(err)
		}
		if code, err := host.Wait(ctx); code != exitOK || err != nil {
			t.Errorf("exit code %d, %v", code, err)
		}
		text, err := os.ReadFile(logFile)
		if err != nil {
			t.Fatal(err)
		}
		for where, log := range map[string]string{"standard error": host.Stderr(), "log file": string(text)} {
			if !strings.Contains(log, "exchange") {
				t.Errorf("%s has no record of the exchange: %q", where, log)
			}
			if strings.Contains(log, "hunter2") {
				t.Errorf("%s holds a secret: %q", where, log)
			}
		}
	}
	if n := len(up.Ledger().Entries()); n == 0 {
		t.Error("the upstream was never asked")
	}
}

// What net/http has to say about a server goes to the log, and does not quote
// what the server sent.
func TestLibrariesQuoteNothing(t *testing.T) {
	t.Parallel()
	ctx := limited(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		conn, _, hijacked := http.NewResponseController(w).Hijack()
		if err != nil || hijacked != nil {
			return
		}
		defer conn.Close()
		var m struct{ ID json.RawMessage }
		_ = json.Unmarshal(body, &m) // GET has none
		reply := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%shunter2", len(reply), reply)
		_, _ = io.Copy(io.Discard, conn) // until the client closes
	}))
	t.Cleanup(server.Close)
	host, _ := startBridge(t, nil, "--log-level=debug", "--protocol=legacy", "--transport=http", server.URL)
	if _, err := host.Initialize(ctx, "2025-06-18", "{}"); err != nil {
		t.Fatal(err)
	}
	if err := host.WaitStderr(ctx, "net/http"); err != nil {
		t.Fatalf("%v\n%s", err, host.Stderr())
	}
	if err := host.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	if code, err := host.Wait(ctx); code != exitOK || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	if log := host.Stderr(); strings.Contains(log, "hunter2") {
		t.Errorf("what the server sent is in the log: %s", log)
	}
}

// A signal is an order to leave, not a failure: hosts show exit codes.
func TestSignals(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals to send")
	}
	ctx, up := limited(t), startUpstream(t)
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		host, _ := startBridge(t, nil, up.URL())
		if _, err := host.Initialize(ctx, "2025-06-18", "{}"); err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		if err := host.Signal(sig); err != nil {
			t.Fatal(err)
		}
		code, err := host.Wait(ctx)
		if code != exitOK || err != nil {
			t.Errorf("%v: exit code %d, %v", sig, code, err)
		}
		if took := time.Since(asked); took > time.Second {
			t.Errorf("%v: left after %v", sig, took)
		}
	}
}

// A bridge that a host starts and kills leaves nothing behind in the user's
// directories.
func TestStartLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx := limited(t)
	host, home := startBridge(t, nil, "http://127.0.0.1:9/mcp")
	if _, err := host.Call(ctx, "ping", "{}"); err != nil {
		t.Fatal(err)
	}
	host.Kill()
	entries, err := os.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("left behind: %s", e.Name())
	}
}

// A broken configuration is told to the host on every way that a value comes.
func TestBrokenIsTold(t *testing.T) {
	t.Parallel()
	ctx := limited(t)
	for want, told := range map[string]struct{ env, args []string }{
		"${TOKEN}":      {args: []string{"https://example.com/mcp", "--bearer-env=${TOKEN}"}},
		"{env:LIMIT}":   {env: []string{"MCPBRIDGE_ANSWER_WITHIN={env:LIMIT}"}, args: []string{"https://example.com/mcp"}},
		"--allow-http":  {args: []string{"http://10.255.255.1/mcp"}},
		"nosuchserver":  {args: []string{"nosuchserver"}},
		"nowhere.pem":   {args: []string{"https://example.com/mcp", "--ca-cert=nowhere.pem"}},
		"nowhere.toml":  {args: []string{"https://example.com/mcp", "--config=nowhere.toml"}},
		"CRM_AUTH":      {args: []string{"https://example.com/mcp", "--header=Authorization:${CRM_AUTH}"}},
		"--client-cert": {args: []string{"https://example.com/mcp", "--client-key=x"}},
	} {
		host, _ := startBridge(t, told.env, told.args...)
		if _, err := host.Initialize(ctx, "2025-06-18", "{}"); err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		list, err := host.Call(ctx, "tools/list", "{}")
		if err != nil || !strings.Contains(string(list.Result), "mcpbridge_status") || !strings.Contains(string(list.Result), want) {
			t.Errorf("tools/list does not tell of %s: %s, %v", want, list.Result, err)
		}
		call, err := host.CallTool(ctx, "anything", "{}")
		if err != nil || !call.IsError() || !strings.Contains(call.Text(), want) {
			t.Errorf("a call does not tell of %s: %q, %v", want, call.Text(), err)
		}
		if !strings.Contains(host.Stderr(), want) {
			if err := host.WaitStderr(ctx, want); err != nil {
				t.Errorf("standard error does not tell of %s: %v", want, err)
			}
		}
	}
}
