package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/memstore"
)

// A brokenJournal fails in the operations that are named.
type brokenJournal struct {
	*jobs.Journal
	broken atomic.Pointer[string]
}

var errBroken = errors.New("the disk is on fire")

func (j *brokenJournal) breaks(operation string) { j.broken.Store(&operation) }

func (j *brokenJournal) fails(operation string) error {
	if s := j.broken.Load(); s != nil && *s == operation {
		return errBroken
	}
	return nil
}

func (j *brokenJournal) Find(ctx context.Context, h jobs.Handle) (jobs.Job, error) {
	if err := j.fails("find"); err != nil {
		return jobs.Job{}, err
	}
	return j.Journal.Find(ctx, h)
}

func (j *brokenJournal) Wait(ctx context.Context, h jobs.Handle, seen jobs.Seen) (jobs.Job, error) {
	if err := j.fails("wait"); err != nil {
		return jobs.Job{}, err
	}
	return j.Journal.Wait(ctx, h, seen)
}

func (j *brokenJournal) Result(ctx context.Context, h jobs.Handle) ([]byte, jobs.Kind, error) {
	if err := j.fails("result"); err != nil {
		return nil, jobs.NoResult, err
	}
	return j.Journal.Result(ctx, h)
}

func (j *brokenJournal) GiveHandle(ctx context.Context, h jobs.Handle) (jobs.Job, error) {
	if err := j.fails("give"); err != nil {
		return jobs.Job{}, err
	}
	return j.Journal.GiveHandle(ctx, h)
}

func (j *brokenJournal) RoundKey(ctx context.Context) ([]byte, error) {
	if err := j.fails("key"); err != nil {
		return nil, err
	}
	return j.Journal.RoundKey(ctx)
}

// TellEnd of a job fails as for one that has ended while "ended" is named.
func (j *brokenJournal) TellEnd(ctx context.Context, h jobs.Handle, where, word string) (jobs.Job, error) {
	if j.fails("ended") != nil {
		return jobs.Job{}, fmt.Errorf("job %s: %w", h, jobs.ErrSettled)
	}
	if err := j.fails("tell"); err != nil {
		return jobs.Job{}, err
	}
	return j.Journal.TellEnd(ctx, h, where, word)
}

func (j *brokenJournal) Ask(ctx context.Context, h jobs.Handle, kind string, body json.RawMessage) (jobs.Ask, error) {
	if err := j.fails("ask"); err != nil {
		return jobs.Ask{}, err
	}
	return j.Journal.Ask(ctx, h, kind, body)
}

// startBroken runs a bridge on a journal that can be broken.
func startBroken(t *testing.T) (*inProcess, *brokenJournal) {
	t.Helper()
	s, err := memstore.New(jobs.Schema())
	if err != nil {
		t.Fatal(err)
	}
	j := &brokenJournal{Journal: jobs.New(s, jobs.Options{})}
	u := serve(t, func(method string) (int, string) {
		if method == "initialize" {
			return 200, `{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
		}
		return 200, `{"jsonrpc":"2.0","id":ID,"result":{"tools":[]}}`
	})
	p := startInProcess(t, Config{URL: u, Server: "s", Version: "test", Jobs: j})
	return p, j
}

// begun is a job of the account that the bridge works for.
func (j *brokenJournal) begun(t *testing.T) jobs.Job {
	t.Helper()
	b, err := j.Begin(t.Context(), jobs.Call{Account: jobs.Account{Server: "s", Principal: auth.Anonymous}, Tool: "t",
		Arguments: []byte(fmt.Sprintf(`{"of":%q}`, t.Name())), Class: jobs.Write})
	if err != nil {
		t.Fatal(err)
	}
	return b.Job
}

func (j *brokenJournal) completed(t *testing.T) jobs.Job {
	t.Helper()
	job, err := j.Finish(t.Context(), j.begun(t).Handle, jobs.End{State: jobs.Completed, Effect: jobs.Reported, Evidence: jobs.ToolResult,
		Result: []byte(`{"content":[]}`), Kind: jobs.ToolAnswer})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// taskParams are the params of tasks/* at the door for an era.
func taskParams(e era, h jobs.Handle, more string) string {
	if e == modernEra {
		more += `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	}
	return fmt.Sprintf(`{"taskId":%q%s}`, h, more)
}

func wantError(t *testing.T, m *jsonrpc.Message, code int, words string) {
	t.Helper()
	text := string(m.Bytes(m.Error))
	if !strings.Contains(text, fmt.Sprintf(`"code":%d`, code)) || !strings.Contains(text, words) {
		t.Errorf("got %s, want an error %d with %q", m.Raw, code, words)
	}
}

func TestTaskDoorsTellTheJournalsTroubleFromAnAnswer(t *testing.T) {
	t.Parallel()
	for _, e := range []era{legacyEra, modernEra} {
		p, j := startBroken(t)
		if e == legacyEra {
			p.initialize()
		}
		done := j.completed(t)
		j.breaks("find")
		wantError(t, p.call("tasks/get", taskParams(e, done.Handle, "")), codeJournal, errBroken.Error())
		j.breaks("result")
		wantError(t, p.call("tasks/get", taskParams(e, done.Handle, "")), codeJournal, errBroken.Error())
		if e == legacyEra {
			wantError(t, p.call("tasks/list", `{}`), codeJournal, errBroken.Error())
			wantError(t, p.call("tasks/result", taskParams(e, done.Handle, "")), codeJournal, errBroken.Error())
		}
		j.breaks("")
		if m := p.call("tasks/get", taskParams(e, done.Handle, "")); !strings.Contains(string(m.Raw), `"status":"completed"`) {
			t.Errorf("era %v: %s, want the task completed", e, m.Raw)
		}
		wantError(t, p.call("tasks/get", taskParams(e, jobs.NewHandle(), "")), codeInvalidParams, "no task has this id")
	}
}

func TestTaskResultSaysThatTheJournalCannotBeWaitedFor(t *testing.T) {
	t.Parallel()
	p, j := startBroken(t)
	p.initialize()
	j.breaks("wait")
	wantError(t, p.call("tasks/result", taskParams(legacyEra, j.begun(t).Handle, "")), codeJournal, errBroken.Error())
}

func TestCancelOfATaskThatEndedMeanwhileIsRefused(t *testing.T) {
	t.Parallel()
	p, j := startBroken(t)
	p.initialize()
	job := j.begun(t)
	j.breaks("ended")
	wantError(t, p.call("tasks/cancel", taskParams(legacyEra, job.Handle, "")), codeInvalidParams, "ended already")
	j.breaks("")
	if m := p.call("tasks/get", taskParams(legacyEra, job.Handle, "")); strings.Contains(string(m.Raw), `"cancelled"`) {
		t.Errorf("%s, want nothing cancelled", m.Raw)
	}
}

func TestTaskUpdateSaysWhatItLost(t *testing.T) {
	t.Parallel()
	p, j := startBroken(t)
	job := j.begun(t)
	if _, err := j.AskHost(t.Context(), job.Handle, jobs.Question{ID: "q1", Request: []byte(`{"method":"elicitation/create"}`)}); err != nil {
		t.Fatal(err)
	}
	j.breaks("ask")
	update := func(id string) *jsonrpc.Message {
		return p.call("tasks/update", taskParams(modernEra, job.Handle, fmt.Sprintf(`,"inputResponses":{%q:{"action":"decline"}}`, id)))
	}
	wantError(t, update("q1"), codeJournal, errBroken.Error())
	if m := update("q2"); string(jsonrpc.Get(m.Bytes(m.Result), "resultType")) != `"complete"` {
		t.Errorf("%s, want an answer to no open question ignored", m.Raw)
	}
}

func TestARoundKeyThatCannotBeReadIsReadLater(t *testing.T) {
	t.Parallel()
	p, j := startBroken(t)
	b := p.bridge
	j.breaks("key")
	before := sealState(b.stateKey(), roundState{Round: 1})
	j.breaks("")
	after := sealState(b.stateKey(), roundState{Round: 2})
	key, err := j.RoundKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := sealState(key, roundState{Round: 2}); after != want {
		t.Error("a round is not sealed with the key of the state directory although it can be read")
	}
	for round, text := range []string{before, after} {
		if s, ok := b.openState(text); !ok || s.Round != round+1 {
			t.Errorf("round %d is not known again", round+1)
		}
	}
	if _, ok := b.openState(sealState([]byte("another"), roundState{})); ok {
		t.Error("a round of another's key is taken")
	}
}
