package bridgetest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	tasksExtension = "io.modelcontextprotocol/tasks"
	relatedTask    = "io.modelcontextprotocol/related-task"
	taskPoll       = 50 * time.Millisecond // how often clients are told to ask
	maxTasks       = 10_000                // kept at once
)

var errTaskCancelled = errors.New("task cancelled by the client")

// A task is a tool that goes on after its call was answered: the extension of
// 2026-07-28 (SEP-2663) and the tasks of 2025-11-25. Tasks survive Restart.
type task struct {
	id      string
	created time.Time
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	updated time.Time
	status  string
	result  any
	failure *RPCError
	asked   map[string]*taskQuestion
}

type taskQuestion struct {
	question
	answer chan json.RawMessage
}

func (t *task) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
	t.updated = time.Now()
	close(t.changed)
	t.changed = make(chan struct{})
}

func ended(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}

// settle ends the task, unless it has ended.
func (t *task) settle(status string, result any, failure *RPCError) {
	t.change(func() {
		if !ended(t.status) {
			t.status, t.result, t.failure, t.asked = status, result, failure, nil
		}
	})
}

// await returns when the task has ended or puts a question.
func (t *task) await(ctx context.Context) error {
	for {
		t.mu.Lock()
		done, changed := ended(t.status) || len(t.asked) > 0, t.changed
		t.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// put puts a question to whoever looks at the task.
func (t *task) put(q question) *taskQuestion {
	tq := &taskQuestion{q, make(chan json.RawMessage, 1)}
	t.change(func() {
		if !ended(t.status) {
			t.asked[q.name] = tq
			t.status = "input_required"
		}
	})
	return tq
}

// take hands over answers; unknown keys are ignored.
func (t *task) take(answers fields) {
	t.change(func() {
		for name, a := range answers {
			if q, ok := t.asked[name]; ok {
				delete(t.asked, name)
				q.answer <- a
			}
		}
		if len(t.asked) == 0 && t.status == "input_required" {
			t.status = "working"
		}
	})
}

// questions returns the open questions by name.
func (t *task) questions() map[string]question {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]question{}
	for n, q := range t.asked {
		out[n] = q.question
	}
	return out
}

// object is the task as a client of the era sees it.
func (t *task) object(modern, detailed bool) object {
	t.mu.Lock()
	defer t.mu.Unlock()
	ttl, poll := "ttl", "pollInterval"
	if modern {
		ttl, poll = "ttlMs", "pollIntervalMs"
	}
	o := object{
		"taskId": t.id, "status": t.statusFor(modern), ttl: nil, poll: taskPoll.Milliseconds(),
		"createdAt": t.created.UTC().Format(time.RFC3339Nano), "lastUpdatedAt": t.updated.UTC().Format(time.RFC3339Nano),
	}
	if modern && detailed {
		t.detail(o)
	}
	return o
}

// statusFor: a result with isError is "completed" by SEP-2663, "failed" at
// 2025-11-25 (tasks, "Task Execution Errors").
func (t *task) statusFor(modern bool) string {
	if r := open(encode(t.result)); !modern && t.status == "completed" && string(r.fields["isError"]) == "true" {
		return "failed"
	}
	return t.status
}

func (t *task) detail(o object) {
	switch t.status {
	case "input_required":
		requests := object{}
		for n, q := range t.asked {
			requests[n] = object{"method": q.method, "params": q.params}
		}
		o["inputRequests"] = requests
	case "completed":
		o["result"] = t.result
	case "failed":
		o["error"] = t.failure.object()
	}
}

func (s *state) addTask(t *task) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tasks) >= maxTasks {
		return rpcErrorf(codeInternal, "too many tasks")
	}
	s.tasks[t.id] = t
	return nil
}

func (s *state) task(id string) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tasks[id]
}

func (s *state) allTasks() []*task {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*task, 0, len(s.tasks))
	for _, t := range s.tasks {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *task) int { return a.created.Compare(b.created) })
	return out
}

// ForgetTasks makes every task unknown to clients; running ones run on.
func (u *Upstream) ForgetTasks() {
	u.state.mu.Lock()
	defer u.state.mu.Unlock()
	u.state.tasks = map[string]*task{}
}
