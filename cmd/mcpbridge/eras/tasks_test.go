package eras

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

func withTaskTools(t *testing.T, era bridgetest.Era) *bridgetest.Upstream {
	t.Helper()
	return startUpstream(t, bridgetest.Options{Era: era, Tasks: true, Tools: serverTools()})
}

func (r *rig) code(got bridgetest.Reply) int {
	if got.Error == nil {
		return 0
	}
	return got.Error.Code
}

// TestTaskDoors: each revision's own rules.
func TestTaskDoors(t *testing.T) {
	t.Parallel()
	for _, era := range bothEras() {
		up := withTaskTools(t, era)
		plain := start(t, up, rigOptions{version: modern})
		for _, m := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			if c := plain.code(plain.call(m, `{"taskId":"x"}`)); c != -32021 {
				t.Errorf("%s without the extension: %d, want -32021", m, c)
			}
		}
		r := start(t, up, rigOptions{version: modern, capabilities: withTasks(capabilitiesOf(modern))})
		for _, m := range []string{"tasks/result", "tasks/list"} {
			if c := r.code(r.call(m, `{"taskId":"x"}`)); c != -32601 {
				t.Errorf("%s at %s: %d, want -32601", m, modern, c)
			}
		}
		for _, id := range []string{"x", "job_aaaaaaaaaaaaaaaaaaaaaaaaaa"} {
			if c := r.code(r.call("tasks/get", `{"taskId":"`+id+`"}`)); c != -32602 {
				t.Errorf("unknown task %s: %d, want -32602", id, c)
			}
		}
		// params.task means nothing there.
		got := r.call("tools/call", `{"name":"echo","arguments":{"text":"t"},"task":{"ttl":1}}`)
		want(t, "params.task", r.ok(got), `"complete"`)
		list := r.ok(r.call("tools/list", ""))
		wantNot(t, "tools/list", list, "taskSupport")
		old := start(t, up, rigOptions{version: v2511})
		tools := old.ok(old.call("tools/list", ""))
		want(t, "tools/list", tools, `"taskSupport":"optional"`)
		wantNot(t, "tools/list", tools, `"taskSupport":"required"`)
		if c := old.code(old.call("tasks/get", `{"taskId":"x"}`)); c != -32602 {
			t.Errorf("unknown task: %d, want -32602", c)
		}
	}
}

// TestOpenTask: what a task says while it is open.
func TestOpenTask(t *testing.T) {
	t.Parallel()
	r := start(t, withTaskTools(t, bridgetest.Modern), rigOptions{version: modern, capabilities: withTasks(capabilitiesOf(modern))})
	got := r.ok(r.tool("task_write", `{"key":"open","ms":60000,"on_cancel":"stop"}`))
	if rawAt([]byte(got), "ttlMs") != "null" || at([]byte(got), "lastUpdatedAt") == "" || at([]byte(got), "status") != "working" {
		t.Errorf("open task: %s", got)
	}
	id := at([]byte(got), "taskId")
	r.listen(`"t"`, `{"taskIds":["`+id+`","job_aaaaaaaaaaaaaaaaaaaaaaaaaa"]}`)
	if ack := r.notice("notifications/subscriptions/acknowledged", `"t"`); rawAt(ack.Params, "notifications") != `{"taskIds":["`+id+`"]}` {
		t.Errorf("acknowledged %s", ack.Params)
	}
	r.ok(r.call("tasks/cancel", `{"taskId":"`+id+`"}`))
	_, err := r.host.WaitMessage(r.step(), "the end of the task", func(m bridgetest.HostMessage) bool {
		return about("notifications/tasks", `"t"`)(m) && at(m.Params, "status") == "cancelled"
	})
	if err != nil {
		t.Error(err)
	}
	for _, e := range r.up.Ledger().Requests("tasks/cancel") {
		wantNot(t, "tasks/cancel", e.Body+strings.Join(e.Header.Values("Mcp-Name"), ""), id)
	}
}

// TestRestartWithATask: the next process goes on polling the server's task, and
// puts its questions.
func TestRestartWithATask(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{{modern, bridgetest.Modern}, {v2511, bridgetest.Legacy}, {v2511, bridgetest.Modern}, {modern, bridgetest.Legacy}} {
		for _, kill := range []bool{true, false} {
			for _, tool := range []string{"task_only", "task_ask"} {
				if tool == "task_ask" && p.era == bridgetest.Legacy {
					tool = "task_need"
				}
				t.Run(p.String()+", "+tool+map[bool]string{true: ", killed", false: ", left"}[kill], func(t *testing.T) {
					t.Parallel()
					o := rigOptions{version: p.version, args: []string{"--linger=0"}, noAnswer: !kill}
					if p.version == modern {
						o.capabilities = withTasks(capabilitiesOf(modern))
					}
					r := start(t, withTaskTools(t, p.era), o)
					r.ok(r.call("tools/list", "")) // what needs a task is known from there
					params := bridgetest.ToolParams(tool, `{"key":"again","ms":2500,"effect":true}`)
					if p.version == v2511 {
						params = with(params, map[string]any{"task": map[string]any{}})
					}
					got := r.ok(r.call("tools/call", params))
					id := at([]byte(got), "taskId") + at([]byte(got), "task", "taskId")
					if !strings.HasPrefix(id, "job_") {
						t.Fatalf("no task: %s", got)
					}
					r.seen("a poll", answered("tasks/get"))
					if !kill {
						if err := r.host.CloseStdin(); err != nil {
							t.Fatal(err)
						}
						if _, err := r.host.Wait(r.step()); err != nil {
							t.Fatal(err)
						}
					}
					r.options.noAnswer = false
					r.restart()
					if p.version == modern {
						want(t, "the task", r.taskEnd(id), `"completed"`, `"content"`)
					} else {
						want(t, "tasks/result", r.ok(r.call("tasks/result", `{"taskId":"`+id+`"}`)), `"content"`)
					}
					n := r.up.Ledger().Effects(tool)
					if n != 1 || r.count("tools/call") != 1 {
						t.Errorf("%d effects of %d calls, want 1 of 1", n, r.count("tools/call"))
					}
				})
			}
		}
	}
}

// TestTaskForgotten: a task that the server does not know any more has an end
// that nobody knows. An answer that came whole, on a stream with event ids, is
// not gone on with.
func TestTaskForgotten(t *testing.T) {
	t.Parallel()
	for _, era := range bothEras() {
		up := withTaskTools(t, era)
		if err := up.SetFault("priming-event@tasks/get"); err != nil {
			t.Fatal(err)
		}
		r := start(t, up, rigOptions{version: v2511})
		r.ok(r.call("tools/list", ""))
		id := r.host.NextID()
		if err := r.host.Request(id, "tools/call", bridgetest.ToolParams("task_only", `{"key":"gone","ms":60000,"on_cancel":"stop"}`)); err != nil {
			t.Fatal(err)
		}
		r.seen("a poll", answered("tasks/get"))
		r.up.ForgetTasks()
		got, err := r.host.WaitReply(r.step(), id)
		if err != nil {
			t.Fatal(err)
		}
		want(t, era.String(), got.Text(), "OUTCOME UNKNOWN", "does not know its task")
		for _, e := range up.Ledger().HTTP("GET") {
			if e.Header.Get("Last-Event-Id") != "" {
				t.Errorf("%v: an answer that was whole was gone on with", era)
			}
		}
	}
}

// TestTaskToolBeforeAnyList: that a tool has to be called as a task is learnt
// before it is called, also by a host that never lists.
func TestTaskToolBeforeAnyList(t *testing.T) {
	t.Parallel()
	for _, v := range []string{v2511, modern} {
		up := faulty(t, bridgetest.Options{Era: bridgetest.Legacy, Tasks: true, Tools: serverTools()}, "delay:500ms@tools/list")
		r := start(t, up, rigOptions{version: v})
		want(t, v, r.ok(r.tool("task_only", `{"key":"first","ms":30}`)), "content")
		if n := up.Ledger().EffectsOf("task_only", "first"); n != 1 || r.count("tools/call") != 1 {
			t.Errorf("%s: %d effects of %d calls, want 1 of 1", v, n, r.count("tools/call"))
		}
	}
}

// TestTaskList: in pages, newest first, every task once; of this server's account
// only.
func TestTaskList(t *testing.T) {
	t.Parallel()
	const tasks = 53 // a page has 50
	up := withTaskTools(t, bridgetest.Legacy)
	r := start(t, up, rigOptions{version: v2511})
	created := map[string]bool{}
	for i := range tasks {
		params := with(bridgetest.ToolParams("echo", fmt.Sprintf(`{"text":"%d"}`, i)), map[string]any{"task": map[string]any{}})
		created[at([]byte(r.ok(r.call("tools/call", params))), "task", "taskId")] = true
	}
	if len(created) != tasks {
		t.Fatalf("%d tasks, want %d", len(created), tasks)
	}
	pages := 0
	for params := `{}`; params != ""; pages++ {
		page := r.ok(r.call("tasks/list", params))
		var listed struct {
			Tasks      []struct{ TaskID, Status, CreatedAt string }
			NextCursor string
		}
		if err := json.Unmarshal([]byte(page), &listed); err != nil {
			t.Fatal(err)
		}
		for _, task := range listed.Tasks {
			if !created[task.TaskID] || task.Status == "" || task.CreatedAt == "" {
				t.Errorf("page %d lists %+v, which is twice there or incomplete", pages, task)
			}
			delete(created, task.TaskID)
		}
		if params = ""; listed.NextCursor != "" {
			params = fmt.Sprintf(`{"cursor":%q}`, listed.NextCursor)
		}
	}
	if len(created) > 0 || pages != 2 {
		t.Errorf("%d tasks are on none of %d pages", len(created), pages)
	}
	for _, cursor := range []string{"x", "-1"} {
		if c := r.code(r.call("tasks/list", `{"cursor":"`+cursor+`"}`)); c != -32602 {
			t.Errorf("cursor %q: %d, want -32602", cursor, c)
		}
	}
	other := start(t, up, rigOptions{version: v2511, dir: r.options.dir, args: []string{"--principal=somebody-else"}})
	if got := other.ok(other.call("tasks/list", "")); rawAt([]byte(got), "tasks") != "[]" {
		t.Errorf("somebody else sees %s", got)
	}
}

// TestProgressUntilTheTaskEnds: 2025-11-25, tasks, "Progress": the token stays
// good after the call was answered with a task, until that has ended.
func TestProgressUntilTheTaskEnds(t *testing.T) {
	t.Parallel()
	for _, era := range bothEras() {
		gate := make(chan bool, 3)
		steps := bridgetest.Tool{Name: "steps", Annotations: []byte(`{"readOnlyHint":false}`), Run: func(c *bridgetest.Call) (any, error) {
			for i := range 3 {
				select {
				case <-gate:
				case <-c.Context().Done():
					return nil, c.Context().Err()
				}
				c.Progress(i+1, 3, "step")
			}
			return bridgetest.Text("stepped"), nil
		}}
		r := start(t, startUpstream(t, bridgetest.Options{Era: era, Tools: []bridgetest.Tool{steps}}), rigOptions{version: v2511})
		got := r.ok(r.call("tools/call", `{"name":"steps","arguments":{},"task":{},"_meta":{"progressToken":"p"}}`))
		id := at([]byte(got), "task", "taskId")
		mine := func(m bridgetest.HostMessage) bool {
			return m.Method == "notifications/progress" && at(m.Params, "progressToken") == "p"
		}
		for i := range 3 {
			gate <- true
			if _, err := r.host.WaitMessage(r.step(), "progress", func(m bridgetest.HostMessage) bool {
				return mine(m) && at(m.Params, "progress") == fmt.Sprint(i+1)
			}); err != nil {
				t.Fatalf("%s: %v\n%s", era, err, r.host.Stderr())
			}
		}
		want(t, era.String(), r.ok(r.call("tasks/result", `{"taskId":"`+id+`"}`)), "stepped")
		for _, m := range r.host.Notifications(mine) {
			want(t, era.String(), string(m.Raw), id)
		}
	}
}
