package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/retry"
)

const (
	// sseTestLimit bounds one test of HTTP+SSE.
	sseTestLimit = 45 * time.Second
	// sseTestBridge is the variable that makes the test program a bridge.
	sseTestBridge = "MCPBRIDGE_TEST_HTTPSSE"
)

// A sseTestConfig is what a bridge of these tests is told.
type sseTestConfig struct {
	URL       string
	Transport TransportChoice
	Protocol  EraChoice
	StateDir  string
	Answer    time.Duration
	Read      []string // tools that only read: servers of 2024-11-05 cannot say so
}

// TestBridgeOnSSE is no test: it is the bridge that a host of these tests
// starts, as a process of its own.
func TestBridgeOnSSE(*testing.T) {
	var c sseTestConfig
	text := os.Getenv(sseTestBridge)
	if text == "" {
		return
	}
	code := 3 // the testing package does not let a test end the process with 0
	if err := runSSETestBridge(text, &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runSSETestBridge(text string, c *sseTestConfig) error {
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return err
	}
	at, err := url.Parse(c.URL)
	if err != nil {
		return err
	}
	var classes []retry.Rule
	for _, tool := range c.Read {
		classes = append(classes, retry.Rule{Glob: tool, Class: retry.Read})
	}
	b, err := New(Config{URL: at, Version: "test", Transport: c.Transport, Protocol: c.Protocol, StateDir: c.StateDir, AnswerWithin: c.Answer, Classes: classes})
	if err != nil {
		return err
	}
	return b.Run(context.Background(), os.Stdin, os.Stdout)
}

// An sseRig is an upstream with a bridge and a host in front of it.
type sseRig struct {
	t    *testing.T
	ctx  context.Context
	up   *bridgetest.Upstream
	host *bridgetest.Host
}

func newSSERig(t *testing.T, c sseTestConfig, o bridgetest.HostOptions, faults ...string) *sseRig {
	t.Helper()
	up, err := bridgetest.Start(bridgetest.Options{Era: bridgetest.SSE})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	if err := up.SetFault(faults...); err != nil {
		t.Fatal(err)
	}
	c.URL = up.URL()
	r := &sseRig{t: t, up: up}
	r.ctx, r.host = startSSEBridge(t, c, o)
	return r
}

// startSSEBridge starts a bridge as a process of its own.
func startSSEBridge(t *testing.T, c sseTestConfig, o bridgetest.HostOptions) (context.Context, *bridgetest.Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), sseTestLimit)
	t.Cleanup(cancel)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	o.Command = []string{os.Args[0], "-test.run=^TestBridgeOnSSE$"}
	o.Env = append(os.Environ(), sseTestBridge+"="+string(text), "GORACE=atexit_sleep_ms=0")
	host, err := bridgetest.StartHost(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		host.Kill()
		for _, v := range host.Violations() {
			t.Errorf("standard output: %s", v)
		}
		if said := host.Stderr(); strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic") {
			t.Errorf("standard error: %s", said)
		}
	})
	return ctx, host
}

// start makes the handshake of a legacy host, or for "2026-07-28" a discovery.
func (r *sseRig) start(version string) {
	r.t.Helper()
	var err error
	if version == rev2026_07_28 {
		var reply bridgetest.Reply
		if reply, err = r.host.Discover(r.ctx); err == nil && reply.Error != nil {
			err = fmt.Errorf("%d %s", reply.Error.Code, reply.Error.Message)
		}
	} else {
		_, err = r.host.Initialize(r.ctx, version, "")
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *sseRig) call(tool, arguments string) bridgetest.Reply {
	r.t.Helper()
	reply, err := r.host.CallTool(r.ctx, tool, arguments)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply
}

// says calls a tool and checks for words in its answer.
func (r *sseRig) says(tool, arguments, words string, isError bool) {
	r.t.Helper()
	reply := r.call(tool, arguments)
	if !strings.Contains(reply.Text(), words) || reply.IsError() != isError {
		r.t.Errorf("%s: %s, want %q and isError %v", tool, reply.Raw, words, isError)
	}
}

func (r *sseRig) await(what string, ok func(*bridgetest.View) bool) {
	r.t.Helper()
	if err := r.up.Ledger().Wait(r.ctx, ok); err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

// delivered checks how often a tool was delivered and had its effect.
func (r *sseRig) delivered(tool string, deliveries, effects int) {
	r.t.Helper()
	l := r.up.Ledger()
	if d, e := l.Deliveries(tool), l.Effects(tool); d != deliveries || e != effects {
		r.t.Errorf("%s: %d deliveries and %d effects, want %d and %d", tool, d, e, deliveries, effects)
	}
}

// steps lists what arrived: HTTP method and, of a POST, the JSON-RPC method.
func (r *sseRig) steps() []string {
	var all []string
	for _, e := range r.up.Ledger().Entries() {
		all = append(all, strings.TrimSpace(e.HTTP+" "+cmp.Or(e.Tool, e.Method)))
	}
	return all
}

// Every host in front of a server of 2024-11-05: handshake, list, call,
// progress, log messages and the end.
func TestHTTPSSE(t *testing.T) {
	t.Parallel()
	for _, version := range []string{rev2024_11_05, rev2025_06_18, rev2025_11_25, rev2026_07_28} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newSSERig(t, sseTestConfig{}, bridgetest.HostOptions{})
			r.start(version)
			list, err := r.host.Call(r.ctx, "tools/list", "{}")
			if err != nil || !strings.Contains(string(list.Result), `"write_note"`) {
				t.Fatalf("tools/list: %s, %v", list.Raw, err)
			}
			r.says("echo", `{"text":"hello"}`, "hello", false)
			r.says("write_note", `{"key":"k"}`, "wrote k", false)
			r.says("fail", `{}`, "always does", true)
			r.delivered("write_note", 1, 1)
			reply, err := r.host.Call(r.ctx, "tools/call", `{"name":"stream","arguments":{"n":3,"interval":1},"_meta":{"progressToken":"mine"}}`)
			if err != nil || reply.IsError() {
				t.Fatalf("stream: %s, %v", reply.Raw, err)
			}
			notes := r.host.Notifications(func(m bridgetest.HostMessage) bool { return m.Method == "notifications/progress" })
			if len(notes) != 3 || !strings.Contains(string(notes[0].Params), `"progressToken":"mine"`) {
				t.Errorf("progress: %d notifications, first %s", len(notes), notes)
			}
			r.logs(version)
			r.end()
		})
	}
}

// logs checks that a log message of the server reaches the host that wants it,
// once.
func (r *sseRig) logs(version string) {
	r.t.Helper()
	params := `{"name":"stream","arguments":{"n":1,"interval":1,"log":true}`
	if version == rev2026_07_28 {
		params += `,"_meta":{"io.modelcontextprotocol/logLevel":"debug"}`
	} else if reply, err := r.host.Call(r.ctx, "logging/setLevel", `{"level":"debug"}`); err != nil || reply.Error != nil {
		r.t.Fatalf("logging/setLevel: %s, %v", reply.Raw, err)
	}
	if reply, err := r.host.Call(r.ctx, "tools/call", params+"}"); err != nil || reply.IsError() {
		r.t.Fatalf("stream: %s, %v", reply.Raw, err)
	}
	logs := r.host.Notifications(func(m bridgetest.HostMessage) bool { return m.Method == "notifications/message" })
	if len(logs) != 1 {
		r.t.Errorf("%d log messages", len(logs))
	}
}

// end closes the host's side: the bridge leaves, and its streams with it.
func (r *sseRig) end() {
	r.t.Helper()
	if err := r.host.CloseStdin(); err != nil {
		r.t.Fatal(err)
	}
	if code, err := r.host.Wait(r.ctx); err != nil || code != 3 {
		r.t.Errorf("end: exit code %d, %v, standard error: %s", code, err, r.host.Stderr())
	}
	r.await("the end of all streams", func(v *bridgetest.View) bool {
		return !slices.ContainsFunc(v.HTTP("GET"), func(e bridgetest.Entry) bool { return e.Status != 405 && !e.Has(bridgetest.MarkClosed) })
	})
}

// The era is found by probe, initialize and GET in this order, and remembered.
func TestHTTPSSEDetection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newSSERig(t, sseTestConfig{StateDir: dir}, bridgetest.HostOptions{})
	r.start(rev2025_06_18)
	r.says("write_note", `{"key":"k"}`, "wrote k", false)
	r.end()
	got := r.steps()
	want := []string{"POST server/discover", "POST initialize", "GET", "POST initialize", "POST notifications/initialized"}
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("began with %q, want %q", got, want)
	}

	r.up.Ledger().Reset()
	r.ctx, r.host = startSSEBridge(t, sseTestConfig{URL: r.up.URL(), StateDir: dir}, bridgetest.HostOptions{})
	r.start(rev2025_06_18)
	r.says("write_note", `{"key":"l"}`, "wrote l", false)
	if got := r.steps(); len(got) < 4 || !slices.Equal(got[:3], want[2:]) {
		t.Errorf("with a remembered era it began with %q, want %q", got, want[2:])
	}
}

// --transport sse sends nothing but to the stream and the address it names;
// --transport http never asks for a stream.
func TestHTTPSSETransport(t *testing.T) {
	t.Parallel()
	r := newSSERig(t, sseTestConfig{Transport: TransportSSE}, bridgetest.HostOptions{})
	r.start(rev2025_06_18)
	r.says("echo", `{"text":"hello"}`, "hello", false)
	if got := r.steps(); !slices.Equal(got[:3], []string{"GET", "POST initialize", "POST notifications/initialized"}) {
		t.Errorf("sse: %q", got)
	}
	r = newSSERig(t, sseTestConfig{Transport: TransportHTTP, Answer: 5 * time.Second}, bridgetest.HostOptions{})
	r.start(rev2025_06_18)
	r.says("write_note", `{"key":"k"}`, "405", true)
	if got := r.steps(); slices.Contains(got, "GET") || r.up.Ledger().Deliveries("write_note") != 0 {
		t.Errorf("http: %q", got)
	}
	at, err := url.Parse(r.up.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{URL: at, Transport: TransportSSE, Protocol: EraModern}); err == nil || !strings.Contains(err.Error(), "--protocol modern") {
		t.Errorf("sse and modern: %v", err)
	}
}

// A stream that breaks in the middle of a write leaves its outcome unknown. It
// is not sent again, and a new session is made before anything else goes out: a
// server refuses what comes before its handshake.
func TestHTTPSSECut(t *testing.T) {
	t.Parallel()
	r := newSSERig(t, sseTestConfig{}, bridgetest.HostOptions{})
	r.start(rev2025_06_18)
	r.says("echo", `{"text":"before"}`, "before", false)
	id := r.host.NextID()
	if err := r.host.Request(id, "tools/call", bridgetest.ToolParams("slow_write", `{"key":"k","ms":30000,"effect_at":"START"}`)); err != nil {
		t.Fatal(err)
	}
	r.await("the effect", func(v *bridgetest.View) bool { return v.Effects("slow_write") == 1 })
	r.up.DropStreams()
	reply, err := r.host.WaitReply(r.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if !reply.IsError() || !strings.HasPrefix(reply.Text(), "OUTCOME UNKNOWN") || !strings.Contains(string(reply.Raw), `"STREAM_INCOMPLETE"`) {
		t.Errorf("the cut call: %s", reply.Raw)
	}
	r.says("write_note", `{"key":"after"}`, "wrote after", false)
	r.delivered("slow_write", 1, 1)
	r.delivered("write_note", 1, 1)
	got := r.steps()
	second := slices.Index(got[slices.Index(got, "POST slow_write"):], "GET") + slices.Index(got, "POST slow_write")
	if after := got[second:]; len(after) < 4 || !slices.Equal(after[:3], []string{"GET", "POST initialize", "POST notifications/initialized"}) {
		t.Errorf("after the cut: %q", got[second:])
	}
}

// A read whose stream broke is made again, on a new session.
func TestHTTPSSECutRead(t *testing.T) {
	t.Parallel()
	r := newSSERig(t, sseTestConfig{Read: []string{"sleep"}}, bridgetest.HostOptions{})
	r.start(rev2026_07_28)
	if list, err := r.host.Call(r.ctx, "tools/list", "{}"); err != nil || list.Error != nil {
		t.Fatalf("tools/list: %s, %v", list.Raw, err)
	}
	id := r.host.NextID()
	if err := r.host.Request(id, "tools/call", bridgetest.ToolParams("sleep", `{"ms":300}`)); err != nil {
		t.Fatal(err)
	}
	r.await("the call", func(v *bridgetest.View) bool { return v.Deliveries("sleep") == 1 })
	r.up.DropStreams()
	reply, err := r.host.WaitReply(r.ctx, id)
	if err != nil || reply.IsError() || !strings.Contains(reply.Text(), "slept") {
		t.Fatalf("%s, %v", reply.Raw, err)
	}
	if n := r.up.Ledger().Deliveries("sleep"); n < 2 {
		t.Errorf("%d deliveries", n)
	}
}

// A stream that ends while nothing waits is opened again all by itself, and the
// host hears of what it may have missed.
func TestHTTPSSEReopens(t *testing.T) {
	t.Parallel()
	r := newSSERig(t, sseTestConfig{Transport: TransportSSE}, bridgetest.HostOptions{})
	r.start(rev2025_06_18)
	if r, err := r.host.Call(r.ctx, "resources/subscribe", `{"uri":"note://k"}`); err != nil || r.Error != nil {
		t.Fatalf("subscribe: %s, %v", r.Raw, err)
	}
	r.up.DropStreams()
	r.await("a second handshake", func(v *bridgetest.View) bool { return len(v.Requests("notifications/initialized")) == 2 })
	r.await("the subscription anew", func(v *bridgetest.View) bool { return len(v.Requests("resources/subscribe")) == 2 })
	for _, method := range []string{"notifications/resources/list_changed", "notifications/resources/updated"} {
		if _, err := r.host.WaitNotification(r.ctx, method); err != nil {
			t.Error(err)
		}
	}
	r.up.Notify("notifications/prompts/list_changed", nil)
	if _, err := r.host.WaitNotification(r.ctx, "notifications/prompts/list_changed"); err != nil {
		t.Error(err)
	}
}

// A POST that fails is not the end: the reply may still come on the stream.
func TestHTTPSSELateReply(t *testing.T) {
	t.Parallel()
	r := newSSERig(t, sseTestConfig{}, bridgetest.HostOptions{}, "status-after-effect:503@write_note", "status-after-effect:408@echo")
	r.start(rev2025_06_18)
	r.says("write_note", `{"key":"k"}`, "wrote k", false)
	r.says("echo", `{"text":"late"}`, "late", false)
	r.delivered("write_note", 1, 1)
	r.delivered("echo", 1, 0)
}

// A read whose POST failed and whose reply does not come is made again; a write
// is not, and is open until its delivery is given up.
func TestHTTPSSENoLateReply(t *testing.T) {
	t.Parallel()
	r := newSSERig(t, sseTestConfig{Answer: 6 * time.Second, Read: []string{"echo"}}, bridgetest.HostOptions{}, "status:503,200@echo", "status:503@write_note")
	r.start(rev2025_06_18)
	if list, err := r.host.Call(r.ctx, "tools/list", "{}"); err != nil || list.Error != nil {
		t.Fatalf("tools/list: %s, %v", list.Raw, err)
	}
	began := time.Now()
	r.says("echo", `{"text":"again"}`, "again", false)
	if took := time.Since(began); took < lateReplyGrace {
		t.Errorf("made again after %v, before the reply could have come", took)
	}
	r.delivered("echo", 2, 0)
	reply := r.call("write_note", `{"key":"k"}`)
	if !reply.IsError() || strings.HasPrefix(reply.Text(), "NOT SENT") || strings.HasPrefix(reply.Text(), "FAILED") {
		t.Errorf("write: %s", reply.Raw)
	}
	r.delivered("write_note", 1, 0)
}

// A refusal of the POST is the reply.
func TestHTTPSSERefusal(t *testing.T) {
	t.Parallel()
	r := newSSERig(t, sseTestConfig{}, bridgetest.HostOptions{}, "status:422@write_note", "406@put_item", "session-lost@unmarked_actionx1")
	r.start(rev2025_06_18)
	r.says("write_note", `{"key":"k"}`, "422", true)
	r.says("put_item", `{"key":"k"}`, "406", true)
	r.delivered("write_note", 1, 0)
	r.delivered("put_item", 1, 0)
	reply := r.call("unmarked_action", `{"key":"k"}`)
	if n := r.up.Ledger().Effects("unmarked_action"); n > 1 || reply.IsError() != (n == 0) {
		t.Errorf("in a lost session: %d effects, told %s", n, reply.Raw)
	}
	r.says("echo", `{"text":"then"}`, "then", false)
}

// Questions of the server: ping is answered here, others by the host that
// declared them.
func TestHTTPSSEQuestions(t *testing.T) {
	t.Parallel()
	answer := func(method string, _ json.RawMessage) (any, error) {
		if method != "elicitation/create" {
			return nil, fmt.Errorf("asked for %s", method)
		}
		return map[string]any{"action": "accept", "content": map[string]any{"answer": "blue"}}, nil
	}
	r := newSSERig(t, sseTestConfig{}, bridgetest.HostOptions{Answer: answer, Capabilities: `{"elicitation":{}}`})
	r.start(rev2025_06_18)
	if reply := r.call("ask", `{"kind":"ping"}`); reply.IsError() {
		t.Errorf("ping: %s", reply.Raw)
	}
	if reply := r.call("ask", `{"kind":"elicitation","key":"k","effect":true}`); reply.IsError() || !strings.Contains(string(reply.Raw), "accept") {
		t.Errorf("elicitation: %s", reply.Raw)
	}
	if n := len(r.host.Requests()); n != 1 {
		t.Errorf("the host was asked %d times", n)
	}
	if reply := r.call("ask", `{"kind":"sampling"}`); !strings.Contains(string(reply.Raw), "-32601") && !reply.IsError() {
		t.Errorf("sampling, not declared: %s", reply.Raw)
	}
	if n := len(r.host.Requests()); n != 1 {
		t.Errorf("the host was asked %d times, for what it did not declare too", n)
	}
}

// The same question reaches a modern host as input that is required.
func TestHTTPSSEQuestionToModernHost(t *testing.T) {
	t.Parallel()
	r := newSSERig(t, sseTestConfig{StateDir: t.TempDir()}, bridgetest.HostOptions{Capabilities: `{"elicitation":{}}`})
	r.start(rev2026_07_28)
	reply := r.call("ask", `{"kind":"elicitation"}`)
	var required struct {
		ResultType    string
		InputRequests map[string]json.RawMessage
		RequestState  string
	}
	if err := json.Unmarshal(reply.Result, &required); err != nil || required.ResultType != "input_required" || len(required.InputRequests) != 1 {
		t.Fatalf("first round: %s, %v", reply.Raw, err)
	}
	answers := map[string]any{}
	for name := range required.InputRequests {
		answers[name] = map[string]any{"action": "accept", "content": map[string]any{"answer": "blue"}}
	}
	params, err := json.Marshal(map[string]any{"name": "ask", "arguments": json.RawMessage(`{"kind":"elicitation"}`),
		"requestState": required.RequestState, "inputResponses": answers})
	if err != nil {
		t.Fatal(err)
	}
	reply, err = r.host.Call(r.ctx, "tools/call", string(params))
	if err != nil || reply.IsError() || !strings.Contains(string(reply.Result), "accept") {
		t.Fatalf("second round: %s, %v", reply.Raw, err)
	}
	r.delivered("ask", 1, 0)
}

// A cancelled read is cancelled at the server too, by the id that it knows.
func TestHTTPSSECancel(t *testing.T) {
	t.Parallel()
	r := newSSERig(t, sseTestConfig{Read: []string{"sleep"}}, bridgetest.HostOptions{})
	r.start(rev2025_06_18)
	if list, err := r.host.Call(r.ctx, "tools/list", "{}"); err != nil || list.Error != nil {
		t.Fatalf("tools/list: %s, %v", list.Raw, err)
	}
	id := r.host.NextID()
	if err := r.host.Request(id, "tools/call", bridgetest.ToolParams("sleep", `{"ms":30000}`)); err != nil {
		t.Fatal(err)
	}
	r.await("the call", func(v *bridgetest.View) bool { return v.Deliveries("sleep") == 1 })
	if err := r.host.Notify("notifications/cancelled", `{"requestId":`+id+`}`); err != nil {
		t.Fatal(err)
	}
	r.await("the cancel", func(v *bridgetest.View) bool { return len(v.Requests("notifications/cancelled")) == 1 })
	entries := r.up.Ledger().Requests("notifications/cancelled")
	call := r.up.Ledger().Requests("tools/call")
	if want := `"requestId":` + string(call[0].ID); !strings.Contains(entries[0].Body, want) {
		t.Errorf("cancelled: %s, want %s", entries[0].Body, want)
	}
	r.says("echo", `{"text":"then"}`, "then", false)
}
