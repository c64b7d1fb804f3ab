package bridge

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/retry"
)

// For a day after a damaged journal was set aside, calls of tools that say
// nothing of themselves carry a warning; others do not.
func TestSetAsideIsTold(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		class       retry.Class
		unannotated bool
		at          time.Time
		want        bool
	}{
		{retry.Write, true, at, true},
		{retry.Write, false, at, false},
		{retry.Idempotent, true, at, false},
		{retry.Write, true, time.Time{}, false},
	} {
		_, x := journalBridge(t, "crm")
		x.class = c.class
		x.warnSetAside(jobs.Begun{Job: jobs.Job{Unannotated: c.unannotated}, SetAside: c.at})
		text, _ := jsonrpc.String(jsonrpc.Get(x.metaWith(), metaSetAside))
		if got := strings.Contains(text, "2026-03-01T08:00:00Z") && strings.Contains(text, "may have acted twice"); got != c.want {
			t.Errorf("%+v: %q", c, text)
		}
	}
}

// A held call says that it was held by its tool, and what the journal lost.
func TestWaysOut(t *testing.T) {
	t.Parallel()
	b, _ := journalBridge(t, "crm")
	job := jobs.Job{State: jobs.OutcomeUnknown}
	if text := b.keeper.waysOut(&job, jobs.Begun{}); text != "" {
		t.Errorf("without a reason: %q", text)
	}
	text := b.keeper.waysOut(&job, jobs.Begun{OtherArguments: true, SetAside: time.Now()})
	for _, want := range []string{"other arguments", "was not made", "set aside"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q: %s", want, text)
		}
	}
}

// What a status tool says settles a call, but is not the answer to it.
func TestStatusIsQuoted(t *testing.T) {
	t.Parallel()
	b, x := journalBridge(t, "crm")
	job := beginJob(t, b)
	job, err := b.keeper.journal.Settle(context.Background(), job.Handle, job.Seen(), jobs.End{State: jobs.Completed, Effect: jobs.Reported,
		Evidence: jobs.StatusTool, EndedBy: byUpstream, Note: statusNote("get_export", "all done")})
	if err != nil {
		t.Fatal(err)
	}
	text := x.jobNote(&job).String()
	for _, want := range []string{"COMPLETED", `get_export said "all done"`, "was lost"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q: %s", want, text)
		}
	}
}
