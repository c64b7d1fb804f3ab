package bridgetest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"
)

// wantsTasks reports whether the client of this request can have tasks.
func (c *Call) wantsTasks() bool {
	if c.Modern() {
		return c.meta.open(metaCapabilities).open("extensions").has(tasksExtension)
	}
	return c.version == "2025-11-25" && c.params.has("task")
}

// asTask decides whether the tool becomes a task. The error refuses the call.
func (c *Call) asTask(t Tool) (bool, error) {
	wants := c.wantsTasks()
	switch {
	case c.Modern() && t.Tasks == "required" && !wants:
		return false, needsTasks()
	case c.Modern():
		return wants && t.Tasks != "", nil
	case t.Tasks == "required" && !wants:
		return false, rpcErrorf(codeMethodNotFound, "tool %s must be called as a task", t.Name)
	case t.Tasks == "" && wants && c.up.opts.Tasks:
		return false, rpcErrorf(codeMethodNotFound, "tool %s cannot be called as a task", t.Name)
	}
	return wants && t.Tasks != "", nil
}

func needsTasks() error {
	return &RPCError{
		Code: codeMissingCapability, Message: "client did not declare the tasks extension", status: 400,
		Data: object{"requiredCapabilities": object{"extensions": object{tasksExtension: object{}}}},
	}
}

// startTask runs the tool in a task and returns what tells the client of it.
func (c *Call) startTask(t Tool) (any, error) {
	ctx, cancel := context.WithCancelCause(context.WithValue(c.up.ctx, epochKey{}, c.up.ctx))
	now := time.Now()
	k := &task{
		id: rand.Text(), created: now, updated: now, status: "working", cancel: cancel,
		changed: make(chan struct{}), asked: map[string]*taskQuestion{},
	}
	if err := c.up.state.addTask(k); err != nil {
		cancel(nil)
		return nil, err
	}
	inner := *c
	inner.ctx, inner.cancel, inner.task, inner.out = ctx, cancel, k, newStream("")
	c.up.spawn(func() { inner.runTask(t) })
	if c.Modern() {
		o := k.object(true, false)
		o["resultType"] = "task"
		return o, nil
	}
	return object{"task": k.object(false, false)}, nil
}

func (c *Call) runTask(t Tool) {
	defer c.cancel(nil)
	result, err := c.toolResult(t.Run(c))
	switch {
	case context.Cause(c.ctx) == errTaskCancelled:
		c.task.settle("cancelled", Failure("the task was cancelled"), nil)
	case err != nil:
		c.task.settle("failed", nil, asRPCError(err))
	default:
		c.task.settle("completed", result, nil)
	}
	c.up.notifyTask(c.task)
}

// askInTask puts a question into the task and waits for the answer.
func (c *Call) askInTask(q question) (json.RawMessage, error) {
	tq := c.task.put(q)
	c.up.notifyTask(c.task)
	select {
	case a := <-tq.answer:
		return a, nil
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	}
}

// notifyTask tells the listens that asked for the task.
func (u *Upstream) notifyTask(t *task) {
	for _, l := range u.state.allListens() {
		if l.filter.hasTask(t.id) {
			l.send("notifications/tasks", t.object(true, true))
		}
	}
}

// dispatchTask serves tasks/get, update, cancel (modern) and get, result,
// list, cancel (2025-11-25).
func (c *Call) dispatchTask() (any, error) {
	if c.Modern() && !c.wantsTasks() {
		return nil, needsTasks()
	}
	if c.method == "tasks/list" && !c.Modern() {
		list := []any{}
		for _, t := range c.up.state.allTasks() {
			list = append(list, t.object(false, false))
		}
		return object{"tasks": list}, nil
	}
	t := c.up.state.task(c.params.string("taskId"))
	if t == nil {
		return nil, rpcErrorf(codeInvalidParams, "task not found")
	}
	switch {
	case c.method == "tasks/get":
		return t.object(c.Modern(), true), nil
	case c.method == "tasks/cancel":
		return c.cancelTask(t)
	case c.method == "tasks/update" && c.Modern():
		t.take(c.params.open("inputResponses").fields)
		return object{}, nil
	case c.method == "tasks/result" && !c.Modern():
		return c.taskResult(t)
	}
	return nil, c.unknownMethod()
}

func (c *Call) cancelTask(t *task) (any, error) {
	t.mu.Lock()
	over := ended(t.status)
	t.mu.Unlock()
	if over && !c.Modern() {
		return nil, rpcErrorf(codeInvalidParams, "task has ended")
	}
	if !c.Modern() {
		t.settle("cancelled", Failure("the task was cancelled"), nil)
	}
	t.cancel(errTaskCancelled)
	if c.Modern() {
		return object{}, nil
	}
	return t.object(false, false), nil
}

// taskResult blocks until the task has ended, and puts the task's questions to
// the client meanwhile (MCP 2025-11-25, tasks, "Input Required Status").
func (c *Call) taskResult(t *task) (any, error) {
	for {
		if err := t.await(c.ctx); err != nil {
			return nil, err
		}
		open := t.questions()
		if len(open) == 0 {
			return t.outcome()
		}
		for name, q := range open {
			answer, err := c.session.ask(c, q.method, related(q.params, t.id))
			if err != nil {
				return nil, err
			}
			t.take(fields{name: answer})
		}
	}
}

// related adds the task that a question belongs to.
func related(params any, id string) any {
	f := open(encode(params)).fields
	if f == nil {
		f = fields{}
	}
	f["_meta"] = encode(object{relatedTask: object{"taskId": id}})
	return f
}

func (t *task) outcome() (any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure != nil {
		return nil, t.failure
	}
	return related(t.result, t.id), nil
}
