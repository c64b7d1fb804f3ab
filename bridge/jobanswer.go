package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/retry"
)

// This file is what a host is told about a job.

// pollAdvice is the wait_seconds that texts suggest at most.
const pollAdvice = 45 * time.Second

// jobNote is the text about a job in its present state.
func (x *exchange) jobNote(j *jobs.Job) note {
	subject := fmt.Sprintf("the call of %q on server %s", cut(j.Tool, 80), j.Server)
	began := j.CreatedAt
	if x.job.handle == j.Handle && x.began.Before(began) {
		began = x.began // a read is journaled late
	}
	since := age(time.Since(began))
	its := "its handle is " + string(j.Handle) + "; "
	again := fmt.Sprintf("do not call %q again for it: it may act twice", cut(j.Tool, 80))
	switch j.State {
	case jobs.Working:
		n := note{head: "STILL RUNNING (not an error)", what: fmt.Sprintf("%s goes on, for %s now", subject, since),
			known: "its handle is " + string(j.Handle) + progressText(j.Progress),
			next:  fmt.Sprintf("call %s with this handle and wait_seconds %d to wait for the result, or stop here and tell the user", jobTool, x.pollSeconds()),
			not:   again}
		if j.Class == jobs.Read {
			n.not = ""
		}
		return n
	case jobs.InputRequired:
		return note{head: "STILL RUNNING (not an error)", what: fmt.Sprintf("%s waits for an answer from the user, for %s now", subject, since),
			known: "its handle is " + string(j.Handle),
			next:  fmt.Sprintf("call %s with this handle: the question is put there", jobTool),
			not:   again}
	case jobs.OutcomeUnknown:
		return note{head: "OUTCOME UNKNOWN", what: fmt.Sprintf("%s, %s ago, ended without a usable answer", subject, since),
			known:   its + evidenceText(j),
			unknown: "whether it took effect",
			next:    fmt.Sprintf("look at the current state with a tool that only reads, then call %s with happened, did_not_happen or send_again, or ask the user", resolveTool),
			not:     again}
	case jobs.Failed:
		n := note{head: "FAILED", what: fmt.Sprintf("%s, %s ago, failed", subject, since), known: its + evidenceText(j)}
		if j.SupersededBy != "" {
			n.what = fmt.Sprintf("%s, %s ago, is closed: it was made again as %s", subject, since, j.SupersededBy)
			n.next = fmt.Sprintf("look at that one with %s", jobTool)
		}
		switch {
		case j.Effect == jobs.None:
			n.known += "; nothing was executed"
			n.next = orText(n.next, "make the call again if it is still wanted")
		default:
			n.unknown = "whether part of it took effect"
			n.next = orText(n.next, "look at the current state with a tool that only reads, or tell the user")
		}
		return n
	case jobs.Cancelled:
		return note{head: "FAILED", what: fmt.Sprintf("%s, begun %s ago, was cancelled by the server", subject, since), known: its + evidenceText(j), unknown: "whether part of it took effect"}
	}
	return note{head: "COMPLETED", what: fmt.Sprintf("%s, %s ago, completed", subject, since), known: its + evidenceText(j)}
}

func orText(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

func progressText(p *jobs.Progress) string {
	if p == nil {
		return ""
	}
	s := "; progress " + strconv.FormatFloat(p.Progress, 'g', -1, 64)
	if p.Total > 0 {
		s += " of " + strconv.FormatFloat(p.Total, 'g', -1, 64)
	}
	if p.Message != "" {
		s += " (" + cut(p.Message, 120) + ")"
	}
	return s
}

// evidenceText says in words why a job is in its state.
func evidenceText(j *jobs.Job) string {
	switch j.Evidence {
	case jobs.BridgeLost:
		return "the mcpbridge process that made the call died before the answer was recorded"
	case jobs.ResolvedByUser:
		return "the user said: " + j.Resolution
	case jobs.ResolvedByModel:
		return "it was settled on a model's word: " + j.Resolution
	case jobs.ToolResult:
		return "the server answered with a result"
	case jobs.RPCError:
		return "the server answered with an error"
	case jobs.NotSent:
		return "the call never left this machine"
	case jobs.CancelledByHost:
		return "it was cancelled and the server said no more"
	case jobs.BridgeLeft:
		return "mcpbridge left before the server had answered"
	case jobs.EarlierDelivery:
		return "its last delivery was refused, and one before that may have been executed"
	case jobs.InputExpired:
		return "nobody answered the server's question"
	case jobs.StatusTool:
		s := "a status tool of the server said so"
		if said := statusSaid(j); said != "" {
			s += " (" + said + ")"
		}
		if j.State == jobs.Completed && j.Result.Size == 0 {
			s += "; the answer to the call itself was lost"
		}
		return s
	}
	return "reason: " + string(j.Evidence)
}

// pollSeconds is the longest wait_seconds that fits this host's patience.
func (x *exchange) pollSeconds() int {
	limit := x.bridge.answerWithin(x.host.clientName(), jobTool)
	return max(1, int(min(limit-time.Second, pollAdvice)/time.Second))
}

// jobJSON is the job as it stands in _meta and structuredContent; message is
// the whole text.
func (x *exchange) jobJSON(j *jobs.Job, message string, deduplicated bool) []byte {
	s := j.Summary()
	s.Deduplicated = deduplicated
	b, err := json.Marshal(s)
	if err != nil {
		b = []byte("{}")
	}
	if j.State == jobs.Working || j.State == jobs.InputRequired {
		b = jsonrpc.With(b, "next", concat(`{"tool":"`, jobTool, `","arguments":{"handle":`, quote(string(j.Handle)),
			`,"wait_seconds":`, strconv.Itoa(x.pollSeconds()), `}}`))
	}
	return concat(`{"message":`, quote(message), `,`, b[1:])
}

// handleAnswer hands out the handle of a job.
func (x *exchange) handleAnswer(j *jobs.Job, deduplicated bool, more string) [][]byte {
	n := x.jobNote(j)
	text := n.String()
	if deduplicated {
		text += " This repeat was not sent: it is answered from the earlier call."
	}
	text += more
	declares := x.tool != nil && x.tool.output
	job := x.jobJSON(j, text, deduplicated)
	isError := declares || j.State == jobs.OutcomeUnknown || j.State == jobs.Failed
	result := concat(`{"content":[`, textBlock(text), `],"isError":`, strconv.FormatBool(isError))
	if !declares {
		result = concat(result, `,"structuredContent":`, job)
	}
	meta := x.metaWith(member{metaJob, job})
	return x.ownResult(concat(result, `,"_meta":`, meta, `}`))
}

// metaWith is the _meta of an answer about a call.
func (x *exchange) metaWith(first ...member) []byte {
	meta := []byte{'{'}
	for _, m := range append(first, x.job.meta...) {
		meta = appendMember(meta, m.name, m.value)
	}
	return append(meta, '}')
}

// ownResult is a result of ours as a response line for the host's era.
func (x *exchange) ownResult(result []byte) [][]byte {
	if x.profile.era == modernEra {
		result = jsonrpc.With(result, "resultType", []byte(`"complete"`))
	}
	return resultLine(x.id, result)
}

// answerHeld answers a call that the guard or its key held back, and reports
// whether it is to be sent after all, on a person's word. What the journal keeps
// for x is given back if x's host cannot have it.
func (k *keeper) answerHeld(x *exchange, b jobs.Begun) (send bool) {
	told, rule := k.answerFrom(x, b)
	if !told {
		k.release(b)
	}
	switch rule {
	case ruledFree:
		return k.begin(x)
	case ruledSend:
		return true
	}
	return false
}

// release lets the next caller have the end that was kept for a call which
// cannot be told of it.
func (k *keeper) release(b jobs.Begun) {
	if b.Waits {
		k.journal.Note(b.Job.Handle, jobs.Note{NobodyWait: "answered without its end"})
	}
}

// answerFrom answers a call from an earlier job, unless a person rules otherwise.
// It reports whether the host was told of an end.
func (k *keeper) answerFrom(x *exchange, b jobs.Begun) (bool, ruling) {
	job := b.Job
	if b.Claimed {
		k.recover(job)
	}
	switch b.Hold {
	case jobs.KeptEnd, jobs.KeyedEnd:
		return k.answerEnd(x, &job, true), ruledTold
	case jobs.Joined, jobs.UsedRound:
		job = k.waitUntil(x, job, x.bridge.answerWithin(x.host.clientName(), x.toolName)-time.Since(x.began))
	}
	job = k.lookAfter(x.ctx, job)
	switch {
	case frees(b, &job):
		return false, ruledFree
	case job.State.Settled():
		return k.answerEnd(x, &job, true), ruledTold
	}
	if !b.OtherArguments && b.Hold != jobs.Joined && b.Hold != jobs.UsedRound { // else x is another call, or waits for this one
		switch rule := k.personRules(x, &job); {
		case rule != noWord:
			return false, rule
		case job.State.Settled():
			return k.answerEnd(x, &job, true), ruledTold
		}
	}
	// The same question again, for a call that a question holds open.
	if k.askForJob(x, &job) {
		return false, ruledTold
	}
	given, err := k.handOut(job)
	if frees(b, &given) {
		return false, ruledFree
	}
	k.answerHandle(x, &given, err, k.waysOut(&given, b))
	return false, ruledTold
}

// frees reports whether the job that held a call back has come to an end that does
// not: nothing was executed. A round that came before is not made again.
func frees(b jobs.Begun, job *jobs.Job) bool {
	return job.State == jobs.Failed && job.Effect == jobs.None && b.Hold != jobs.UsedRound
}

// waysOut says how a call that is held back can be sent after all.
func (k *keeper) waysOut(job *jobs.Job, b jobs.Begun) string {
	s := ""
	if job.Directory != k.bridge.cfg.Directory && job.Directory != "" {
		s += " It was made from another window (" + cut(job.Directory, 100) + ")."
	}
	if !b.Until.IsZero() && job.State == jobs.OutcomeUnknown {
		s += " The same call is held back until " + b.Until.UTC().Format(time.RFC3339) + "."
	}
	if b.OtherArguments {
		s += " That call had other arguments: this tool is guarded as a whole, and the call asked for now was not made."
	}
	if !b.SetAside.IsZero() {
		s += " " + setAsideText(b.SetAside)
	}
	return s
}

// setAsideText warns that earlier calls are not on record.
func setAsideText(at time.Time) string {
	return "A damaged journal was set aside at " + at.UTC().Format(time.RFC3339) + ": calls made before then are not known here any more."
}

// warnSetAside puts that warning beside the answer to a call that is sent: an
// earlier call like it may have been lost with the journal.
func (x *exchange) warnSetAside(b jobs.Begun) {
	if x.class == retry.Write && b.Job.Unannotated && !b.SetAside.IsZero() {
		x.tellBeside(metaSetAside, quote(setAsideText(b.SetAside)+" If this call repeats an earlier one, it may have acted twice."))
	}
}

// answerEnd answers with what a settled job came to. It reports whether the
// host is to have it.
func (k *keeper) answerEnd(x *exchange, job *jobs.Job, deduplicated bool) bool {
	if !x.close() {
		return false
	}
	written := x.write(k.endParts(x, job, deduplicated))
	if written {
		k.written(untold{handle: job.Handle, asked: true})
	}
	x.recordHeld(job, deduplicated)
	return written
}

// answerOpen answers a call that is held back with the handle of the job that
// has not ended.
func (k *keeper) answerOpen(x *exchange, job *jobs.Job, more string) {
	given, err := k.handOut(*job)
	k.answerHandle(x, &given, err, more)
}

// answerHandle is answerOpen after the handle was handed out, or could not be.
func (k *keeper) answerHandle(x *exchange, job *jobs.Job, err error, more string) {
	if !x.close() {
		return
	}
	if err != nil {
		x.write(x.withoutHandle(job, err))
	} else {
		x.write(x.handleAnswer(job, true, more))
	}
	x.recordHeld(job, true)
}

// withoutHandle answers a call that is held back by a job whose handle cannot be
// given out.
func (x *exchange) withoutHandle(job *jobs.Job, err error) [][]byte {
	n := note{
		head:  "STILL RUNNING (not an error)",
		what:  fmt.Sprintf("an earlier call of %q on server %s goes on", cut(job.Tool, 80), job.Server),
		known: "this one was not sent; no handle can be given out, as the journal did not take it: " + cut(err.Error(), 300),
		next:  "make exactly this call again in a while: it is answered from the earlier one, and not sent twice",
	}
	if job.State == jobs.OutcomeUnknown {
		n.head = "OUTCOME UNKNOWN"
		n.what = fmt.Sprintf("an earlier call of %q on server %s ended without a usable answer", cut(job.Tool, 80), job.Server)
	}
	isError := job.State == jobs.OutcomeUnknown || x.tool != nil && x.tool.output
	return x.ownResult(concat(`{"content":[`, textBlock(n.String()), `],"isError":`, strconv.FormatBool(isError),
		`,"_meta":`, x.metaWith(member{metaVerdict, x.verdictJSON(heldVerdict(job))}), `}`))
}

// endParts is the answer about a settled job: its result exactly as upstream
// gave it, with the job in _meta, or a text.
func (k *keeper) endParts(x *exchange, job *jobs.Job, deduplicated bool) [][]byte {
	result, kind, err := k.journal.Result(x.ctx, job.Handle)
	switch {
	case err == nil && kind == jobs.ToolAnswer:
		about := member{metaJob, x.jobJSON(job, x.jobNote(job).String(), deduplicated)}
		return x.keptResult(job, result, append(x.job.meta, about)...)
	case err == nil && kind == jobs.ErrorValue:
		message, _ := jsonrpc.String(jsonrpc.Get(result, "message"))
		return x.handleAnswer(job, deduplicated, " The server's error "+string(jsonrpc.Get(result, "code"))+" was: "+cut(message, 400))
	case err != nil && !errors.Is(err, jobs.ErrNoResult):
		return x.handleAnswer(job, deduplicated, " Its result cannot be read at the moment: "+err.Error())
	case job.State == jobs.Completed && job.Result.Size > 0:
		return x.handleAnswer(job, deduplicated, " Its result was delivered before and is not kept any more.")
	}
	return x.handleAnswer(job, deduplicated, "")
}

// keptResult is a kept tool result for this host, with members of _meta added.
func (x *exchange) keptResult(job *jobs.Job, result []byte, meta ...member) [][]byte {
	m, err := jsonrpc.Read(concat(`{"jsonrpc":"2.0","id":0,"result":`, result, `}`))
	if err != nil {
		return x.handleAnswer(job, false, " Its kept result is damaged.")
	}
	p := pair{x.profile.era, modernEra, x.profile.version, rev2026_07_28}
	parts := p.reply("tools/call", &m, x.id, cacheHints{}, meta)
	if _, yes := x.bridge.tooLong(parts); yes {
		return x.largeAnswer(job, int64(len(result)), false)
	}
	return parts
}

// largeAnswer says how to read a result that does not fit into one line.
func (x *exchange) largeAnswer(job *jobs.Job, size int64, deduplicated bool) [][]byte {
	return x.handleAnswer(job, deduplicated, fmt.Sprintf(
		" Its result of %d bytes is longer than one line of this host may be. Read it in pieces: call %s with handle %s and offset 0, then with each nextOffset; or on a terminal: mcpbridge jobs show %s --result.",
		size, jobTool, job.Handle, job.Handle))
}

// keyUsed is why a call with a key conflict is not sent.
const keyUsed = "the idempotency key was used before with other arguments"

// keyConflict refuses a key that was used with other arguments.
func (x *exchange) keyConflict(job *jobs.Job) [][]byte {
	return x.toolText(note{
		head:  "NOT SENT",
		what:  fmt.Sprintf("the idempotency key of this call of %q to server %s was used before, with other arguments (%d key conflict)", cut(x.toolName, 80), x.bridge.cfg.Server, codeKeyConflict),
		known: "nothing was sent; the earlier call is " + string(job.Handle),
		next:  fmt.Sprintf("look at it with %s, or call again with a new key", jobTool),
	}, x.notSent(keyUsed))
}

// notJournaled refuses a call that would have to be journaled and cannot be.
func (x *exchange) notJournaled(err error) [][]byte {
	return x.toolText(note{
		head:  "NOT SENT",
		what:  fmt.Sprintf("%s to server %s must be noted in the journal before it is sent, and that is not possible (%d journal unavailable)", x.subject(), x.bridge.cfg.Server, codeJournal),
		known: cut(err.Error(), 300) + "; nothing was executed",
		next:  "tell the user to free the journal (disk space, permissions, another process that holds it), then call again; --journal try sends such calls unprotected",
	}, x.notSent("journal unavailable: "+err.Error()))
}

// jobOf is the job of x as the journal has it, if its outcome is unknown: what
// the host is told then has the handle with it.
func (k *keeper) jobOf(x *exchange) (jobs.Job, bool) {
	if k == nil || x.handle() == "" || k.bridge.cfg.JobTools == JobToolsNone {
		return jobs.Job{}, false
	}
	job, err := k.journal.Find(x.ctx, x.handle())
	if err != nil || job.State != jobs.OutcomeUnknown {
		return jobs.Job{}, false
	}
	return job, true
}

// waitUntil waits for a change of job, at most for the time given.
func (k *keeper) waitUntil(x *exchange, job jobs.Job, limit time.Duration) jobs.Job {
	if limit <= 0 || job.State.Settled() {
		return job
	}
	ctx, cancel := context.WithTimeout(x.ctx, limit)
	defer cancel()
	for pause := firstStatusPause; !job.State.Settled(); pause = min(2*pause, maxStatusPause) {
		latest, err := k.waitStep(ctx, job, pause)
		if latest.Handle != "" {
			job = latest
		}
		if job.State == jobs.Working && asked(&job) && ctx.Err() == nil {
			job = k.askStatus(ctx, job)
			continue
		}
		if err != nil || job.State != jobs.Working {
			return job
		}
	}
	return job
}

// waitStep waits for a change of job, no longer than pause where only asking
// the status tool can bring one.
func (k *keeper) waitStep(ctx context.Context, job jobs.Job, pause time.Duration) (jobs.Job, error) {
	if asked(&job) && k.bridge.toolConfig(job.Tool).Status != nil {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, pause)
		defer cancel()
	}
	return k.journal.Wait(ctx, job.Handle, job.Seen())
}

// recordHeld writes the record of a call that was answered from a job.
func (x *exchange) recordHeld(job *jobs.Job, deduplicated bool) {
	x.mu.Lock()
	x.job.handle, x.job.deduplicated = job.Handle, deduplicated
	x.mu.Unlock()
	x.evidence.setBy(byBridge)
	if deduplicated {
		x.evidence.retried(hostOrigin)
	}
	x.bridge.record(x, heldVerdict(job), "exchange")
}

// heldVerdict is what a record says of a call that was answered from a job: how
// that job stands. Nothing was sent for the call itself.
func heldVerdict(job *jobs.Job) *classify.Verdict {
	v := &classify.Verdict{Layer: classify.Application, Outcome: classify.ToolSuccess, Effect: classify.Possible, ResultType: "complete"}
	switch {
	case job.State == jobs.Completed:
		v.Effect = classify.Reported
	case job.Evidence == jobs.RPCError:
		v.Layer, v.Outcome = classify.Protocol, classify.JSONRPCError
	case job.State == jobs.InputRequired:
		v.Layer, v.Outcome, v.ResultType = classify.Interaction, classify.InputRequired, ""
	case job.Evidence == jobs.NotSent:
		v.Layer, v.Outcome, v.ResultType = classify.Transport, classify.Unreachable, ""
	case job.State == jobs.Working || job.Evidence == "timeout":
		v.Layer, v.Outcome, v.ResultType = classify.Transport, classify.TimedOut, ""
	default:
		v.Layer, v.Outcome, v.ResultType = classify.Transport, classify.StreamIncomplete, ""
	}
	if job.Effect == jobs.None && job.State.Settled() {
		v.Effect = classify.None
	}
	return v
}
