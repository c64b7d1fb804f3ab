package hostside

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// Revisions of MCP that hosts of these tests speak.
const (
	v2503  = "2025-03-26"
	v2506  = "2025-06-18"
	v2511  = "2025-11-25"
	modern = "2026-07-28"
)

const (
	testLimit = 60 * time.Second // for one test on a busy machine; it says nothing about the bridge
	slack     = 2 * time.Second  // what a busy machine may add to a time that the bridge promises
)

// JSON-RPC error codes.
const (
	parseError     = -32700
	invalidRequest = -32600
	methodNotFound = -32601
	invalidParams  = -32602
	overloaded     = -31007
	invalidReply   = -31004
)

// A setup says what a rig starts.
type setup struct {
	version string // of the host; "": no handshake
	caps    string // JSON object; "" is {}
	url     string // "": that of the upstream
	dir     string // state directory; "": one of its own
	cwd     string // "": HOME
	env     []string
	args    []string
	batches bool

	noAnswer bool // the test itself answers the questions of the process
}

// A rig is one process of the program and the server behind it.
type rig struct {
	t    testing.TB
	ctx  context.Context
	host *bridgetest.Host
	up   *bridgetest.Upstream // nil where a test has a server of its own
	home string
	setup
}

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
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

// startDoor starts a proxy before an upstream, so that the upstream behind one
// address can be another one, dead or a black hole. It returns the URL too.
func startDoor(t testing.TB, up *bridgetest.Upstream) (*bridgetest.TCPProxy, string) {
	t.Helper()
	door, err := bridgetest.StartProxy(address(up.URL()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(door.Close)
	return door, strings.Replace(up.URL(), address(up.URL()), door.Addr(), 1)
}

func address(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// environment is all that a host has to pass on: HOME and PATH.
func environment(home string, more ...string) []string {
	env := append(more, "HOME="+home, "PATH="+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
	if runtime.GOOS == "windows" {
		env = append(env, "SYSTEMROOT="+os.Getenv("SYSTEMROOT"), "LOCALAPPDATA="+home, "APPDATA="+home)
	}
	return env
}

// start starts the program as a host does and shakes hands.
func start(t testing.TB, up *bridgetest.Upstream, s setup) *rig {
	t.Helper()
	r := &rig{t: t, ctx: limited(t), up: up, home: t.TempDir(), setup: s}
	if r.url == "" && up != nil {
		r.url = up.URL()
	}
	if r.dir == "" {
		r.dir = t.TempDir()
	}
	r.launch()
	return r
}

func (r *rig) launch() {
	r.t.Helper()
	cwd := r.cwd
	if cwd == "" {
		cwd = r.home
	}
	host, err := bridgetest.StartHost(bridgetest.HostOptions{
		Command: r.command(), Env: environment(r.home, r.env...), Dir: cwd, Capabilities: r.caps, Batches: r.batches, NoAnswer: r.noAnswer,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.host = host
	r.t.Cleanup(func() { r.check(host) })
	if r.version != "" {
		r.shakeHands(r.version)
	}
}

func (r *rig) command() []string {
	command := append([]string{program(), "--state-dir=" + r.dir, "--server-id=crm"}, r.args...)
	return append(command, r.url)
}

// restart ends the process in good order and starts another with the same state.
func (r *rig) restart() {
	r.t.Helper()
	r.quit()
	r.launch()
}

// quit closes stdin and waits for the process.
func (r *rig) quit() {
	r.t.Helper()
	_ = r.host.CloseStdin()
	if code, err := r.host.Wait(r.ctx); code != 0 || err != nil {
		r.t.Fatalf("exit code %d, %v\n%s", code, err, r.host.Stderr())
	}
}

func (r *rig) shakeHands(version string) bridgetest.Reply {
	r.t.Helper()
	var got bridgetest.Reply
	var err error
	if version == modern {
		got, err = r.host.Discover(r.ctx)
	} else {
		got, err = r.host.Initialize(r.ctx, version, r.caps)
	}
	if err != nil || got.Error != nil {
		r.t.Fatalf("handshake: %v %+v\n%s", err, got.Error, r.host.Stderr())
	}
	return got
}

// check ends the process and looks at what it wrote.
func (r *rig) check(host *bridgetest.Host) {
	host.Kill()
	for _, v := range host.Violations() {
		r.t.Errorf("standard output: %s", v)
	}
	if log := host.Stderr(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") {
		r.t.Errorf("standard error: %s", log)
	}
}

// request makes a request and demands an answer.
func (r *rig) request(method, params string) bridgetest.Reply {
	r.t.Helper()
	got, err := r.host.Call(r.ctx, method, params)
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", method, err, r.host.Stderr())
	}
	return got
}

func (r *rig) tool(name, arguments string) bridgetest.Reply {
	r.t.Helper()
	return r.request("tools/call", bridgetest.ToolParams(name, arguments))
}

// echo calls a tool and demands what it says.
func (r *rig) echo(text string) {
	r.t.Helper()
	if got := r.tool("echo", fmt.Sprintf(`{"text":%q}`, text)); got.Text() != text {
		r.t.Fatalf("echo of %q: %s\n%s", text, got.Raw, r.host.Stderr())
	}
}

// send writes a line as it is.
func (r *rig) send(line string) {
	r.t.Helper()
	if err := r.host.SendRaw([]byte(line + "\n")); err != nil {
		r.t.Fatal(err)
	}
}

// barrier waits until the program has read all that was sent before. A ping is
// answered in either era, by 2026-07-28 with an error.
func (r *rig) barrier() {
	r.t.Helper()
	if got := r.request("ping", ""); got.Error != nil && got.Error.Code != methodNotFound {
		r.t.Fatalf("ping: %s", got.Raw)
	}
}

// answerTo waits for the answer to an id, as JSON.
func (r *rig) answerTo(id string) bridgetest.Reply {
	r.t.Helper()
	got, err := r.host.WaitReply(r.ctx, id)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.host.Stderr())
	}
	return got
}

// refusedAs sends a line and demands an error with the code and the id.
func (r *rig) refusedAs(code int, id, line string) {
	r.t.Helper()
	r.host.Expect(id)
	before := len(r.host.Replies(id))
	r.send(line)
	r.barrier()
	got := r.host.Replies(id)[before:]
	if len(got) != 1 || got[0].Error == nil || got[0].Error.Code != code {
		r.t.Errorf("line %.100q is answered %d times with id %s, want once with code %d", line, len(got), id, code)
		for _, one := range got {
			r.t.Errorf("%.300s", one.Raw)
		}
	}
}

// names lists the tools in the order in which the host sees them.
func (r *rig) names() []string {
	r.t.Helper()
	got := r.request("tools/list", "{}")
	var list struct {
		Tools      []struct{ Name string }
		NextCursor *string
	}
	if err := json.Unmarshal(got.Result, &list); err != nil || list.NextCursor != nil {
		r.t.Fatalf("tools/list: %v, %.300s", err, got.Raw)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// knowTools waits until the bridge knows the server's tools.
func (r *rig) knowTools() {
	r.t.Helper()
	for !slices.Contains(r.names(), "echo") {
		if r.ctx.Err() != nil {
			r.t.Fatalf("the server's tools were never listed\n%s", r.host.Stderr())
		}
	}
}

// ledger waits until ok holds of what arrived at the upstream.
func (r *rig) ledger(ok func(*bridgetest.View) bool) {
	r.t.Helper()
	if err := r.up.Ledger().Wait(r.ctx, ok); err != nil {
		r.t.Fatalf("%v\n%s", err, r.host.Stderr())
	}
}

// serverName is how a handshake names the server.
func serverName(t testing.TB, got bridgetest.Reply) string {
	t.Helper()
	type info struct{ Name string }
	var hs struct {
		ServerInfo info
		Meta       map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(got.Result, &hs); err != nil {
		t.Fatal(err)
	}
	if raw := hs.Meta["io.modelcontextprotocol/serverInfo"]; raw != nil {
		_ = json.Unmarshal(raw, &hs.ServerInfo) // stays empty
	}
	return hs.ServerInfo.Name
}

// A gate is a tool that answers when the test says so.
type gate struct{ open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{})} }

func (g *gate) tool() bridgetest.Tool {
	return bridgetest.Tool{Name: "gate", Annotations: json.RawMessage(`{"readOnlyHint":true}`), Run: func(c *bridgetest.Call) (any, error) {
		select {
		case <-g.open:
			return bridgetest.Text("open"), nil
		case <-c.Context().Done():
			return nil, context.Cause(c.Context())
		}
	}}
}

// withTool is the usual tools and one more.
func withTool(t bridgetest.Tool) []bridgetest.Tool {
	if t.InputSchema == nil {
		t.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	return append(bridgetest.DefaultTools(), t)
}

// message spells out a request with an id as JSON.
func message(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`
}
