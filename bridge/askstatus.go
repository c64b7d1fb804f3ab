package bridge

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// This file is status first: an unknown outcome is settled by a tool of the
// same server that tells what happened, where configuration names one.

// settleAfter is how old a call must be before "absent" says that it did not
// happen, unless configured.
const settleAfter = 30 * time.Second

// statusTimeout bounds one query of a status tool.
const statusTimeout = 15 * time.Second

// askStatus calls the status tool of an unknown job, as a read and within the
// budget, and settles the job by its answer. Values on no list and errors of
// the status tool settle nothing.
func (k *keeper) askStatus(ctx context.Context, job jobs.Job) jobs.Job {
	config := k.bridge.toolConfig(job.Tool).Status
	if config == nil || k.bridge.link == nil || !k.follow(job.Handle) {
		return job
	}
	defer k.unfollow(job.Handle)
	if !k.bridge.budget.Take(time.Now()) {
		return job
	}
	result := k.queryStatus(ctx, job, config)
	state, ok := jsonrpc.String(getPointer(result, config.State))
	if !ok {
		return job
	}
	e := jobs.End{Evidence: jobs.StatusTool, EndedBy: byUpstream, Note: statusNote(config.Tool, state)}
	var settled jobs.Job
	var err error
	switch {
	case slices.Contains(config.Completed, state):
		e.State, e.Effect = jobs.Completed, jobs.Reported // its own answer is lost: what the status tool said is none
	case slices.Contains(config.Failed, state):
		e.State, e.Effect = jobs.Failed, jobs.Possible
	case slices.Contains(config.Working, state) && job.State == jobs.Working:
		return job
	case slices.Contains(config.Working, state):
		settled, err = k.journal.Working(ctx, job.Handle, job.Seen(), e.Note)
		return orBefore(settled, job, err)
	case slices.Contains(config.Absent, state) && time.Since(job.CreatedAt) >= orDefault(config.SettleAfter, settleAfter):
		e.State, e.Effect = jobs.Failed, jobs.None
	default:
		return job
	}
	settled, err = k.journal.Settle(ctx, job.Handle, job.Seen(), e)
	return orBefore(settled, job, err)
}

// statusNote is what a job's timeline says of an answer of its status tool.
func statusNote(tool, state string) string {
	return cut(tool, 80) + " said " + strconv.Quote(cut(state, 60))
}

// statusSaid is the last such note that a job was settled by, "" for none.
func statusSaid(j *jobs.Job) string {
	for _, e := range slices.Backward(j.Timeline) {
		if said, ok := strings.CutPrefix(e.Note, string(jobs.StatusTool)+": "); ok {
			return said
		}
	}
	return ""
}

// How often the status tool is asked again while somebody waits.
const (
	firstStatusPause = time.Second
	maxStatusPause   = 10 * time.Second
)

// asked reports whether what is known of a job comes from a status tool only:
// nobody holds its delivery any more.
func asked(job *jobs.Job) bool {
	return job.State == jobs.OutcomeUnknown || job.State == jobs.Working && job.Evidence == jobs.StatusTool
}

// statusFirst asks the status tool about a call of x whose outcome is unknown,
// and answers x with what it says, if x waits still. It reports whether it did.
func (k *keeper) statusFirst(x *exchange, limit time.Duration) bool {
	if k == nil || x.handle() == "" || limit <= 0 || k.bridge.toolConfig(x.toolName).Status == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(k.bridge.life, limit)
	defer cancel()
	job, err := k.journal.Find(ctx, x.handle())
	if err != nil || job.State != jobs.OutcomeUnknown {
		return false
	}
	switch job = k.askStatus(ctx, job); {
	case job.State.Settled() && x.close():
		if x.write(k.endParts(x, &job, false)) {
			k.written(untold{handle: job.Handle, asked: true})
		}
	case job.State == jobs.Working && x.close():
		x.write(x.handleAnswer(&job, false, ""))
	default:
		return false
	}
	return true
}

func orBefore(after, before jobs.Job, err error) jobs.Job {
	if err != nil {
		return before
	}
	return after
}

func orDefault(d, other time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return other
}

// follow lets one status query of a job run at a time.
func (k *keeper) follow(h jobs.Handle) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.followed[h] {
		return false
	}
	k.followed[h] = true
	return true
}

func (k *keeper) unfollow(h jobs.Handle) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.followed, h)
}

// queryStatus is the result of the status tool, nil if it has none.
func (k *keeper) queryStatus(ctx context.Context, job jobs.Job, config *StatusConfig) []byte {
	ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, limitReached("the time for a status query"))
	defer cancel()
	key, err := k.journal.Key(ctx, job)
	if err != nil {
		return nil
	}
	arguments, err := json.Marshal(fill(config.Arguments, strings.NewReplacer("{key}", key, "{handle}", string(job.Handle))))
	if err != nil {
		return nil
	}
	p := k.bridge.host.anyProfile()
	up, failed := k.bridge.link.ready(ctx, p)
	if failed != nil {
		return nil
	}
	m, err := jsonrpc.Read(concat(`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":`, quote(config.Tool), `,"arguments":`, arguments, `}}`))
	if err != nil {
		return nil
	}
	if up.era() == modernEra {
		p = p.asLegacy()
	}
	d := &delivery{own: true, msg: &m, method: "tools/call", name: config.Tool, tool: k.bridge.offers.tool(p, config.Tool),
		id: k.bridge.link.newID(), profile: p, giveUp: time.Now().Add(statusTimeout)}
	r := k.bridge.link.deliverOwn(ctx, up, d, deaf{})
	defer r.done()
	if r.verdict.Outcome != classify.ToolSuccess {
		return nil
	}
	return slices.Clone(r.verdict.Reply.Bytes(r.verdict.Reply.Result))
}

// fill replaces placeholders in the strings of configured arguments.
func fill(value any, r *strings.Replacer) any {
	switch v := value.(type) {
	case string:
		return r.Replace(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, inner := range v {
			out[name] = fill(inner, r)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = fill(inner, r)
		}
		return out
	}
	return value
}
