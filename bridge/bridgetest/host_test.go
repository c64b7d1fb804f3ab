package bridgetest

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

func startChild(t *testing.T, o HostOptions) *Host {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Command = []string{exe}
	o.Env = append(os.Environ(), "BRIDGETEST_CHILD=answer")
	h, err := StartHost(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Kill)
	return h
}

func TestHostCalls(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	h := startChild(t, HostOptions{Capabilities: `{"roots":{}}`})
	if _, err := h.Initialize(ctx, "2025-11-25", ""); err != nil {
		t.Fatal(err)
	}
	r, err := h.CallID(ctx, `"big 9007199254740993"`, "tools/list", `{"n":9007199254740993}`)
	if err != nil || string(r.Result) != `{"params":{"n":9007199254740993}}` {
		t.Errorf("params changed on the way: %s, %v", r.Result, err)
	}
	if r, err = h.Discover(ctx); err != nil {
		t.Fatal(err)
	}
	meta := open(open(r.Result).fields["params"]).open("_meta")
	if meta.string(metaVersion) != "2026-07-28" || !meta.open(metaCapabilities).has("roots") {
		t.Errorf("_meta of a modern request: %s", r.Raw)
	}
	if _, err := h.CallTool(ctx, "echo", `{"a":1}`); err != nil {
		t.Error(err)
	}
	if m, err := h.WaitNotification(ctx, "notifications/seen"); err != nil || !strings.Contains(string(m.Params), "initialize") {
		t.Errorf("notification %s, %v", m.Raw, err)
	}
	if n := len(h.Notifications(nil)); n != 4 {
		t.Errorf("%d notifications, want 4", n)
	}
	if v := h.Violations(); v != nil {
		t.Errorf("violations: %q", v)
	}
	if n := len(h.Lines()); n != 8 {
		t.Errorf("%d lines, want 8", n)
	}
	if err := h.WaitStderr(ctx, "child is up"); err != nil {
		t.Error(err)
	}
}

func TestHostFindsViolations(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{
		"twice":     "2 answers",
		"noise":     "no JSON",
		"duplicate": "duplicate",
		"stranger":  "not asked",
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			h := startChild(t, HostOptions{})
			if err := h.Request(`"first"`, method, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := h.Call(ctx, "after", ""); err != nil {
				t.Fatal(err)
			}
			if v := h.Violations(); len(v) == 0 || !strings.Contains(v[0], want) {
				t.Errorf("violations %q, want one with %q", v, want)
			}
		})
	}
}

func TestCheckLine(t *testing.T) {
	t.Parallel()
	for line, ok := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                     true,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`:        true,
		`{"jsonrpc":"2.0","id":null,"result":{}}`:                                  false,
		`{"jsonrpc":"2.0","method":"n"}`:                                           true,
		`{"jsonrpc":"2.0","id":1}`:                                                 false,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`:                          false,
		`{"jsonrpc":"1.0","id":1,"result":{}}`:                                     false,
		`{"jsonrpc":"2.0","id":true,"result":{}}`:                                  false,
		`[{"jsonrpc":"2.0","id":1,"result":{}}]`:                                   false,
		`{"jsonrpc":"2.0","id":1,"result":{}}{"jsonrpc":"2.0","id":2,"result":{}}`: false,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\u2028\"}}":             false,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\xff\"}}":               false,
		``: false,
		`{"jsonrpc":"2.0","id":"a b","method":"x","params":{"deep":{"k":1,"k":2}}}`: false,
	} {
		if _, err := checkLine([]byte(line), true); (err == nil) != ok {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, err := checkLine([]byte(`{"jsonrpc":"2.0","method":"n"}`), false); err == nil {
		t.Error("a last line without its end was accepted")
	}
}

func TestHostAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(string, json.RawMessage) (any, error)
		want   string
	}{
		"by itself": {nil, `"result":{}`},
		"by a function": {func(method string, _ json.RawMessage) (any, error) {
			return map[string]any{"asked": method}, nil
		}, `"asked":"ping"`},
		"by an error": {func(string, json.RawMessage) (any, error) {
			return nil, &RPCError{Code: -1, Message: "not now"}
		}, `"not now"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startChild(t, HostOptions{Answer: c.answer})
			r, err := h.Call(testContext(t), "question", "")
			if err != nil || !strings.Contains(string(r.Result), c.want) {
				t.Errorf("%s, %v", r.Raw, err)
			}
			if len(h.Requests()) != 1 {
				t.Errorf("%d requests, want 1", len(h.Requests()))
			}
		})
	}
}

func TestHostEnds(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	h := startChild(t, HostOptions{})
	if err := h.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	if code, err := h.Wait(ctx); code != 0 || err != nil {
		t.Errorf("after EOF: %d, %v", code, err)
	}
	h = startChild(t, HostOptions{})
	if _, err := h.Call(ctx, "exit", ""); err == nil {
		t.Error("a process that ended has answered")
	}
	if code, err := h.Wait(ctx); code != 7 || err != nil {
		t.Errorf("after exit 7: %d, %v", code, err)
	}
	h.Kill() // of one that has ended
	h = startChild(t, HostOptions{})
	h.Kill()
	if code, _ := h.Wait(ctx); code == 0 {
		t.Error("a killed process ended well")
	}
	if _, err := StartHost(HostOptions{Command: []string{"/no/such/program"}}); err == nil {
		t.Error("a program that is not there was started")
	}
}

func TestReply(t *testing.T) {
	t.Parallel()
	r := Reply{Result: encode(Failure("no"))}
	if r.Text() != "no" || !r.IsError() {
		t.Errorf("%q, %v", r.Text(), r.IsError())
	}
	if r = (Reply{}); r.Text() != "" || r.IsError() {
		t.Error("an empty reply says something")
	}
	if got := ToolParams(`a"b`, ""); got != `{"name":"a\"b","arguments":{}}` {
		t.Error(got)
	}
	if !slices.Equal(line("", "m", ""), []byte(`{"jsonrpc":"2.0","method":"m"}`)) {
		t.Errorf("%s", line("", "m", ""))
	}
}
