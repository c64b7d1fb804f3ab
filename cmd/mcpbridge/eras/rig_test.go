package eras

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// Revisions of MCP that hosts of these tests speak.
const (
	v2024   = "2024-11-05"
	v2503   = "2025-03-26"
	v2506   = "2025-06-18"
	v2511   = "2025-11-25"
	modern  = "2026-07-28"
	stepMax = 20 * time.Second // for one step on a busy machine; it says nothing about the bridge
)

const (
	metaPrefix     = "io.modelcontextprotocol/"
	subscriptionID = metaPrefix + "subscriptionId"
	tasksExtension = metaPrefix + "tasks"
)

// capabilitiesOf is what a host of the revision can declare.
func capabilitiesOf(version string) string {
	switch version {
	case v2024, v2503:
		return `{"sampling":{},"roots":{"listChanged":true}}`
	case v2506:
		return `{"sampling":{},"roots":{"listChanged":true},"elicitation":{}}`
	}
	return `{"sampling":{"tools":{}},"roots":{"listChanged":true},"elicitation":{"form":{},"url":{}}}`
}

// withTasks adds the tasks extension to capabilities.
func withTasks(capabilities string) string {
	return strings.TrimSuffix(capabilities, "}") + `,"extensions":{"` + tasksExtension + `":{}}}`
}

// A rig is one process of the program between a host and a server.
type rig struct {
	t       testing.TB
	ctx     context.Context
	host    *bridgetest.Host
	up      *bridgetest.Upstream // nil where a test has a server of its own
	version string
	options rigOptions

	mu       sync.Mutex
	question []asked
}

type asked struct {
	method string
	params json.RawMessage
}

type rigOptions struct {
	version      string
	capabilities string // "": those of the version
	url          string // "": of the upstream
	dir          string // state directory; "": one of its own
	args         []string
	answer       func(method string, params json.RawMessage) (any, error)
	noAnswer     bool
	noHandshake  bool
}

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*stepMax)
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

// start starts the program as a host does and shakes hands.
func start(t testing.TB, up *bridgetest.Upstream, o rigOptions) *rig {
	t.Helper()
	r := &rig{t: t, ctx: limited(t), up: up, version: o.version, options: o}
	if o.url == "" {
		r.options.url = up.URL()
	}
	if o.dir == "" {
		r.options.dir = t.TempDir()
	}
	if o.capabilities == "" {
		r.options.capabilities = capabilitiesOf(o.version)
	}
	r.launch()
	return r
}

func (r *rig) launch() {
	r.t.Helper()
	home := r.t.TempDir()
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
	if runtime.GOOS == "windows" {
		env = append(env, "SYSTEMROOT="+os.Getenv("SYSTEMROOT"), "LOCALAPPDATA="+home, "APPDATA="+home)
	}
	command := append([]string{program(), "--state-dir=" + r.options.dir, "--server-id=crm", "--linger=0", "--log-format=json", "--log-level=info"}, r.options.args...)
	host, err := bridgetest.StartHost(bridgetest.HostOptions{
		Command: append(command, r.options.url), Env: env, Dir: home,
		Capabilities: r.options.capabilities, Answer: r.answer, NoAnswer: r.options.noAnswer, Batches: r.version == v2503,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.host = host
	r.t.Cleanup(func() { r.check(host) })
	if !r.options.noHandshake {
		r.shakeHands()
	}
}

func (r *rig) shakeHands() {
	r.t.Helper()
	var err error
	var got bridgetest.Reply
	if r.modern() {
		got, err = r.host.Discover(r.ctx)
	} else {
		got, err = r.host.Initialize(r.ctx, r.version, "")
	}
	if err != nil || got.Error != nil {
		r.t.Fatalf("handshake: %v %+v\n%s", err, got.Error, r.host.Stderr())
	}
}

// restart ends the process the hard way and starts another on the same state.
func (r *rig) restart() {
	r.t.Helper()
	r.host.Kill()
	r.launch()
}

func (r *rig) modern() bool { return r.version == modern }

// check ends the process and looks at all that it wrote.
func (r *rig) check(host *bridgetest.Host) {
	host.Kill()
	for _, v := range host.Violations() {
		r.t.Errorf("standard output: %s", v)
	}
	if log := host.Stderr(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") {
		r.t.Errorf("standard error: %s", log)
	}
	if r.modern() {
		for _, v := range modernViolations(host.Lines()) {
			r.t.Errorf("to a modern host: %s", v)
		}
	}
}

// modernViolations lists what may not be written to a modern host: anything but
// responses, notifications of a request in flight, and notifications of an
// active listen, the acknowledgment first (2026-07-28, subscriptions).
func modernViolations(lines [][]byte) []string {
	var out []string
	active := map[string]bool{}
	for _, line := range lines {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Meta  map[string]json.RawMessage `json:"_meta"`
				Token json.RawMessage            `json:"progressToken"`
			}
		}
		if json.Unmarshal(line, &m) != nil {
			continue // the host says so itself
		}
		id := string(m.Params.Meta[subscriptionID])
		switch {
		case m.Method == "":
			delete(active, string(m.ID)) // the end of a listen
		case m.ID != nil:
			out = append(out, fmt.Sprintf("a request: %.200s", line))
		case m.Method == "notifications/subscriptions/acknowledged":
			active[id] = true
		case m.Method == "notifications/progress" || m.Method == "notifications/message":
			if id != "" {
				out = append(out, fmt.Sprintf("a notification of a request with the id of a listen: %.200s", line))
			}
		case !active[id] && (id != "" || strings.HasPrefix(m.Method, "notifications/resources/") || strings.HasPrefix(m.Method, "notifications/tasks") ||
			strings.HasSuffix(m.Method, "/list_changed")):
			out = append(out, fmt.Sprintf("a notification of no active listen: %.200s", line))
		}
	}
	return out
}

// answer answers what the bridge asks a legacy host.
func (r *rig) answer(method string, params json.RawMessage) (any, error) {
	r.mu.Lock()
	r.question = append(r.question, asked{method, params})
	r.mu.Unlock()
	if r.options.answer != nil {
		return r.options.answer(method, params)
	}
	return usualAnswer(method)
}

func usualAnswer(method string) (any, error) {
	switch method {
	case "elicitation/create":
		return map[string]any{"action": "accept", "content": map[string]any{"name": "Ada"}}, nil
	case "sampling/createMessage":
		return map[string]any{"role": "assistant", "model": "m", "content": map[string]any{"type": "text", "text": "sampled"}}, nil
	case "roots/list":
		return map[string]any{"roots": []any{map[string]any{"uri": "file:///here", "name": "here"}}}, nil
	case "ping":
		return map[string]any{}, nil
	}
	return nil, &bridgetest.RPCError{Code: -32601, Message: "not known"}
}

// questions are what the host was asked so far, in either era.
func (r *rig) questions() []asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.question)
}

// call makes a request and returns its answer.
func (r *rig) call(method, params string) bridgetest.Reply {
	r.t.Helper()
	got, err := r.host.Call(r.step(), method, params)
	if err != nil {
		r.t.Fatalf("%s: %v\n%s%s", method, err, r.arrived(), r.host.Stderr())
	}
	return got
}

// arrived is what the server saw last, for people.
func (r *rig) arrived() string {
	if r.up == nil {
		return ""
	}
	var b strings.Builder
	all := r.up.Ledger().Entries()
	for _, e := range all[max(0, len(all)-40):] {
		fmt.Fprintf(&b, "%s %s %s %d %.300s\n", e.HTTP, e.Method, e.ID, e.Status, e.Body)
	}
	return b.String()
}

// step is a context for one step.
func (r *rig) step() context.Context {
	ctx, cancel := context.WithTimeout(r.ctx, stepMax)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) tool(name, arguments string) bridgetest.Reply {
	r.t.Helper()
	return r.call("tools/call", bridgetest.ToolParams(name, arguments))
}

// A round is an input_required result.
type round struct {
	ResultType    string `json:"resultType"`
	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	} `json:"inputRequests"`
	RequestState *string `json:"requestState"`
}

func roundOf(got bridgetest.Reply) (round, bool) {
	var in round
	_ = json.Unmarshal(got.Result, &in) // an error has no result
	return in, in.ResultType == "input_required"
}

// through makes a request and goes through all its rounds, as a modern host
// does by itself; a legacy one is asked by the bridge.
func (r *rig) through(method, params string) bridgetest.Reply {
	r.t.Helper()
	got := r.call(method, params)
	for range 20 {
		in, asks := roundOf(got)
		if !asks {
			return got
		}
		got = r.call(method, r.nextRound(params, in))
	}
	r.t.Fatalf("%s: rounds without end", method)
	return got
}

// nextRound is the params that answer a round.
func (r *rig) nextRound(params string, in round) string {
	r.t.Helper()
	answers := map[string]any{}
	for name, q := range in.InputRequests {
		a, err := r.answer(q.Method, q.Params)
		if err != nil {
			r.t.Fatalf("%s cannot be answered: %v", q.Method, err)
		}
		answers[name] = a
	}
	more := map[string]any{"inputResponses": answers}
	if in.RequestState != nil {
		more["requestState"] = *in.RequestState
	}
	return with(params, more)
}

// with adds members to a JSON object.
func with(object string, more map[string]any) string {
	var f map[string]json.RawMessage // what is there keeps its bytes
	if err := json.Unmarshal([]byte(object), &f); err != nil {
		panic(err) // a mistake in a test
	}
	for name, value := range more {
		b, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		f[name] = b
	}
	b, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// at reads the value at a path of object keys and array indexes.
func at(raw []byte, path ...string) string {
	value := json.RawMessage(raw)
	for _, name := range path {
		if i, err := strconv.Atoi(name); err == nil {
			var list []json.RawMessage
			if json.Unmarshal(value, &list) != nil || i >= len(list) {
				return ""
			}
			value = list[i]
			continue
		}
		var f map[string]json.RawMessage
		if json.Unmarshal(value, &f) != nil {
			return ""
		}
		value = f[name]
	}
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

// want fails the test unless got contains each of the parts.
func want(t testing.TB, what, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("%s: %q is not in %.1500s", what, p, got)
		}
	}
}

// wantNot fails the test if got contains one of the parts.
func wantNot(t testing.TB, what, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(got, p) {
			t.Errorf("%s: %q is in %.1500s", what, p, got)
		}
	}
}

// listen opens a subscription and waits for its acknowledgment.
func (r *rig) listen(id, filter string) bridgetest.HostMessage {
	r.t.Helper()
	if err := r.host.Request(id, "subscriptions/listen", `{"notifications":`+filter+`}`); err != nil {
		r.t.Fatal(err)
	}
	return r.notice("notifications/subscriptions/acknowledged", id)
}

// notice waits for a notification of the listen with the id, as JSON.
func (r *rig) notice(method, id string) bridgetest.HostMessage {
	r.t.Helper()
	m, err := r.host.WaitMessage(r.step(), method+" for "+id, func(m bridgetest.HostMessage) bool {
		return m.Method == method && rawAt(m.Params, "_meta", subscriptionID) == id
	})
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.host.Stderr())
	}
	return m
}

// rawAt is at for values whose bytes matter.
func rawAt(raw []byte, path ...string) string {
	value := json.RawMessage(raw)
	for _, name := range path {
		var f map[string]json.RawMessage
		if json.Unmarshal(value, &f) != nil {
			return ""
		}
		value = f[name]
	}
	return string(value)
}

// seen waits until the server has a request that ok accepts.
func (r *rig) seen(what string, ok func(bridgetest.Entry) bool) {
	r.t.Helper()
	err := r.up.Ledger().Wait(r.step(), func(v *bridgetest.View) bool { return slices.ContainsFunc(v.Entries(), ok) })
	if err != nil {
		r.t.Fatalf("the server never saw %s: %v\n%s", what, err, r.host.Stderr())
	}
}

// method is a condition for seen: a request with the method whose body contains
// each part, answered if it has an answer.
func method(name string, parts ...string) func(bridgetest.Entry) bool {
	return func(e bridgetest.Entry) bool {
		return e.Method == name && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(e.Body, p) })
	}
}

func answered(name string, parts ...string) func(bridgetest.Entry) bool {
	is := method(name, parts...)
	return func(e bridgetest.Entry) bool { return is(e) && e.Has(bridgetest.MarkReply) }
}

// untilHeard does something at the server again and again until the host has a
// message that match accepts: when a subscription begins to count shows nowhere.
func (r *rig) untilHeard(what string, do func(), match func(bridgetest.HostMessage) bool) bridgetest.HostMessage {
	r.t.Helper()
	for range 100 {
		do()
		ctx, cancel := context.WithTimeout(r.ctx, stepMax/100)
		m, err := r.host.WaitMessage(ctx, what, match)
		cancel()
		if err == nil {
			return m
		}
	}
	r.t.Fatalf("the host never heard of %s\n%s", what, r.host.Stderr())
	return bridgetest.HostMessage{}
}

// moment lets a little time pass between two looks at something.
func (r *rig) moment() {
	ctx, cancel := context.WithTimeout(r.ctx, stepMax/100)
	defer cancel()
	_, _ = r.host.WaitMessage(ctx, "nothing", func(bridgetest.HostMessage) bool { return false }) // the time is over, or the host
}
