package eras

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// asking starts a modern host in front of a legacy server.
func asking(t *testing.T, tools ...bridgetest.Tool) *rig {
	t.Helper()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy, Tasks: true, Tools: append(serverTools(), tools...)})
	return start(t, up, rigOptions{version: modern, args: []string{"--answer-within=10s"}})
}

const askParams = `{"name":"ask","arguments":{"kind":"elicitation","key":"k","effect":true}}`

// asks makes a call that must be answered with questions.
func (r *rig) asks(params string) round {
	r.t.Helper()
	got := r.call("tools/call", params)
	in, ok := roundOf(got)
	if !ok || in.RequestState == nil {
		r.t.Fatalf("not input_required with a state: %s\n%s", got.Raw, r.host.Stderr())
	}
	return in
}

// refusedRound checks that a next round is refused, with nothing sent.
func (r *rig) refusedRound(params, why string) {
	r.t.Helper()
	before := r.count("tools/call")
	got := r.call("tools/call", params)
	if got.Error == nil || got.Error.Code != -32602 || !strings.Contains(got.Error.Message, why) {
		r.t.Errorf("round: %s, want -32602 and %q", got.Raw, why)
	}
	if n := r.count("tools/call"); n != before {
		r.t.Errorf("%d calls were sent", n-before)
	}
}

func TestRoundState(t *testing.T) {
	t.Parallel()
	r := asking(t)
	in := r.asks(askParams)
	next := r.nextRound(askParams, in)
	state := *in.RequestState
	for _, forged := range []string{state[:len(state)-4] + "AAAA", "mcpbridge.e30.AAAA", "mcpbridge.", state + "x"} {
		r.refusedRound(with(next, map[string]any{"requestState": forged}), "not made here")
	}
	r.refusedRound(with(next, map[string]any{"arguments": map[string]any{"kind": "elicitation", "key": "other", "effect": true}}), "another request")
	r.refusedRound(with(next, map[string]any{"name": "put_item"}), "another request")
	// A round may say the same arguments in other words.
	same := with(next, map[string]any{"arguments": json.RawMessage(`{"effect":true , "key":"\u006b","kind":"elicitation"}`)})
	want(t, "next round", r.ok(r.call("tools/call", same)), "Ada")
	r.refusedRound(next, "used before")
	if n := r.up.Ledger().EffectsOf("ask", "k"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

func TestRoundExpires(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
	r := start(t, up, rigOptions{version: modern, args: []string{"--input-timeout=1s"}})
	in := r.asks(askParams)
	// Nobody within --input-timeout: the server is answered cancel and goes on.
	r.seen("the cancel", func(e bridgetest.Entry) bool { return e.Method == "" && strings.Contains(e.Body, `"cancel"`) })
	r.seen("the reply", func(e bridgetest.Entry) bool { return e.Has(bridgetest.MarkEffect) && e.Has(bridgetest.MarkReply) })
	if err := r.host.WaitStderr(r.step(), `"settled"`); err != nil {
		t.Fatal(err)
	}
	got := r.call("tools/call", r.nextRound(askParams, in))
	for range 100 { // the state counts whole seconds
		if got.Error == nil || got.Error.Code != -32602 {
			t.Fatalf("late round: %s", got.Raw)
		}
		if strings.Contains(got.Error.Message, "expired") {
			break
		}
		got = r.call("tools/call", r.nextRound(askParams, in))
	}
	if n := r.count("tools/call"); n != 1 {
		t.Errorf("%d calls at the server, want 1", n)
	}
}

func TestRoundOfAnotherPrincipal(t *testing.T) {
	t.Parallel()
	r := asking(t)
	in := r.asks(askParams)
	other := start(t, r.up, rigOptions{version: modern, dir: r.options.dir, args: []string{"--principal=somebody-else"}})
	other.refusedRound(r.nextRound(askParams, in), "another request")
}

func TestRoundThroughAnotherProcess(t *testing.T) {
	t.Parallel()
	r := asking(t)
	in := r.asks(askParams)
	other := start(t, r.up, rigOptions{version: modern, dir: r.options.dir})
	got := other.ok(other.call("tools/call", other.nextRound(askParams, in)))
	want(t, "next round", got, "Ada")
	if n := r.up.Ledger().EffectsOf("ask", "k"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	other.refusedRound(r.nextRound(askParams, in), "used before")
}

func TestRoundWhoseOwnerIsGone(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
	r := start(t, up, rigOptions{version: modern, args: []string{"--linger=0"}})
	in := r.asks(askParams)
	r.restart()
	got := r.call("tools/call", r.nextRound(askParams, in))
	want(t, "next round", got.Text(), "OUTCOME UNKNOWN")
	if n := r.count("tools/call"); n != 1 {
		t.Errorf("%d calls at the server, want 1", n)
	}
}

func TestFreshCallGetsTheSameQuestion(t *testing.T) {
	t.Parallel()
	r := asking(t)
	first := r.asks(askParams)
	second := r.asks(askParams)
	for name := range first.InputRequests {
		if _, ok := second.InputRequests[name]; !ok {
			t.Errorf("question %s is not asked again: %v", name, second.InputRequests)
		}
	}
	want(t, "answer", r.ok(r.call("tools/call", r.nextRound(askParams, second))), "Ada")
	if n := r.count("tools/call"); n != 1 {
		t.Errorf("%d calls at the server, want 1", n)
	}
}

// TestRoundWithoutAnswers: the same question again, not an error.
func TestRoundWithoutAnswers(t *testing.T) {
	t.Parallel()
	r := asking(t)
	in := r.asks(askParams)
	again := r.asks(with(askParams, map[string]any{"requestState": *in.RequestState, "inputResponses": map[string]any{}}))
	want(t, "answer", r.ok(r.call("tools/call", r.nextRound(askParams, again))), "Ada")
}

// TestLateQuestionAtTheJobTool: a question that comes after the handle was given
// out is put to whoever asks for the job.
func TestLateQuestionAtTheJobTool(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{{modern, bridgetest.Legacy}, {modern, bridgetest.Modern}, {v2511, bridgetest.Legacy}, {v2511, bridgetest.Modern}, {v2506, bridgetest.Legacy}} {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t, bridgetest.Options{Era: p.era, Tools: serverTools()})
			r := start(t, up, rigOptions{version: p.version, args: []string{"--answer-within=1500ms"}})
			got := r.ok(r.tool("late_ask", "{}"))
			want(t, "handle", got, "STILL RUNNING")
			want(t, "job", r.jobEnd(got), "answered", "Ada")
			if len(r.questions()) != 1 {
				t.Errorf("asked %v, want one question", r.questions())
			}
		})
	}
}

// oddQuestion asks with params of its own.
func oddQuestion(name, method, params string) bridgetest.Tool {
	return bridgetest.Tool{Name: name, Annotations: []byte(`{"readOnlyHint":true}`), Run: func(c *bridgetest.Call) (any, error) {
		a, err := c.Ask("q", method, json.RawMessage(params))
		if err != nil {
			return nil, err
		}
		return bridgetest.Text(string(a)), nil
	}}
}

func TestIncludeContext(t *testing.T) {
	t.Parallel()
	tool := oddQuestion("sample", "sampling/createMessage", `{"messages":[],"maxTokens":1,"includeContext":"allServers"}`)
	for _, c := range []struct {
		pair
		capabilities, want string
	}{
		{pair{modern, bridgetest.Legacy}, `{"sampling":{}}`, "none"},
		{pair{modern, bridgetest.Legacy}, `{"sampling":{"context":{}}}`, "allServers"},
		{pair{v2511, bridgetest.Modern}, `{"sampling":{}}`, "none"},
		{pair{v2511, bridgetest.Legacy}, `{"sampling":{}}`, "allServers"}, // peers of one era
	} {
		up := startUpstream(t, bridgetest.Options{Era: c.era, Tools: []bridgetest.Tool{tool}})
		r := start(t, up, rigOptions{version: c.version, capabilities: c.capabilities})
		r.ok(r.through("tools/call", bridgetest.ToolParams("sample", "{}")))
		if got := at(r.questions()[0].params, "includeContext"); got != c.want {
			t.Errorf("%s with %s: includeContext %q, want %q", c.pair, c.capabilities, got, c.want)
		}
	}
}

func TestSamplingResultOfManyBlocks(t *testing.T) {
	t.Parallel()
	blocks := func(string, json.RawMessage) (any, error) {
		return json.RawMessage(`{"role":"assistant","model":"m","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}`), nil
	}
	tool := oddQuestion("sample", "sampling/createMessage", `{"messages":[],"maxTokens":1}`)
	for _, c := range []struct {
		offered []string
		both    bool
	}{{[]string{v2511}, true}, {[]string{v2506}, false}} {
		up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy, Tools: []bridgetest.Tool{tool}, LegacyOffered: c.offered})
		r := start(t, up, rigOptions{version: modern, answer: blocks})
		got := r.through("tools/call", bridgetest.ToolParams("sample", "{}")).Text()
		if strings.Contains(got, `"content":[`) != c.both || strings.Contains(got, "two") != c.both {
			t.Errorf("server of %v got %s", c.offered, got)
		}
	}
}

// TestUndeclaredQuestions: each is answered at once, nobody is asked.
func TestUndeclaredQuestions(t *testing.T) {
	t.Parallel()
	tools := []bridgetest.Tool{
		oddQuestion("form", "elicitation/create", `{"message":"m","requestedSchema":{"type":"object","properties":{}}}`),
		oddQuestion("url", "elicitation/create", `{"mode":"url","message":"m","url":"https://example.com","elicitationId":"e"}`),
		oddQuestion("tools", "sampling/createMessage", `{"messages":[],"maxTokens":1,"tools":[]}`),
		oddQuestion("pings", "ping", `{}`),
	}
	for _, v := range []string{modern, v2511} {
		up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy, Tools: tools})
		r := start(t, up, rigOptions{version: v, capabilities: `{"elicitation":{"url":{}},"sampling":{}}`})
		want(t, "form", r.tool("form", "{}").Text(), `{"action":"cancel"}`)
		want(t, "sampling with tools", r.tool("tools", "{}").Text(), "-32601")
		want(t, "ping", r.tool("pings", "{}").Text(), "{}")
		if n := len(r.questions()); n > 0 {
			t.Errorf("%s: asked %d questions", v, n)
		}
		want(t, "url", r.through("tools/call", bridgetest.ToolParams("url", "{}")).Text(), "accept")
	}
}

func TestURLRequired(t *testing.T) {
	t.Parallel()
	visited := false
	tool := bridgetest.Tool{Name: "needs_url", Run: func(*bridgetest.Call) (any, error) {
		if visited {
			return bridgetest.Text("done"), nil
		}
		visited = true
		return nil, &bridgetest.RPCError{Code: -32042, Message: "go there first", Data: map[string]any{"elicitations": []any{
			map[string]any{"mode": "url", "elicitationId": "one", "url": "https://example.com/1", "message": "first"},
			map[string]any{"mode": "url", "elicitationId": "two", "url": "https://example.com/2", "message": "second"},
		}}}
	}}
	r := asking(t, tool)
	params := bridgetest.ToolParams("needs_url", "{}")
	in, ok := roundOf(r.call("tools/call", params))
	if !ok || len(in.InputRequests) != 2 {
		t.Fatalf("not two questions: %+v", in)
	}
	for _, q := range in.InputRequests {
		want(t, "question", string(q.Params), "https://example.com/")
		wantNot(t, "question", string(q.Params), "elicitationId")
	}
	want(t, "next round", r.call("tools/call", r.nextRound(params, in)).Text(), "done")
	for _, e := range r.up.Ledger().Requests("tools/call") {
		wantNot(t, "body", e.Body, "inputResponses")
	}
	visited = false
	legacy := start(t, r.up, rigOptions{version: v2511})
	if got := legacy.call("tools/call", params); got.Error == nil || got.Error.Code != -32042 {
		t.Errorf("legacy host: %s, want -32042 as it is", got.Raw)
	}
}

// TestServerTakesItsQuestionBack: the host is told, with the id that it knows.
func TestServerTakesItsQuestionBack(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
	r := start(t, up, rigOptions{version: v2511, noAnswer: true})
	if err := up.WaitListeners(r.step(), 1); err != nil {
		t.Fatal(err)
	}
	up.AskOnGET("theirs", "roots/list", nil)
	q, err := r.host.WaitRequest(r.step(), "roots/list")
	if err != nil {
		t.Fatal(err)
	}
	up.Notify("notifications/cancelled", map[string]any{"requestId": "theirs"})
	m, err := r.host.WaitNotification(r.step(), "notifications/cancelled")
	if err != nil {
		t.Fatal(err)
	}
	if got := rawAt(m.Params, "requestId"); got != string(q.ID) {
		t.Errorf("cancelled %s, asked under %s", got, q.ID)
	}
}

// TestQuestionsOnGET: a legacy host is asked there, for a modern one the bridge
// answers: roots as a host said last.
func TestQuestionsOnGET(t *testing.T) {
	t.Parallel()
	for _, v := range []string{v2511, modern} {
		up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
		r := start(t, up, rigOptions{version: v})
		r.ok(r.tool("now", "{}"))
		if v == modern {
			r.ok(r.through("tools/call", bridgetest.ToolParams("ask", `{"kind":"roots","key":"r"}`)))
		}
		if err := up.WaitListeners(r.step(), 1); err != nil {
			t.Fatal(err)
		}
		up.AskOnGET("roots", "roots/list", nil)
		up.AskOnGET("ping", "ping", nil)
		answer := func(id, part string) func(bridgetest.Entry) bool {
			return func(e bridgetest.Entry) bool {
				return e.Method == "" && rawAt([]byte(e.Body), "id") == fmt.Sprintf("%q", id) && strings.Contains(e.Body, part)
			}
		}
		r.seen("the answer to roots/list", answer("roots", "file:///here"))
		r.seen("the answer to ping", answer("ping", `"result":{}`))
	}
}

// TestRoundsAreBounded: ten rounds with questions, and those without one at a
// growing pace; each with the exact requestState, or none if none was given.
func TestRoundsAreBounded(t *testing.T) {
	t.Parallel()
	const state = `"sta\u0074e"`
	questions := `{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list"}}`
	for _, c := range []struct{ name, result, state string }{
		{"questions", questions + `,"requestState":` + state + `}`, state},
		{"questions without a state", questions + `}`, ""},
	} {
		s := startStub(t, func(_ *stub, w http.ResponseWriter, _ *http.Request, m request) bool {
			if m.Method == "tools/call" {
				result(w, m, c.result)
			}
			return m.Method == "tools/call"
		})
		r := start(t, nil, rigOptions{version: v2511, url: s.URL})
		want(t, c.name, string(r.tool("act", "{}").Raw), "10 times")
		if n := len(r.questions()); n != 10 {
			t.Errorf("%s: asked %d times, want 10", c.name, n)
		}
		for i, m := range s.requests("tools/call") {
			if got := rawAt(m.Params, "requestState"); i > 0 && got != c.state {
				t.Errorf("%s: round %d has requestState %s", c.name, i, got)
			}
			if i > 0 && string(m.ID) == string(s.requests("tools/call")[i-1].ID) {
				t.Errorf("%s: rounds %d and %d have one id", c.name, i-1, i)
			}
		}
	}
	s := startStub(t, func(_ *stub, w http.ResponseWriter, _ *http.Request, m request) bool {
		if m.Method == "tools/call" {
			result(w, m, `{"resultType":"input_required","requestState":"wait"}`)
		}
		return m.Method == "tools/call"
	})
	r := start(t, nil, rigOptions{version: v2511, url: s.URL, args: []string{"--answer-within=4s", "--job-timeout=6s"}})
	r.tool("act", "{}")
	calls := s.requests("tools/call")
	if n := len(calls); n < 2 || n > 3 {
		t.Errorf("%d rounds without a question in 4 s, want 2 or 3", n)
	}
	if len(calls) > 2 && calls[2].At.Sub(calls[1].At) < calls[1].At.Sub(calls[0].At)+500*time.Millisecond {
		t.Error("the pace does not grow")
	}
}

// TestRoundsOfTheServer: between modern peers the state is the server's, byte
// for byte, and a next round is no repeat.
func TestRoundsOfTheServer(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern})
	r := start(t, up, rigOptions{version: modern})
	in := r.asks(askParams)
	if strings.HasPrefix(*in.RequestState, "mcpbridge.") {
		t.Error("the state is not the server's")
	}
	other := start(t, up, rigOptions{version: modern, dir: r.options.dir})
	want(t, "next round", other.ok(other.call("tools/call", r.nextRound(askParams, in))), "Ada")
	if n := up.Ledger().EffectsOf("ask", "k"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// TestHostThatErrs: what a legacy host's refusal becomes for a modern server.
func TestHostThatErrs(t *testing.T) {
	t.Parallel()
	refuse := func(string, json.RawMessage) (any, error) {
		return nil, &bridgetest.RPCError{Code: -1, Message: "user rejected sampling"}
	}
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern})
	r := start(t, up, rigOptions{version: v2511, answer: refuse})
	want(t, "elicitation", r.ok(r.tool("ask", `{"kind":"elicitation","key":"1"}`)), `"action":"cancel"`)
	want(t, "roots", r.ok(r.tool("ask", `{"kind":"roots","key":"2"}`)), `"roots":[]`)
	if got := r.tool("ask", `{"kind":"sampling","key":"3"}`); got.Error == nil || got.Error.Code != -1 {
		t.Errorf("sampling: %s, want the host's error", got.Raw)
	}
}

func TestElicitationComplete(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern})
	r := start(t, up, rigOptions{version: v2511})
	r.ok(r.tool("ask", `{"kind":"url","key":"1"}`))
	m, err := r.host.WaitNotification(r.step(), "notifications/elicitation/complete")
	if err != nil {
		t.Fatal(err)
	}
	if id := at(r.questions()[0].params, "elicitationId"); id == "" || at(m.Params, "elicitationId") != id {
		t.Errorf("asked with id %q, completed %s", id, m.Params)
	}
}

// jobList is what "mcpbridge jobs list --json" says of the state directory.
func (r *rig) jobList() string {
	r.t.Helper()
	out, err := exec.CommandContext(r.step(), program(), "jobs", "list", "--json", "--state-dir", r.options.dir).Output()
	if err != nil {
		r.t.Fatalf("jobs list: %v", err)
	}
	return string(out)
}

// TestRoundOfTheServerExpires: between modern peers nothing runs for a round that
// nobody answers. The job has failed, may have had effects, and guards nothing.
func TestRoundOfTheServerExpires(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern})
	r := start(t, up, rigOptions{version: modern, args: []string{"--input-timeout=1s"}})
	in := r.asks(askParams)
	list := r.jobList()
	for range 100 {
		if strings.Contains(list, "input_expired") {
			break
		}
		r.moment()
		list = r.jobList()
	}
	want(t, "the job", list, `"state":"failed"`, `"effect":"possible"`, `"evidence":"input_expired"`)
	// A round that comes too late is told what became of its job, and not sent.
	want(t, "late round", r.call("tools/call", r.nextRound(askParams, in)).Text(), "FAILED", "nobody answered")
	if n := r.count("tools/call"); n != 1 {
		t.Errorf("%d calls at the server, want 1", n)
	}
	r.asks(askParams) // a fresh call is not held back
}

// TestRoundOfAnotherDirectory: a state made under another directory's key is
// forged here, be all else the same.
func TestRoundOfAnotherDirectory(t *testing.T) {
	t.Parallel()
	r := asking(t)
	other := start(t, r.up, rigOptions{version: modern})
	mine, theirs := r.asks(askParams), other.asks(askParams)
	r.refusedRound(r.nextRound(askParams, theirs), "not made here")
	want(t, "my own", r.ok(r.call("tools/call", r.nextRound(askParams, mine))), "Ada")
}

// TestVisitsArePaced: after the accept of a URL the next round only asks whether
// the visit is over, and does so at a growing pace.
func TestVisitsArePaced(t *testing.T) {
	t.Parallel()
	const visit = `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://example.com/"}}}}`
	rounds := 0
	s := modernCall(t, func(w http.ResponseWriter, m request) {
		if rounds++; rounds <= 2 {
			result(w, m, visit)
			return
		}
		result(w, m, `{"resultType":"complete","content":[{"type":"text","text":"visited"}]}`)
	})
	r := start(t, nil, rigOptions{version: v2511, url: s.URL})
	want(t, "call", r.ok(r.tool("act", "{}")), "visited")
	calls := s.requests("tools/call")
	if len(calls) != 3 {
		t.Fatalf("%d rounds, want 3", len(calls))
	}
	for i, least := range []time.Duration{time.Second, 2 * time.Second} {
		if got := calls[i+1].At.Sub(calls[i].At); got < least {
			t.Errorf("round %d came after %v, want %v at least", i+2, got, least)
		}
	}
}
