package eras

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// A feature is one row of the matrix. check fails its test where the rules are
// broken, and says what happened.
type feature struct {
	name  string
	check func(*rig, pair) string
}

// A group of features shares a process and a server.
type group struct {
	options  func(pair) rigOptions
	features []feature
}

func groups() []group {
	plain := func(p pair) rigOptions { return rigOptions{version: p.version} }
	tasks := func(p pair) rigOptions {
		o := rigOptions{version: p.version, args: []string{"--answer-within=1500ms"}}
		if p.version == modern {
			o.capabilities = withTasks(capabilitiesOf(modern))
		}
		return o
	}
	return []group{
		{plain, []feature{
			{"tools", checkTools}, {"resources", checkResources}, {"prompts", checkPrompts}, {"completion", checkCompletion},
			{"ping", checkPing},
			{"elicitation, form", checkAsk("elicitation", "elicitation/create")},
			{"elicitation, URL", checkAsk("url", "elicitation/create")},
			{"sampling", checkAsk("sampling", "sampling/createMessage")},
			{"roots", checkAsk("roots", "roots/list")},
			{"resource updates", checkUpdates}, {"list changes", checkListChanges},
			{"logging", checkLogging}, {"progress", checkProgress}, {"cancellation", checkCancel},
			{"tasks of the server, for a host without tasks", checkTaskUnseen},
			{"a task of the server that asks", checkTaskAsks},
		}},
		{tasks, []feature{
			{"long calls", checkLong}, {"a long call that asks", checkLongAsks}, {"tasks of the server, for a host with tasks", checkTaskSeen},
			{"tasks/cancel", checkTaskCancel},
		}},
	}
}

// Words of the cells.
const (
	works = "works"
	here  = "answered here"
)

func translated(how string) string { return "translated: " + how }
func refused(rule string) string   { return "refused: " + rule }

// count says how many requests with the method the server has.
func (r *rig) count(method string) int { return len(r.up.Ledger().Requests(method)) }

// passed says that a request reached the server as it is, unless it did not.
func (r *rig) passed(methods ...string) string {
	for _, m := range methods {
		if r.count(m) == 0 {
			return here
		}
	}
	return works
}

func (r *rig) want(what, got string, parts ...string) { r.t.Helper(); want(r.t, what, got, parts...) }

// ok returns the result of a request that must have one.
func (r *rig) ok(got bridgetest.Reply) string {
	r.t.Helper()
	if got.Error != nil || got.IsError() {
		r.t.Errorf("error: %.600s\n%.3000s", got.Raw, r.host.Stderr())
	}
	if r.modern() && at(got.Result, "resultType") == "" {
		r.t.Errorf("no resultType for a modern host: %.300s", got.Raw)
	}
	if !r.modern() {
		for _, k := range []string{"resultType", "ttlMs", "cacheScope"} {
			if at(got.Result, k) != "" {
				r.t.Errorf("%s for a legacy host: %.300s", k, got.Raw)
			}
		}
	}
	return string(got.Result)
}

func checkTools(r *rig, p pair) string {
	list := r.ok(r.call("tools/list", ""))
	r.want("tools/list", list, `"echo"`, `"mcpbridge_job"`)
	if p.version == modern && p.era == bridgetest.Legacy {
		wantNot(r.t, "tools/list", list, `"taskSupport"`)
	}
	r.want("echo", r.ok(r.tool("echo", `{"text":"hällo"}`)), "hällo")
	return r.passed("tools/call")
}

func checkResources(r *rig, p pair) string {
	r.want("list", r.ok(r.call("resources/list", "")), "test://static/readme")
	r.want("templates", r.ok(r.call("resources/templates/list", "")), "uriTemplate")
	r.want("read", r.ok(r.call("resources/read", `{"uri":"test://static/readme"}`)), "never changes")
	got := r.call("resources/read", `{"uri":"test://nowhere"}`)
	code := -32002
	if p.version == modern || p.era == bridgetest.Modern {
		code = -32602
	}
	if got.Error == nil || got.Error.Code != code {
		r.t.Errorf("unknown resource: %s, want code %d", got.Raw, code)
	}
	return r.passed("resources/list", "resources/templates/list", "resources/read")
}

func checkPrompts(r *rig, _ pair) string {
	r.want("list", r.ok(r.call("prompts/list", "")), "greet")
	r.want("get", r.ok(r.call("prompts/get", `{"name":"greet","arguments":{"name":"Ada"}}`)), "Greet Ada")
	return r.passed("prompts/list", "prompts/get")
}

func checkCompletion(r *rig, _ pair) string {
	r.want("complete", r.ok(r.call("completion/complete",
		`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"style","value":"f"}}`)), "friendly")
	return r.passed("completion/complete")
}

func checkPing(r *rig, _ pair) string {
	got := r.call("ping", "")
	if n := r.count("ping"); n > 0 {
		r.t.Errorf("%d pings at the server", n)
	}
	if r.modern() {
		if got.Error == nil || got.Error.Code != -32601 {
			r.t.Errorf("ping: %s", got.Raw)
		}
		return refused("2026-07-28 has none")
	}
	r.ok(got)
	return here
}

// declares says whether hosts of the revision can be asked for the kind.
func declares(version, kind string) bool {
	switch kind {
	case "elicitation":
		return version >= v2506
	case "url":
		return version >= v2511
	}
	return true
}

// checkAsk: the server asks, the host is asked in its own way, and the answer
// gets back.
func checkAsk(kind, method string) func(*rig, pair) string {
	return func(r *rig, p pair) string {
		before := len(r.questions())
		got := r.through("tools/call", bridgetest.ToolParams("ask", fmt.Sprintf(`{"kind":%q,"rounds":2,"key":%q}`, kind, kind)))
		qs := r.questions()[before:]
		if !declares(p.version, kind) {
			if len(qs) > 0 {
				r.t.Errorf("asked %v, which it did not declare", qs)
			}
			return r.unasked(got, p)
		}
		result := r.ok(got)
		r.want("answers", result, map[string]string{"elicitation": "Ada", "url": "accept", "sampling": "sampled", "roots": "file:///here"}[kind])
		if len(qs) != 2 {
			r.t.Fatalf("asked %d questions, want 2: %v", len(qs), qs)
		}
		for _, q := range qs {
			if q.method != method {
				r.t.Errorf("asked %s, want %s", q.method, method)
			}
			checkQuestion(r, p, kind, string(q.params))
		}
		switch {
		case r.modern() == (p.era == bridgetest.Modern):
			return works
		case r.modern():
			return translated("request becomes input_required")
		}
		return translated("input_required becomes request")
	}
}

func checkQuestion(r *rig, p pair, kind, params string) {
	if kind == "url" && (at([]byte(params), "elicitationId") == "") != r.modern() {
		r.t.Errorf("elicitationId: %s", params)
	}
	if kind == "elicitation" && p.version < v2511 && at([]byte(params), "mode") != "" {
		r.t.Errorf("mode for a host of %s: %s", p.version, params)
	}
}

// unasked is the cell of a question that the host did not declare.
func (r *rig) unasked(got bridgetest.Reply, p pair) string {
	if got.Error == nil && !got.IsError() && !strings.Contains(string(got.Result), "cancel") {
		r.t.Errorf("undeclared question: %.400s", got.Raw)
	}
	return refused("not declared")
}

func checkUpdates(r *rig, p pair) string {
	const uri = "test://items/watched"
	r.up.SetItem("watched", "one")
	id := `"updates of \u0041"`
	if r.modern() {
		ack := r.listen(id, `{"resourceSubscriptions":["`+uri+`"]}`)
		r.want("acknowledgment", string(ack.Params), uri)
	} else {
		r.ok(r.call("resources/subscribe", `{"uri":"`+uri+`"}`))
	}
	r.watched(p, uri)
	m := r.untilHeard("the update", func() { r.up.SetItem("watched", "two") }, func(m bridgetest.HostMessage) bool {
		return m.Method == "notifications/resources/updated" && strings.Contains(string(m.Params), uri)
	})
	if r.modern() {
		if got := rawAt(m.Params, "_meta", subscriptionID); got != id {
			r.t.Errorf("subscriptionId %s, want %s", got, id)
		}
		r.unlisten(id)
	} else {
		wantNot(r.t, "updated", string(m.Params), subscriptionID)
		r.ok(r.call("resources/unsubscribe", `{"uri":"`+uri+`"}`))
	}
	switch {
	case r.modern() && p.era == bridgetest.Legacy:
		return translated("listen becomes resources/subscribe")
	case !r.modern() && p.era == bridgetest.Modern:
		return translated("resources/subscribe becomes listen")
	}
	return works
}

// watched waits until the server would tell us of uri.
func (r *rig) watched(p pair, uri string) {
	r.t.Helper()
	if p.era == bridgetest.Legacy {
		r.seen("resources/subscribe", answered("resources/subscribe", uri))
		if err := r.up.WaitListeners(r.step(), 1); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	r.seen("subscriptions/listen", method("subscriptions/listen", uri))
	if err := r.up.WaitListeners(r.step(), 1); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) unlisten(id string) {
	r.t.Helper()
	if err := r.host.Notify("notifications/cancelled", `{"requestId":`+id+`}`); err != nil {
		r.t.Fatal(err)
	}
}

func checkListChanges(r *rig, p pair) string {
	const id = "4711"
	if r.modern() {
		r.listen(id, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`)
	}
	if p.era == bridgetest.Modern {
		r.seen("listen", method("subscriptions/listen", "promptsListChanged", "toolsListChanged"))
	}
	if err := r.up.WaitListeners(r.step(), 1); err != nil {
		r.t.Fatal(err)
	}
	r.up.AddTool(bridgetest.Tool{Name: "young", Run: func(*bridgetest.Call) (any, error) { return bridgetest.Text("young"), nil }})
	for _, list := range []string{"tools", "prompts", "resources"} {
		name := "notifications/" + list + "/list_changed"
		r.untilHeard(name, func() { r.up.Notify(name, nil) }, func(m bridgetest.HostMessage) bool {
			return m.Method == name && (!r.modern() || rawAt(m.Params, "_meta", subscriptionID) == id)
		})
	}
	r.want("tools/list", r.ok(r.call("tools/list", "")), `"young"`)
	if r.modern() {
		r.unlisten(id)
	}
	switch {
	case r.modern() && p.era == bridgetest.Legacy:
		return translated("listen is served from the GET stream")
	case !r.modern() && p.era == bridgetest.Modern:
		return translated("told from a listen of the bridge")
	}
	return works
}

func checkLogging(r *rig, p pair) string {
	params := bridgetest.ToolParams("stream", `{"n":2,"interval":1,"log":true,"key":"log"}`)
	if r.modern() {
		params = with(params, map[string]any{"_meta": map[string]any{metaPrefix + "logLevel": "debug"}})
	} else {
		r.ok(r.call("logging/setLevel", `{"level":"debug"}`))
	}
	r.ok(r.call("tools/call", params))
	if _, err := r.host.WaitNotification(r.step(), "notifications/message"); err != nil {
		r.t.Fatalf("%v\n%s", err, r.host.Stderr())
	}
	switch {
	case r.modern() && p.era == bridgetest.Legacy:
		r.seen("logging/setLevel", method("logging/setLevel"))
		return translated("logLevel becomes logging/setLevel")
	case !r.modern() && p.era == bridgetest.Modern:
		r.seen("logLevel", method("tools/call", `"io.modelcontextprotocol/logLevel":"debug"`))
		if n := r.count("logging/setLevel"); n > 0 {
			r.t.Errorf("%d logging/setLevel at a modern server", n)
		}
		return translated("logging/setLevel becomes logLevel")
	}
	return works
}

func checkProgress(r *rig, _ pair) string {
	for i, token := range []string{`"token \u0041"`, `9007199254740993`} {
		params := `{"name":"stream","arguments":{"n":3,"interval":1,"key":"p` + fmt.Sprint(i) + `"},"_meta":{"progressToken":` + token + `}}`
		r.ok(r.call("tools/call", params))
		got := r.host.Notifications(func(m bridgetest.HostMessage) bool {
			return m.Method == "notifications/progress" && sameJSON(rawAt(m.Params, "progressToken"), token)
		})
		if len(got) != 3 {
			r.t.Errorf("%d progress notifications for %s, want 3", len(got), token)
		}
	}
	return works
}

func sameJSON(a, b string) bool {
	if a == b {
		return true
	}
	var s, t string
	return json.Unmarshal([]byte(a), &s) == nil && json.Unmarshal([]byte(b), &t) == nil && s == t
}

func checkCancel(r *rig, p pair) string {
	const id = `"slow one"`
	if err := r.host.Request(id, "tools/call", bridgetest.ToolParams("get_slow", `{"ms":600000}`)); err != nil {
		r.t.Fatal(err)
	}
	r.seen("get_slow", func(e bridgetest.Entry) bool { return e.Tool == "get_slow" })
	calls := r.up.Ledger().Requests("tools/call")
	if err := r.host.Notify("notifications/cancelled", `{"requestId":`+id+`,"reason":"enough"}`); err != nil {
		r.t.Fatal(err)
	}
	cell := works
	if p.era == bridgetest.Legacy {
		r.seen("the cancel", func(e bridgetest.Entry) bool {
			return e.Method == "notifications/cancelled" && slices.ContainsFunc(calls, func(c bridgetest.Entry) bool {
				return c.Tool == "get_slow" && rawAt([]byte(e.Body), "params", "requestId") == string(c.ID)
			})
		})
		if r.modern() {
			cell = translated("with the id that the server knows")
		}
	} else {
		r.seen("the end of the stream", func(e bridgetest.Entry) bool { return e.Tool == "get_slow" && e.Has(bridgetest.MarkClosed) })
		if n := r.count("notifications/cancelled"); n > 0 {
			r.t.Errorf("%d notifications/cancelled at a modern server", n)
		}
		cell = translated("the stream is closed")
	}
	r.call("ping", "") // answered in either era, after what was sent before
	if n := len(r.host.Replies(id)); n > 0 {
		r.t.Errorf("%d answers for a cancelled request", n)
	}
	return cell
}
