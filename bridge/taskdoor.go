package bridge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// This file is the task doors to jobs: the extension io.modelcontextprotocol/tasks
// for modern hosts (SEP-2663) and the tasks of 2025-11-25. A job's handle is the
// task's id. A host that asked for neither in its request never sees a task.

// A door says which task rules a request goes by.
type door uint8

const (
	noDoor  door = iota
	newDoor      // the extension, declared on this request
	oldDoor      // 2025-11-25, params.task
)

const (
	taskPoll    = time.Second // the pace that is suggested to hosts
	maxTaskList = 50
	metaRelated = metaPrefix + "related-task"
)

// door is the way in which the host of x can be given a task.
func (x *exchange) door() door {
	if x.bridge.keeper == nil || x.profile == nil {
		return noDoor
	}
	if x.profile.era == modernEra {
		if tasks, _ := extensions(x.profile.capabilities); tasks {
			return newDoor
		}
		return noDoor
	}
	if x.profile.version == rev2025_11_25 && len(x.asked.Field(jsonrpc.Task)) > 0 && x.asked.Field(jsonrpc.Task)[0] == '{' {
		return oldDoor
	}
	return noDoor
}

// taskCreated answers x at the new door with the task of a job.
func (x *exchange) taskCreated(job *jobs.Job) [][]byte {
	task := x.task(job)
	return resultLine(x.id, concat(`{"resultType":"task",`, task[1:]))
}

// oldTask is a job as the Task object of 2025-11-25. Its status takes a look at
// the result, and an error is the journal's.
func (x *exchange) oldTask(job *jobs.Job) ([]byte, error) {
	if err := x.tellEnd(job, oldDoor); err != nil {
		return nil, err
	}
	status, message := x.taskStatus(job, oldDoor)
	if status == "completed" && job.State == jobs.Completed {
		failed, err := x.bridge.keeper.endedInError(x.ctx, job)
		if err != nil {
			return nil, err
		}
		if failed {
			status = "failed"
		}
	}
	return taskObject(job, oldDoor, status, message, nil), nil
}

// task is a job as the Task object of the new door; payload members are added.
func (x *exchange) task(job *jobs.Job, payload ...member) []byte {
	status, message := x.taskStatus(job, newDoor)
	return taskObject(job, newDoor, status, message, payload)
}

func taskObject(job *jobs.Job, d door, status, message string, payload []member) []byte {
	out := concat(`{"taskId":`, quote(string(job.Handle)), `,"status":`, quote(status))
	if message != "" {
		out = concat(out, `,"statusMessage":`, quote(message))
	}
	out = concat(out, `,"createdAt":`, quote(job.CreatedAt.UTC().Format(time.RFC3339Nano)),
		`,"lastUpdatedAt":`, quote(job.UpdatedAt.UTC().Format(time.RFC3339Nano)))
	ttl, poll := "ttlMs", "pollIntervalMs"
	if d == oldDoor {
		ttl, poll = "ttl", "pollInterval"
	}
	life := "null"
	if job.State.Settled() {
		life = strconv.FormatInt(job.ExpiresAt().Sub(job.CreatedAt).Milliseconds(), 10)
	}
	out = concat(out, `,"`, ttl, `":`, life, `,"`, poll, `":`, strconv.FormatInt(taskPoll.Milliseconds(), 10))
	for _, m := range payload {
		out = appendMember(out, m.name, m.value)
	}
	return append(out, '}')
}

// taskStatus is a job's state in the words of a door, as far as it can be told
// without the result (see oldTask). An unknown outcome is an
// end for a task: SEP-2663 keeps "failed" for JSON-RPC errors, 2025-11-25 has
// it for every failure.
func (x *exchange) taskStatus(job *jobs.Job, d door) (status, message string) {
	text := x.jobNote(job).String()
	if job.State == jobs.Working {
		text = "" // progress, if upstream gave any
		if job.Progress != nil {
			text = strings.TrimPrefix(progressText(job.Progress), "; ")
		}
	}
	if told := job.ToldEnds[d.String()]; told != "" {
		return told, x.toldText(job, told)
	}
	if d == oldDoor && job.State == jobs.OutcomeUnknown && job.Evidence == jobs.CancelledByHost {
		return taskCancelled, cancelledText
	}
	switch job.State {
	case jobs.Working:
		return "working", text
	case jobs.InputRequired:
		return "input_required", text
	case jobs.Cancelled:
		return "cancelled", text
	case jobs.OutcomeUnknown:
		if d == oldDoor {
			return "failed", text
		}
		return "completed", text
	case jobs.Failed:
		if job.Resolution == "" {
			return "failed", text
		}
		// It was unknown, and so terminal for a task, before it was settled.
		if d == newDoor {
			return "completed", text
		}
		return "failed", text
	}
	return "completed", text
}

const (
	taskCancelled = "cancelled"
	cancelledText = "Cancelled by request; whether the call took effect is not known."
)

// String names a door in the journal.
func (d door) String() string {
	switch d {
	case newDoor:
		return "tasks extension"
	case oldDoor:
		return "tasks of 2025-11-25"
	}
	return "none"
}

// toldText is the message of a task whose end was told before the job had one.
func (x *exchange) toldText(job *jobs.Job, told string) string {
	if told == taskCancelled {
		return cancelledText
	}
	return x.jobNote(job).String()
}

// tellEnd journals, before it is told, that a task is over for the host although
// its job may yet come to another end: 2025-11-25, tasks, "Task Status Lifecycle",
// and SEP-2663 let no terminal status change. What is learnt later shows at the
// bridge's tools.
func (x *exchange) tellEnd(job *jobs.Job, d door) error {
	if job.State != jobs.OutcomeUnknown || job.ToldEnds[d.String()] != "" {
		return nil // a settled job stays as it is
	}
	status, _ := x.taskStatus(job, d)
	told, err := x.bridge.keeper.journal.TellEnd(x.ctx, job.Handle, d.String(), status)
	switch {
	case errors.Is(err, jobs.ErrSettled): // meanwhile
		*job = told
	case err != nil:
		return err
	default:
		*job = told
	}
	return nil
}

// endedInError reports whether the result of a completed job is an error of
// the tool.
func (k *keeper) endedInError(ctx context.Context, job *jobs.Job) (bool, error) {
	result, kind, err := k.keptEnd(ctx, job)
	return kind == jobs.ToolAnswer && string(jsonrpc.Get(result, "isError")) == "true", err
}

// keptEnd is the result of a job as the journal has it, with NoResult where none
// is kept. An error means that the journal cannot say.
func (k *keeper) keptEnd(ctx context.Context, job *jobs.Job) ([]byte, jobs.Kind, error) {
	result, kind, err := k.journal.Result(ctx, job.Handle)
	switch {
	case errors.Is(err, jobs.ErrNoResult):
		return nil, jobs.NoResult, nil
	case err != nil:
		return nil, jobs.NoResult, err
	}
	return result, kind, nil
}

// journalFails answers a request about a task that the journal cannot answer
// now. It says nothing about the task, which is as it was.
func (x *exchange) journalFails(err error) {
	x.reject(codeJournal, "the journal cannot be read at the moment: "+err.Error(), nil)
}

// answerTasks answers tasks/* of a host from the journal. It reports whether x
// is one that is answered here.
func (x *exchange) answerTasks() bool {
	k := x.bridge.keeper
	if k == nil {
		return false
	}
	d := oldDoor
	if x.profile.era == modernEra {
		d = newDoor
		if x.method == "tasks/result" || x.method == "tasks/list" {
			x.rejectGone()
			return true
		}
		if tasks, _ := extensions(x.profile.capabilities); !tasks {
			x.reject(codeMissingCapability, "this request does not declare the tasks extension",
				[]byte(`{"requiredCapabilities":{"extensions":{"`+tasksExtension+`":{}}}}`))
			return true
		}
	} else if x.profile.version < rev2025_11_25 {
		return false
	}
	k.tend()
	if x.method == "tasks/list" {
		k.listTasks(x)
		return true
	}
	text, _ := jsonrpc.String(x.msg.Field(jsonrpc.TaskID))
	h, err := jobs.ParseHandle(text)
	if err != nil {
		x.reject(codeInvalidParams, "no task has this id", nil)
		return true
	}
	job, err := k.journal.Find(x.ctx, h)
	switch {
	case err != nil && !errors.Is(err, jobs.ErrNotFound):
		x.journalFails(err)
		return true
	case err != nil || !k.mayShow(&job):
		x.reject(codeInvalidParams, "no task has this id", nil)
		return true
	}
	k.serveTask(x, k.lookAfter(x.ctx, job), d)
	return true
}

// serveTask answers a request about one task.
func (k *keeper) serveTask(x *exchange, job jobs.Job, d door) {
	switch x.method {
	case "tasks/get":
		task, err := x.detailedTask(&job, d)
		if err != nil {
			x.journalFails(err)
			return
		}
		x.answerText(x.taskReply(task, d))
		k.noteRead(&job, d)
	case "tasks/update":
		if err := k.handAnswers(x.ctx, job, x.answersOf()); err != nil {
			x.reject(codeJournal, "the answers could not be handed on: "+err.Error(), nil)
			return
		}
		x.answerText(resultLine(x.id, []byte(`{"resultType":"complete"}`)))
	case "tasks/cancel":
		k.cancelTask(x, job, d)
	case "tasks/result":
		k.taskResult(x, job)
	default:
		x.reject(codeMethodNotFound, "method not found: "+x.method, nil)
	}
}

func (x *exchange) taskReply(task []byte, d door) [][]byte {
	if d == newDoor {
		task = jsonrpc.With(task, "resultType", []byte(`"complete"`))
	}
	return resultLine(x.id, task)
}

// detailedTask is a task with what its status brings: at the new door the
// result, the error or the open questions are part of it. An error is the
// journal's.
func (x *exchange) detailedTask(job *jobs.Job, d door) ([]byte, error) {
	if d == oldDoor {
		return x.oldTask(job)
	}
	if err := x.tellEnd(job, d); err != nil {
		return nil, err
	}
	k := x.bridge.keeper
	status, _ := x.taskStatus(job, d)
	switch status {
	case "input_required":
		questions := []byte{'{'}
		for _, q := range job.Questions {
			questions = appendMember(questions, q.ID, q.Request)
		}
		return x.task(job, member{"inputRequests", append(questions, '}')}), nil
	case "completed":
		result, kind, err := k.keptEnd(x.ctx, job)
		if err != nil {
			return nil, err
		}
		if kind != jobs.ToolAnswer {
			text := x.jobNote(job).String()
			result = concat(`{"content":[`, textBlock(text), `],"isError":`, strconv.FormatBool(job.State != jobs.Completed), `}`)
		}
		if len(jsonrpc.Get(result, "resultType")) == 0 {
			result = jsonrpc.With(result, "resultType", []byte(`"complete"`))
		}
		return x.task(job, member{"result", result}), nil
	case "failed":
		value, err := k.taskError(x, job)
		if err != nil {
			return nil, err
		}
		return x.task(job, member{"error", value}), nil
	}
	return x.task(job), nil
}

// taskError is the JSON-RPC error of a failed job: upstream's, else one of ours.
func (k *keeper) taskError(x *exchange, job *jobs.Job) ([]byte, error) {
	result, kind, err := k.keptEnd(x.ctx, job)
	if err != nil || kind == jobs.ErrorValue {
		return result, err
	}
	return concat(`{"code":`, strconv.Itoa(codeUnreachable), `,"message":`, quote(x.jobNote(job).String()), `}`), nil
}

// noteRead notes that an end was read through a door that shows it.
func (k *keeper) noteRead(job *jobs.Job, d door) {
	if d == newDoor && job.State.Settled() {
		k.written(untold{handle: job.Handle, asked: true})
	}
}

// taskResult is tasks/result of 2025-11-25: it blocks until the task ends and
// returns exactly what the call would have returned, with the task named.
func (k *keeper) taskResult(x *exchange, job jobs.Job) {
	for job.ToldEnds[oldDoor.String()] == "" && (job.State == jobs.Working || job.State == jobs.InputRequired) {
		before := job.Seen()
		if job = k.putQuestions(x, job); job.Seen() != before {
			continue
		}
		latest, err := k.journal.Wait(x.ctx, job.Handle, job.Seen())
		if err != nil {
			if x.ctx.Err() == nil { // else cancelled, or the bridge leaves
				x.journalFails(err)
			}
			return
		}
		job = k.lookAfter(x.ctx, latest)
	}
	related := member{metaRelated, concat(`{"taskId":`, quote(string(job.Handle)), `}`)}
	err := x.tellEnd(&job, oldDoor)
	if err != nil {
		x.journalFails(err)
		return
	}
	result, kind, err := k.keptEnd(x.ctx, &job)
	switch {
	case err != nil:
		x.journalFails(err)
		return
	case !job.State.Settled() && job.ToldEnds[oldDoor.String()] == taskCancelled:
		x.tellBeside(related.name, related.value)
		x.answerText(x.ownResult(concat(`{"content":[`, textBlock("FAILED: the call on server "+job.Server+" ended for this task. "+cancelledText),
			`],"isError":true,"_meta":`, x.metaWith(), `}`)))
		return
	case kind == jobs.ToolAnswer:
		x.answerText(x.keptResult(&job, result, related))
	case kind == jobs.ErrorValue:
		x.answerText([][]byte{[]byte(`{"jsonrpc":"2.0","id":`), x.id, []byte(`,"error":`), result, []byte("}")})
	default:
		x.tellBeside(related.name, related.value)
		x.answerText(x.handleAnswer(&job, false, ""))
	}
	k.written(untold{handle: job.Handle, asked: true})
}

// cancelTask asks upstream to stop. At the new door that is an acknowledgment
// and no more; at the old one the task is cancelled at once, and stays so.
func (k *keeper) cancelTask(x *exchange, job jobs.Job, d door) {
	ended := job.State.Settled() || job.State == jobs.OutcomeUnknown
	if d == oldDoor {
		if ended || job.ToldEnds[d.String()] != "" {
			x.taskHasEnded()
			return
		}
		told, err := k.journal.TellEnd(x.ctx, job.Handle, d.String(), taskCancelled)
		switch {
		case errors.Is(err, jobs.ErrSettled): // before it was reached
			x.taskHasEnded()
			return
		case err != nil:
			x.reject(codeJournal, "nothing was cancelled, as that could not be journaled: "+err.Error(), nil)
			return
		}
		job = told
	}
	if !ended {
		if err := k.cancelJob(x.ctx, &job); err != nil {
			k.bridge.cfg.Log.Warn("the process that holds a task could not be asked to cancel it", "handle", job.Handle, "error", err)
			if d == newDoor {
				x.reject(codeJournal, "the process that holds this task could not be asked: "+err.Error(), nil)
				return
			}
		}
	}
	if d == newDoor {
		x.answerText(resultLine(x.id, []byte(`{"resultType":"complete"}`)))
		return
	}
	status, message := x.taskStatus(&job, d)
	x.answerText(resultLine(x.id, taskObject(&job, d, status, message, nil)))
}

// cancelJob has a job cancelled by whoever makes its delivery.
func (k *keeper) cancelJob(ctx context.Context, job *jobs.Job) error {
	if job.BetweenRounds() && k.endRound(ctx, job) {
		return nil
	}
	if own := k.exchangeOf(job.Handle); own != nil {
		k.obey(own, jobs.Ask{Kind: jobs.AskCancel})
		return nil
	}
	_, err := k.journal.Ask(ctx, job.Handle, jobs.AskCancel, nil)
	if errors.Is(err, jobs.ErrSettled) {
		return nil // meanwhile
	}
	return err
}

// taskHasEnded refuses to cancel: 2025-11-25, tasks, "Task Cancellation", has
// -32602 for a task in a terminal status.
func (x *exchange) taskHasEnded() {
	x.reject(codeInvalidParams, "the task has ended already", nil)
}

// listTasks is tasks/list of 2025-11-25.
func (k *keeper) listTasks(x *exchange) {
	from, _ := jsonrpc.String(x.msg.Field(jsonrpc.Cursor))
	skip := 0
	if from != "" {
		n, err := strconv.Atoi(from)
		if err != nil || n < 0 {
			x.reject(codeInvalidParams, "this cursor is not from this server", nil)
			return
		}
		skip = n
	}
	found, err := k.journal.List(x.ctx, jobs.Filter{Server: k.account().Server, Principal: k.account().Principal, Limit: skip + maxTaskList + 1})
	if err != nil {
		x.reject(codeJournal, "the journal cannot be read: "+err.Error(), nil)
		return
	}
	next := ""
	if len(found) > skip+maxTaskList {
		found, next = found[:skip+maxTaskList], strconv.Itoa(skip+maxTaskList)
	}
	list := []byte{'['}
	for i := min(skip, len(found)); i < len(found); i++ {
		if len(list) > 1 {
			list = append(list, ',')
		}
		task, err := x.oldTask(&found[i])
		if err != nil {
			x.journalFails(err)
			return
		}
		list = append(list, task...)
	}
	result := concat(`{"tasks":`, append(list, ']'))
	if next != "" {
		result = concat(result, `,"nextCursor":`, quote(next))
	}
	x.answerText(resultLine(x.id, append(result, '}')))
}

// openTask answers a call of 2025-11-25 that asked for a task at once, and lets
// the delivery begin.
func (k *keeper) openTask(x *exchange) bool {
	c := k.call(x)
	c.HandleOut = true
	b, err := k.settleContest(x.ctx, c)
	switch {
	case errors.Is(err, jobs.ErrKeyConflict):
		x.reject(codeKeyConflict, fmt.Sprintf("the idempotency key was used before with other arguments, by %s", b.Job.Handle), nil)
		return false
	case err != nil:
		x.reject(codeJournal, "the task could not be journaled and was not sent: "+err.Error(), nil)
		return false
	}
	if b.Claimed {
		k.recover(b.Job)
	}
	if b.Job, err = k.handOut(b.Job); err != nil {
		k.release(b)
		x.reject(codeJournal, "this call was not sent: an earlier one goes on, whose task could not be journaled: "+err.Error(), nil)
		return false
	}
	task, err := x.oldTask(&b.Job)
	if err != nil {
		k.release(b)
		x.journalFails(err)
		return false
	}
	created := resultLine(x.id, concat(`{"task":`, task, `}`))
	if b.Hold != jobs.NotHeld {
		x.answerText(created)
		k.release(b) // its end is for whoever asks for the task
		return false
	}
	k.take(x, b)
	x.mu.Lock()
	if !x.closeLocked() { // cancelled meanwhile: it ends unsent, and has no answer
		x.mu.Unlock()
		return true
	}
	x.abandoned, x.tasked, x.job.given = true, true, true
	x.mu.Unlock()
	x.host.free(x)
	x.write(created)
	x.bridge.record(x, nil, "exchange")
	return true
}

// knownTasks are those of the handles that are tasks of this account.
func (k *keeper) knownTasks(ctx context.Context, handles []jobs.Handle) []jobs.Handle {
	if k == nil {
		return nil
	}
	var known []jobs.Handle
	for _, h := range handles {
		if job, err := k.journal.Find(ctx, h); err == nil && k.mayShow(&job) {
			known = append(known, h)
		}
	}
	return known
}

// followFor tells a listen about each change of one task: SEP-2663, "Task Status
// Notifications". What the journal cannot say now it is asked again.
func (k *keeper) followFor(one *listen, h jobs.Handle) {
	for pause := firstStatusPause; ; pause = min(2*pause, maxStatusPause) {
		err := k.followTask(one, h)
		if err == nil || errors.Is(err, jobs.ErrNotFound) || !pauseFor(one.x.ctx, pause) {
			return
		}
	}
}

// followTask tells a listen about the changes of one task until it has ended.
func (k *keeper) followTask(one *listen, h jobs.Handle) error {
	x := one.x
	job, err := k.journal.Find(x.ctx, h)
	for err == nil {
		task, err := x.detailedTask(&job, newDoor)
		if err != nil {
			return err
		}
		one.notify("notifications/tasks", task[1:len(task)-1])
		if job.State.Settled() {
			return nil
		}
		if job, err = k.journal.Wait(x.ctx, h, job.Seen()); err != nil {
			return err
		}
	}
	return err
}
