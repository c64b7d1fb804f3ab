package eras

import (
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// hasTasks says whether servers of the era make tasks for the bridge.
func taskMethods(p pair) []string {
	if p.era == bridgetest.Legacy {
		return []string{"tasks/get", "tasks/result"}
	}
	return []string{"tasks/get"}
}

// upstreamTasks says whether the session with the server can have tasks at all:
// a legacy one speaks the host's revision.
func upstreamTasks(p pair) bool {
	return p.era == bridgetest.Modern || p.version >= v2511
}

// checkTaskUnseen: a tool that the server runs as a task is an ordinary call to
// a host that knows no tasks.
func checkTaskUnseen(r *rig, p pair) string {
	tool := "task_only"
	got := r.tool(tool, `{"key":"unseen","ms":30}`)
	if !upstreamTasks(p) {
		if got.Error == nil && !got.IsError() {
			r.t.Errorf("a task in a session that has none: %s", got.Raw)
		}
		return refused("the server's, in sessions before 2025-11-25")
	}
	result := r.ok(got)
	wantNot(r.t, "result", result, "taskId", "related-task")
	if n := r.up.Ledger().EffectsOf(tool, "unseen"); n != 1 {
		r.t.Errorf("%d effects, want 1", n)
	}
	r.passed(taskMethods(p)...)
	return translated("the bridge polls")
}

func checkTaskAsks(r *rig, p pair) string {
	if !upstreamTasks(p) || !declares(p.version, "elicitation") {
		return refused("no tasks, or no elicitation")
	}
	tool := "task_ask"
	if p.era == bridgetest.Legacy {
		tool = "task_need"
	}
	got := r.through("tools/call", bridgetest.ToolParams(tool, `{"key":"taskask","rounds":2,"effect":true}`))
	r.want("answer", r.ok(got), "Ada")
	if n := r.up.Ledger().EffectsOf(tool, "taskask"); n != 1 {
		r.t.Errorf("%d effects, want 1", n)
	}
	for _, q := range r.questions() {
		wantNot(r.t, "question", string(q.params), "related-task")
	}
	if r.modern() {
		return translated("asked by input_required")
	}
	return translated("asked by request")
}

// serverTools are the default tools and some of these tests' own.
func serverTools() []bridgetest.Tool {
	return append(bridgetest.DefaultTools(), askTask(), lateAsk(), slowRead())
}

// slowRead is a tool that is a read by its name, also where there are no
// annotations.
func slowRead() bridgetest.Tool {
	return bridgetest.Tool{Name: "get_slow", Run: func(c *bridgetest.Call) (any, error) {
		var a struct{ Ms int }
		if err := c.Bind(&a); err != nil {
			return nil, err
		}
		return bridgetest.Text("slept"), c.Sleep(time.Duration(a.Ms) * time.Millisecond)
	}}
}

// askTask is a tool that a legacy server runs as a task always, and asks in.
func askTask() bridgetest.Tool {
	return bridgetest.Tool{Name: "task_need", Tasks: "required", Run: func(c *bridgetest.Call) (any, error) {
		var answers []string
		for _, name := range []string{"q1", "q2"} {
			a, err := c.Ask(name, "elicitation/create", map[string]any{"message": name, "requestedSchema": map[string]any{"type": "object", "properties": map[string]any{}}})
			if err != nil {
				return nil, err
			}
			answers = append(answers, string(a))
		}
		c.Effect("taskask")
		return bridgetest.Text(strings.Join(answers, " ")), nil
	}}
}

// checkLong: a call that outlives the patience of the host.
func checkLong(r *rig, p pair) string {
	const args = `{"key":"long","ms":4000}`
	switch {
	case r.modern():
		got := r.ok(r.tool("slow_write", args))
		if at([]byte(got), "resultType") != "task" {
			r.t.Fatalf("no task: %s", got)
		}
		r.want("the task", r.taskEnd(at([]byte(got), "taskId")), "completed", "content")
		return here + ": a task of the bridge"
	case p.version == v2511:
		got := r.ok(r.call("tools/call", with(bridgetest.ToolParams("slow_write", args), map[string]any{"task": map[string]any{}})))
		id := at([]byte(got), "task", "taskId")
		if id == "" {
			r.t.Fatalf("no task: %s", got)
		}
		result := r.ok(r.call("tasks/result", `{"taskId":"`+id+`"}`))
		r.want("tasks/result", result, "content", "related-task", id)
		return here + ": a task or a handle"
	}
	got := r.ok(r.tool("slow_write", args))
	r.want("handle", got, "STILL RUNNING")
	r.want("job", r.jobEnd(got), "content")
	return here + ": a handle"
}

// taskEnd polls a task of the extension until it has ended, answering what it
// asks.
func (r *rig) taskEnd(id string) string {
	r.t.Helper()
	for range 200 {
		task := r.ok(r.call("tasks/get", `{"taskId":"`+id+`"}`))
		switch at([]byte(task), "status") {
		case "working":
			r.moment()
		case "input_required":
			in, _ := roundOf(bridgetest.Reply{Result: []byte(task)})
			if len(in.InputRequests) > 0 {
				r.ok(r.call("tasks/update", r.nextRound(`{"taskId":"`+id+`"}`, in)))
			}
		default:
			return task
		}
	}
	r.t.Fatalf("task %s does not end: %s\n%s", id, r.ok(r.call("tasks/get", `{"taskId":"`+id+`"}`)), r.host.Stderr())
	return ""
}

// jobEnd follows the handle in an answer to its end, answering what is asked.
func (r *rig) jobEnd(answer string) string {
	r.t.Helper()
	handle := at([]byte(answer), "structuredContent", "handle")
	for range 100 {
		got := r.through("tools/call", bridgetest.ToolParams("mcpbridge_job", `{"handle":"`+handle+`","wait_seconds":1}`))
		if !strings.Contains(got.Text(), "STILL RUNNING") {
			return string(got.Raw)
		}
	}
	r.t.Fatalf("job %s does not end\n%s", handle, r.host.Stderr())
	return ""
}

// lateAfter is later than hosts of the group wait.
const lateAfter = 2500 * time.Millisecond

// lateAsk is a tool that asks after the host was given a handle.
func lateAsk() bridgetest.Tool {
	return bridgetest.Tool{Name: "late_ask", Annotations: []byte(`{"readOnlyHint":false}`), Run: func(c *bridgetest.Call) (any, error) {
		if err := c.Sleep(lateAfter); err != nil {
			return nil, err
		}
		a, err := c.Ask("q1", "elicitation/create", map[string]any{"message": "late", "requestedSchema": map[string]any{"type": "object", "properties": map[string]any{}}})
		if err != nil {
			return nil, err
		}
		c.Effect("late")
		return bridgetest.Text("answered " + string(a)), nil
	}}
}

func checkLongAsks(r *rig, p pair) string {
	if !declares(p.version, "elicitation") {
		return refused("not declared")
	}
	got := r.ok(r.tool("late_ask", `{}`))
	if r.modern() {
		r.want("the task", r.taskEnd(at([]byte(got), "taskId")), "completed", "answered", "Ada")
		return here + ": inputRequests of the task"
	}
	r.want("job", r.jobEnd(got), "answered", "Ada")
	return here + ": asked in mcpbridge_job"
}

func checkTaskSeen(r *rig, p pair) string {
	const args = `{"key":"seen","ms":30}`
	switch {
	case r.modern():
		got := r.ok(r.tool("task_write", args))
		if p.era == bridgetest.Legacy {
			return translated("the bridge polls") // 2025-11-25: only for tools that need a task
		}
		id := at([]byte(got), "taskId")
		if !strings.HasPrefix(id, "job_") {
			r.t.Fatalf("no task of the bridge: %s", got)
		}
		r.want("the task", r.taskEnd(id), "completed")
		return translated("adopted under an id of the bridge")
	case p.version == v2511:
		got := r.ok(r.call("tools/call", with(bridgetest.ToolParams("task_write", args), map[string]any{"task": map[string]any{}})))
		id := at([]byte(got), "task", "taskId")
		if !strings.HasPrefix(id, "job_") {
			r.t.Fatalf("no task of the bridge: %s", got)
		}
		r.want("tasks/result", r.ok(r.call("tasks/result", `{"taskId":"`+id+`"}`)), "related-task", id)
		return translated("adopted under an id of the bridge")
	}
	return "has none"
}

func checkTaskCancel(r *rig, p pair) string {
	const args = `{"key":"cancel","ms":60000,"on_cancel":"stop"}`
	r.up.Ledger().Reset() // polls of earlier tasks are none of this one
	var id string
	switch {
	case r.modern():
		id = at([]byte(r.ok(r.tool("task_write", args))), "taskId")
	case p.version == v2511:
		id = at([]byte(r.ok(r.call("tools/call", with(bridgetest.ToolParams("task_write", args), map[string]any{"task": map[string]any{}})))), "task", "taskId")
	default:
		return "has none"
	}
	r.seen("the call", func(e bridgetest.Entry) bool { return e.Tool == "task_write" && strings.Contains(e.Body, "cancel") })
	if p.era == bridgetest.Modern || p.version == v2511 {
		r.seen("a poll", method("tasks/get"))
	}
	got := r.ok(r.call("tasks/cancel", `{"taskId":"`+id+`"}`))
	if r.modern() {
		end := r.taskEnd(id)
		if p.era == bridgetest.Modern {
			r.want("the task", end, `"cancelled"`)
			return translated("tasks/cancel with the server's id")
		}
		r.want("the task", end, "OUTCOME UNKNOWN")
		return translated("cancelled, outcome unknown")
	}
	r.want("the task", got, `"cancelled"`)
	r.seen("tasks/cancel", method("tasks/cancel"))
	return translated("tasks/cancel with the server's id")
}
