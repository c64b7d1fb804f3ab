package bridgetest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

const withTasks = `"clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// taskDo sends a modern request that declares the tasks extension.
func (p *peer) taskDo(method, name, params string) (*http.Response, member) {
	p.t.Helper()
	b := strings.Replace(modernBody("1", method, params), `clientCapabilities":{"elicitation":{}}`, withTasks[1:], 1)
	res, got := p.must("POST", b, modernHeader(method, name))
	return res, open(got)
}

func TestModernTasks(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Modern, Tasks: true, Replicas: 2})
	p := newPeer(t, u.URL())
	_, m := p.taskDo("tools/call", "task_ask", `"name":"task_ask","arguments":{"key":"k","effect":true}`)
	r := m.open("result")
	id := r.string("taskId")
	if r.string("resultType") != "task" || id == "" {
		t.Fatalf("no task: %s", encode(m.fields))
	}
	task := u.state.task(id)
	if err := task.await(testContext(t)); err != nil {
		t.Fatal(err)
	}
	u.Restart() // tasks stay
	p.url = u.URLs()[1]
	params := `"taskId":"` + id + `"`
	_, m = p.taskDo("tasks/get", id, params)
	r = m.open("result")
	if r.string("status") != "input_required" || r.open("inputRequests").open("q1").string("method") != "elicitation/create" {
		t.Fatalf("no question: %s", encode(m.fields))
	}
	p.taskDo("tasks/update", id, params+`,"inputResponses":{"q1":{"action":"accept"},"stranger":{}}`)
	if err := task.await(testContext(t)); err != nil {
		t.Fatal(err)
	}
	_, m = p.taskDo("tasks/get", id, params)
	if r = m.open("result"); r.string("status") != "completed" || r.open("result").fields["content"] == nil {
		t.Errorf("not completed: %s", encode(m.fields))
	}
	if n := u.Ledger().EffectsOf("task_ask", "k"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

func TestModernTaskRules(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Modern, Tasks: true})
	p := newPeer(t, u.URL())
	if res, got, err := p.modernCall("task_only", `{}`); err != nil || res.StatusCode != 400 || code(got) != codeMissingCapability {
		t.Errorf("task_only without the extension: %v, %s, %v", res, got, err)
	}
	if _, got, err := p.modernCall("task_write", `{"key":"plain"}`); err != nil || open(got).open("result").string("resultType") != "complete" {
		t.Errorf("task_write without the extension: %s, %v", got, err)
	}
	if _, got, err := p.modern("1", "tasks/get", "x", `"taskId":"x"`); err != nil || code(got) != codeMissingCapability {
		t.Errorf("tasks/get without the extension: %s, %v", got, err)
	}
	if _, m := p.taskDo("tasks/get", "x", `"taskId":"x"`); code(encode(m.fields)) != codeInvalidParams {
		t.Errorf("unknown task: %s", encode(m.fields))
	}
	if res, _ := p.taskDo("tasks/get", "y", `"taskId":"x"`); res.StatusCode != 400 {
		t.Errorf("wrong Mcp-Name: %d, want 400", res.StatusCode)
	}
	if res, m := p.taskDo("tasks/result", "", `"taskId":"x"`); res.StatusCode != 404 && code(encode(m.fields)) != codeInvalidParams {
		t.Errorf("tasks/result: %d", res.StatusCode)
	}
	_, m := p.taskDo("tools/call", "task_write", `"name":"task_write","arguments":{"key":"c","ms":600000,"on_cancel":"stop"}`)
	id := m.open("result").string("taskId")
	if _, m = p.taskDo("tasks/cancel", id, `"taskId":"`+id+`"`); !m.has("result") {
		t.Errorf("cancel: %s", encode(m.fields))
	}
	if err := u.state.task(id).await(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if _, m = p.taskDo("tasks/get", id, `"taskId":"`+id+`"`); m.open("result").string("status") != "cancelled" {
		t.Errorf("after the cancel: %s", encode(m.fields))
	}
	if n := u.Ledger().EffectsOf("task_write", "c"); n != 0 {
		t.Errorf("%d effects of a cancelled task", n)
	}
}

func TestLegacyTasks(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Legacy, Tasks: true})
	p := newPeer(t, u.URL())
	p.initialize("2025-11-25")
	do := func(method, params string) member {
		t.Helper()
		_, got := p.must("POST", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, nil)
		return open(got)
	}
	if m := do("tools/list", "{}"); !strings.Contains(string(m.fields["result"]), `"execution":{"taskSupport":"required"}`) {
		t.Error("taskSupport is not listed")
	}
	if m := do("tools/call", `{"name":"task_only","arguments":{}}`); code(encode(m.fields)) != codeMethodNotFound {
		t.Errorf("task_only as a plain call: %s", encode(m.fields))
	}
	if m := do("tools/call", `{"name":"echo","arguments":{},"task":{}}`); code(encode(m.fields)) != codeMethodNotFound {
		t.Errorf("echo as a task: %s", encode(m.fields))
	}
	m := do("tools/call", `{"name":"task_only","arguments":{"key":"k","ms":1},"task":{"ttl":1000}}`)
	id := m.open("result").open("task").string("taskId")
	r := do("tasks/result", `{"taskId":"`+id+`"}`).open("result")
	if r.open("_meta").open(relatedTask).string("taskId") != id || !strings.Contains(string(r.fields["content"]), "wrote k") {
		t.Errorf("tasks/result: %s", encode(r.fields))
	}
	var list struct{ Tasks []json.RawMessage }
	if err := json.Unmarshal(do("tasks/list", "{}").fields["result"], &list); err != nil || len(list.Tasks) != 1 {
		t.Errorf("tasks/list: %+v, %v", list, err)
	}
	if m := do("tasks/cancel", `{"taskId":"`+id+`"}`); code(encode(m.fields)) != codeInvalidParams {
		t.Errorf("cancel of an ended task: %s", encode(m.fields))
	}
	u.ForgetTasks()
	if m := do("tasks/get", `{"taskId":"`+id+`"}`); code(encode(m.fields)) != codeInvalidParams {
		t.Errorf("a forgotten task: %s", encode(m.fields))
	}
}

// TestLegacyTaskAsks: tasks/result carries the question on its stream.
func TestLegacyTaskAsks(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Legacy, Tasks: true})
	p := newPeer(t, u.URL())
	p.initialize("2025-11-25")
	_, got := p.must("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"task_ask","arguments":{},"task":{}}}`, nil)
	id := open(got).open("result").open("task").string("taskId")
	res, err := p.client.Do(p.request(testContext(t), "POST", `{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"`+id+`"}}`, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var seen []string
	events(t, res.Body, func(_, data string) bool {
		seen = append(seen, data)
		if m, _ := parseMessage([]byte(data)); m.isRequest() {
			q := newPeer(t, u.URL())
			q.session = p.session
			q.must("POST", `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"action":"accept"}}`, nil)
		}
		return true
	})
	if len(seen) != 2 || !strings.Contains(seen[0], relatedTask) || !strings.Contains(seen[1], `"accept"`) {
		t.Errorf("stream: %q", seen)
	}
}
