package main

import (
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
)

// What a server or a host puts into a job steers no terminal.
func TestPrintable(t *testing.T) {
	t.Parallel()
	evil := "\x1b]0;owned\x07 a\nb \u202e \u009b31m"
	j := jobs.Job{
		Tool: evil, Account: jobs.Account{Server: evil, Principal: evil}, Directory: evil, EndedBy: evil, Owner: evil,
		Evidence: jobs.Evidence(evil), Progress: &jobs.Progress{Message: evil}, Timeline: []jobs.Event{{What: evil, Note: evil}},
	}
	var text strings.Builder
	printTimeline(&text, &j)
	for _, state := range []jobs.State{jobs.OutcomeUnknown, jobs.Working, jobs.InputRequired, jobs.Completed, jobs.Failed, jobs.Cancelled} {
		j.State = state
		for _, lost := range []bool{false, true} {
			text.WriteString(message(&j, lost, time.Now()) + advice(&j, lost) + "\n")
			for _, f := range facts(&j, lost) {
				text.WriteString(f.text + "\n")
			}
			if err := printTable(&text, []row{{&j, lost}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	line := progressLine{w: &text}
	line.draw(&j, time.Now())
	if strings.ContainsAny(strings.TrimRight(text.String(), "\r"), "\x1b\x07\u202e\u009b") {
		t.Errorf("a control character is left in %q", text.String())
	}
}

// A line on a terminal shows how far a job is, covers the one before and leaves
// nothing behind.
func TestProgressLine(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	line := progressLine{w: &text}
	now := time.Now()
	j := jobs.Job{Tool: "export", CreatedAt: now.Add(-90 * time.Second), Progress: &jobs.Progress{Progress: 3, Total: 4, Message: "rows"}}
	shown := func() string {
		last := text.String()[strings.LastIndex(text.String(), "\r")+1:]
		return strings.TrimRight(last, " ")
	}
	for _, c := range []struct {
		progress *jobs.Progress
		want     []string
	}{
		{&jobs.Progress{Progress: 3, Total: 4, Message: "rows"}, []string{"[##################......]", "75%", "export 1m  3 of 4, rows"}},
		{&jobs.Progress{Progress: 9, Total: 4}, []string{"[#######################.]", "99%"}},
		{&jobs.Progress{Progress: -1, Total: 4}, []string{"[........................]", " 0%"}},
		{&jobs.Progress{Progress: 7}, []string{"export 1m  7"}},
		{nil, []string{"export 1m"}},
	} {
		j.Progress = c.progress
		line.draw(&j, now)
		for _, want := range c.want {
			if got := shown(); !strings.Contains(" "+got, want) || len([]rune(got)) > 80 {
				t.Errorf("%+v: shows %q, want %q", c.progress, got, want)
			}
		}
	}
	line.clear()
	if got := shown(); got != "" {
		t.Errorf("left behind: %q", got)
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 59 * time.Second: "59s", time.Minute: "1m", 119 * time.Minute: "1h", 47 * time.Hour: "47h", 49 * time.Hour: "2d",
	} {
		if got := ago(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// Why a job is in its state is said in words, not by the name of the evidence.
func TestReasonsAreSentences(t *testing.T) {
	t.Parallel()
	for _, e := range []jobs.Evidence{jobs.Started, jobs.AnswerDeadline, jobs.ToolResult, jobs.RPCError, jobs.NotSent, jobs.BridgeLost,
		jobs.BridgeLeft, jobs.EarlierDelivery, jobs.CancelledByHost, jobs.InputExpired, jobs.StatusTool, jobs.ResolvedByUser, jobs.ResolvedByModel} {
		j := jobs.Job{Evidence: e, Resolution: "happened"}
		if text := reason(&j, false); text == strings.ReplaceAll(string(e), "_", " ") || len(strings.Fields(text)) < 4 {
			t.Errorf("%s: %q", e, text)
		}
	}
}
