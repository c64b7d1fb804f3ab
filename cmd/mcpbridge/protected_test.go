package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// browse is a browser with a person before it who agrees to everything. It notes
// the page in the file $OPENED. With $ABSENT the person does not come.
func browse() {
	f, err := os.OpenFile(os.Getenv("OPENED"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(1)
	}
	if _, err := f.WriteString(os.Args[len(os.Args)-1] + "\n"); err != nil || f.Close() != nil {
		os.Exit(1)
	}
	if os.Getenv("ABSENT") != "" {
		return
	}
	if status, err := authtest.Visit(os.Args[len(os.Args)-1]); err != nil || status != http.StatusOK {
		os.Exit(1)
	}
}

// A protected server is an upstream that wants a token, with the authorization
// server that gives it, and what the bridges of one user share.
type protected struct {
	t    *testing.T
	ctx  context.Context
	up   *bridgetest.Upstream
	auth *authtest.Server

	need  func(tool string) string // scope for a call of a tool; nil: none
	dir   string                   // state directory
	pages string                   // file with the pages that were opened
	env   []string                 // of every bridge
	said  *said                    // by all of them
}

// Said is what the programs of a test wrote where others can read it.
type said struct {
	mu    sync.Mutex
	hosts []*bridgetest.Host
	texts []string // of commands
}

// all returns it by where it was written.
func (s *said) all() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]byte{"the output of commands": []byte(strings.Join(s.texts, "\n"))}
	for i, host := range s.hosts {
		all[fmt.Sprintf("standard error of host %d", i)] = []byte(host.Stderr())
		all[fmt.Sprintf("standard output of host %d", i)] = bytes.Join(host.Lines(), nil)
	}
	return all
}

func protect(t *testing.T, q authtest.Quirks, o bridgetest.Options) *protected {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	p := &protected{t: t, ctx: limited(t), auth: authtest.Start(q), dir: filepath.Join(dir, "state"), pages: filepath.Join(dir, "pages"), said: &said{}}
	t.Cleanup(func() { p.checkLeft(q.ClientSecret) }) // whatever the test is about
	t.Cleanup(p.auth.Close)
	if o.Authorize == nil {
		o.Authorize = func(w http.ResponseWriter, r *http.Request) bool { return p.auth.Allow(w, r, p.scope(r)) }
	}
	o.Extra = p.auth
	up, err := bridgetest.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	p.up = up
	p.auth.Change(func(q *authtest.Quirks) { q.Resource = up.URL() })
	browser, err := exec.LookPath("browser") // this test program, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	p.env = []string{"BROWSER=" + browser, "OPENED=" + p.pages}
	return p
}

// scope is what a request needs; its body is left as it was.
func (p *protected) scope(r *http.Request) string {
	if p.need == nil || r.Method != http.MethodPost {
		return ""
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return ""
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct {
		Method string `json:"method"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" {
		return ""
	}
	return p.need(m.Params.Name)
}

// absent is the environment of a bridge whose person does not come.
func (p *protected) absent() []string { return append(p.env, "ABSENT=1") }

// bridge starts one with a handshake.
func (p *protected) bridge(env []string, args ...string) *bridgetest.Host {
	p.t.Helper()
	host, _ := startBridge(p.t, env, append([]string{"--state-dir=" + p.dir, "--token-store=file", "--server-id=crm"}, append(args, p.up.URL())...)...)
	p.said.mu.Lock()
	p.said.hosts = append(p.said.hosts, host)
	p.said.mu.Unlock()
	asked := time.Now()
	if _, err := host.Initialize(p.ctx, "2025-11-25", "{}"); err != nil {
		p.t.Fatalf("%v; standard error: %s", err, host.Stderr())
	}
	if took := time.Since(asked); took > 5*time.Second {
		p.t.Errorf("the handshake took %v: it waits for something", took)
	}
	return host
}

// opened is every page that a browser was started with.
func (p *protected) opened() []string {
	text, err := os.ReadFile(p.pages)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// waitOpened waits for the first page.
func (p *protected) waitOpened() string {
	p.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if pages := p.opened(); len(pages) > 0 {
			return pages[0]
		}
		select {
		case <-tick.C:
		case <-p.ctx.Done():
			p.t.Fatal("no browser was started")
		}
	}
}

func (p *protected) call(host *bridgetest.Host, tool, arguments string) bridgetest.Reply {
	p.t.Helper()
	r, err := host.CallTool(p.ctx, tool, arguments)
	if err != nil {
		p.t.Fatalf("%s: %v; standard error: %s", tool, err, host.Stderr())
	}
	return r
}

// echoes demands that a call works.
func (p *protected) echoes(host *bridgetest.Host) {
	p.t.Helper()
	if r := p.call(host, "echo", `{"text":"hello"}`); r.IsError() || !strings.Contains(r.Text(), "hello") {
		p.t.Fatalf("echo: %s; standard error: %s", r.Raw, host.Stderr())
	}
}

func (p *protected) list(host *bridgetest.Host) string {
	p.t.Helper()
	r, err := host.Call(p.ctx, "tools/list", "{}")
	if err != nil {
		p.t.Fatalf("%v; standard error: %s", err, host.Stderr())
	}
	return string(r.Result)
}

// visit is the person who comes after all.
func (p *protected) visit(page string) {
	p.t.Helper()
	if status, err := authtest.Visit(page); err != nil || status != http.StatusOK {
		p.t.Fatalf("the page answers %d, %v", status, err)
	}
}

// run runs a command of the program to its end.
func (p *protected) run(env []string, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	path, err := exec.LookPath("mcpbridge")
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.CommandContext(p.ctx, path, args...)
	home := p.t.TempDir()
	cmd.Env = append(env, "HOME="+home, "PATH="+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
	cmd.Dir, cmd.Stdin = home, stdin
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	p.said.mu.Lock()
	p.said.texts = append(p.said.texts, out.String(), errs.String())
	p.said.mu.Unlock()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// account is the arguments of a command about the account of p's bridges.
func (p *protected) account(command string, more ...string) []string {
	return append(append([]string{command, "--state-dir=" + p.dir, "--token-store=file", "--server-id=crm"}, more...), p.up.URL())
}
