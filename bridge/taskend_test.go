package bridge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/memstore"
)

// twoBridges are two processes at one journal, and a journal to change it by.
func twoBridges(t *testing.T, e era) (a, b *inProcess, j *jobs.Journal) {
	t.Helper()
	s, err := memstore.New(jobs.Schema())
	if err != nil {
		t.Fatal(err)
	}
	start := func(j *jobs.Journal) *inProcess {
		p := startInProcess(t, Config{URL: serve(t, taskServer), Server: "s", Version: "test", Jobs: j})
		if e == legacyEra {
			p.initialize()
		}
		return p
	}
	j = jobs.New(s.Share(), jobs.Options{})
	return start(jobs.New(s.Share(), jobs.Options{})), start(jobs.New(s.Share(), jobs.Options{})), j
}

func beginFor(t *testing.T, j *jobs.Journal) jobs.Job {
	t.Helper()
	b, err := j.Begin(t.Context(), jobs.Call{Account: jobs.Account{Server: "s", Principal: auth.Anonymous}, Tool: "t", HandleOut: true})
	if err != nil {
		t.Fatal(err)
	}
	return b.Job
}

func (p *inProcess) status(e era, h jobs.Handle) string {
	p.t.Helper()
	m := p.call("tasks/get", taskParams(e, h, ""))
	status, _ := jsonrpc.String(jsonrpc.Get(objectOr(m.Bytes(m.Result), "{}"), "status"))
	return status
}

func toolAnswer() jobs.End {
	return jobs.End{State: jobs.Completed, Effect: jobs.Reported, Evidence: jobs.ToolResult,
		Result: []byte(`{"content":[{"type":"text","text":"done"}]}`), Kind: jobs.ToolAnswer}
}

// A task of 2025-11-25 that was cancelled stays so, whatever its call comes to and
// whichever process is asked; its result does not wait for the call, and is there
// when there is one.
func TestCancelledTaskStaysCancelled(t *testing.T) {
	t.Parallel()
	a, b, j := twoBridges(t, legacyEra)
	job := beginFor(t, j)
	if m := a.call("tasks/cancel", taskParams(legacyEra, job.Handle, "")); !strings.Contains(string(m.Raw), `"status":"cancelled"`) {
		t.Fatalf("told %s", m.Raw)
	}
	if got := b.status(legacyEra, job.Handle); got != "cancelled" {
		t.Errorf("while the call runs: %s", got)
	}
	if m := b.call("tasks/result", taskParams(legacyEra, job.Handle, "")); !strings.Contains(string(m.Raw), cancelledText) || !strings.Contains(string(m.Raw), `"isError":true`) {
		t.Errorf("the result while the call runs: %s", m.Raw)
	}
	if _, err := j.Finish(t.Context(), job.Handle, toolAnswer()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*inProcess{a, b} {
		if got := p.status(legacyEra, job.Handle); got != "cancelled" {
			t.Errorf("after the call ended: %s", got)
		}
		wantError(t, p.call("tasks/cancel", taskParams(legacyEra, job.Handle, "")), codeInvalidParams, "ended already")
		if m := p.call("tasks/result", taskParams(legacyEra, job.Handle, "")); !strings.Contains(string(m.Raw), `"done"`) {
			t.Errorf("the result: %s", m.Raw)
		}
	}
}

// An unknown outcome is an end for a task; once that was told, it stays, though
// its job comes to another end or runs again.
func TestToldEndOfATaskStays(t *testing.T) {
	t.Parallel()
	later := map[string]func(j *jobs.Journal, job jobs.Job) error{
		"happened": func(j *jobs.Journal, job jobs.Job) error {
			_, _, err := j.Resolve(t.Context(), job.Handle, job.Seen(), jobs.Resolution{Word: jobs.Happened})
			return err
		},
		"failed by a status tool": func(j *jobs.Journal, job jobs.Job) error {
			_, err := j.Settle(t.Context(), job.Handle, job.Seen(), jobs.End{State: jobs.Failed, Evidence: jobs.StatusTool})
			return err
		},
		"works by a status tool": func(j *jobs.Journal, job jobs.Job) error {
			_, err := j.Working(t.Context(), job.Handle, job.Seen(), "get_export said running")
			return err
		},
	}
	for e, want := range map[era]string{legacyEra: "failed", modernEra: "completed"} {
		for name, change := range later {
			t.Run(fmt.Sprintf("era %v, %s", e, name), func(t *testing.T) {
				t.Parallel()
				a, b, j := twoBridges(t, e)
				job, err := j.Finish(t.Context(), beginFor(t, j).Handle, jobs.End{State: jobs.OutcomeUnknown, Evidence: "timeout"})
				if err != nil {
					t.Fatal(err)
				}
				if got := a.status(e, job.Handle); got != want {
					t.Errorf("unknown: told %q, want %q", got, want)
				}
				if err := change(j, job); err != nil {
					t.Fatal(err)
				}
				if got := b.status(e, job.Handle); got != want {
					t.Errorf("told %q, want %q as before", got, want)
				}
				if e == legacyEra { // does not wait
					b.call("tasks/result", taskParams(e, job.Handle, ""))
				}
			})
		}
	}
}

// An end that cannot be journaled as told is not told.
func TestEndOfATaskThatIsNotJournaledIsNotTold(t *testing.T) {
	t.Parallel()
	for _, e := range []era{legacyEra, modernEra} {
		p, j := startBroken(t)
		if e == legacyEra {
			p.initialize()
		}
		job, err := j.Finish(t.Context(), j.begun(t).Handle, jobs.End{State: jobs.OutcomeUnknown, Evidence: "timeout"})
		open := j.begunAs(t, "open")
		if err != nil {
			t.Fatal(err)
		}
		j.breaks("tell")
		wantError(t, p.call("tasks/get", taskParams(e, job.Handle, "")), codeJournal, errBroken.Error())
		if e == legacyEra {
			wantError(t, p.call("tasks/result", taskParams(e, job.Handle, "")), codeJournal, errBroken.Error())
			wantError(t, p.call("tasks/cancel", taskParams(e, open.Handle, "")), codeJournal, errBroken.Error())
		}
		if now, err := j.Find(t.Context(), open.Handle); err != nil || len(now.ToldEnds) > 0 {
			t.Errorf("%v, %v", now.ToldEnds, err)
		}
	}
}

// begunAs is begun with arguments of its own.
func (j *brokenJournal) begunAs(t *testing.T, what string) jobs.Job {
	t.Helper()
	b, err := j.Begin(t.Context(), jobs.Call{Account: jobs.Account{Server: "s", Principal: auth.Anonymous}, Tool: "t",
		Arguments: fmt.Appendf(nil, `{"of":%q}`, t.Name()+what)})
	if err != nil {
		t.Fatal(err)
	}
	return b.Job
}
