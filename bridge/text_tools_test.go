package bridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/stdio"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// spoken is what the host reads of the answer that f gives to x: the text of a
// tool result, or the message of an error.
func spoken(t *testing.T, x *exchange, f func(*exchange)) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	x.host.out = stdio.NewWriter(file, stdio.WriterOptions{})
	x.answered, x.decided = make(chan struct{}), make(chan struct{})
	x.ctx, x.cancel = context.WithCancelCause(x.bridge.life)
	f(x)
	line, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	m, err := jsonrpc.Read(line)
	if err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if m.Error != (jsonrpc.Span{}) {
		text, _ := jsonrpc.String(m.Field(jsonrpc.Text))
		return text
	}
	blocks, err := jsonrpc.Split(m.Field(jsonrpc.Content))
	if err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	text, _ := jsonrpc.String(jsonrpc.Get(blocks[0], "text"))
	return text
}

// asking calls one of the bridge's own tools.
func asking(t *testing.T, b *Bridge, tool, arguments string) func(*exchange) {
	t.Helper()
	m, err := jsonrpc.Read([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	return func(x *exchange) {
		x.msg, x.asked, x.method = &m, &m, m.Method
		b.keeper.callOwn(x, tool)
	}
}

// beginCall begins a call in the journal and, unless that is empty, ends it.
func beginCall(t *testing.T, b *Bridge, c jobs.Call, end jobs.End) jobs.Job {
	t.Helper()
	if c.Account == (jobs.Account{}) {
		c.Account = b.keeper.account()
	}
	begun, err := b.keeper.journal.Begin(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if end.State == jobs.Working {
		return begun.Job
	}
	job, err := b.keeper.journal.Finish(t.Context(), begun.Job.Handle, end)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// What the bridge's own tools say is as the golden file has it, and names the
// server.
func TestToolTexts(t *testing.T) {
	t.Parallel()
	b, x := journalBridge(t, "crm")
	b.host = x.host
	unknown := jobs.End{State: jobs.OutcomeUnknown, Evidence: "timeout"}
	lost := beginCall(t, b, jobs.Call{Tool: "write_note", Destructive: true}, unknown)
	instructions := b.keeper.instructions()
	bare := beginCall(t, b, jobs.Call{Tool: "write_secret", Store: jobs.StoreNone}, unknown)
	done := beginCall(t, b, jobs.Call{Tool: "add_entry"}, jobs.End{State: jobs.Completed, Effect: jobs.Reported, Evidence: jobs.ToolResult, Kind: jobs.ToolAnswer, Result: []byte(`{"content":[]}`)})
	foreign := beginCall(t, b, jobs.Call{Tool: "add_entry", Account: jobs.Account{Server: "billing", Principal: "anonymous"}}, jobs.End{})
	fresh := func() *exchange {
		return &exchange{bridge: b, host: x.host, began: time.Now(), profile: x.profile, id: x.id}
	}
	says := func(tool, arguments string, about ...any) string {
		return spoken(t, fresh(), asking(t, b, tool, fmt.Sprintf(arguments, about...)))
	}
	texts := map[string]string{
		"no-handle":            says(jobTool, `{"handle":"42"}`),
		"not-found":            says(jobTool, `{"handle":"%s"}`, jobs.NewHandle()),
		"other-server":         says(jobTool, `{"handle":"%s"}`, foreign.Handle),
		"no-such-state":        says(jobsTool, `{"state":"gone"}`),
		"no-resolution":        says(resolveTool, `{"handle":"%s","resolution":"maybe","why":"x"}`, lost.Handle),
		"no-why":               says(resolveTool, `{"handle":"%s","resolution":"happened"}`, lost.Handle),
		"destructive":          says(resolveTool, `{"handle":"%s","resolution":"send_again","why":"x"}`, lost.Handle),
		"arguments-not-kept":   says(resolveTool, `{"handle":"%s","resolution":"send_again","why":"x"}`, bare.Handle),
		"settled-already":      says(resolveTool, `{"handle":"%s","resolution":"happened","why":"x"}`, done.Handle),
		"does-not-run":         says(cancelTool, `{"handle":"%s","mode":"cancel"}`, done.Handle),
		"offset-beyond":        says(jobTool, `{"handle":"%s","offset":99}`, done.Handle),
		"offset-of-no-result":  says(jobTool, `{"handle":"%s","offset":0}`, lost.Handle),
		"job-tool":             textMember(t, b.describeJob(), "description"),
		"resolve-tool":         textMember(t, b.describeResolve(), "description"),
		"jobs-tool":            textMember(t, b.describeJobs(), "description"),
		"cancel-tool":          textMember(t, b.describeCancel(), "description"),
		"status-tool":          textMember(t, b.statusTool(), "description"),
		"instructions-earlier": instructions,
	}
	b.cfg.Broken = errors.New(`config.toml, server crm: url "ftp://crm": wants http or https`)
	texts["broken-tool"] = textMember(t, b.statusTool(), "description")
	call, err := jsonrpc.Read([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"anything"}}`))
	if err != nil {
		t.Fatal(err)
	}
	texts["broken-call"] = spoken(t, fresh(), func(x *exchange) {
		x.msg, x.method = &call, call.Method
		x.callOurs()
	})
	for name, text := range texts {
		text = regexp.MustCompile(`job_[a-z2-7]{26}`).ReplaceAllString(text, "job_...")
		text = regexp.MustCompile(`\b\d+ ms\b`).ReplaceAllString(text, "N ms")
		if !strings.Contains(text, "crm") && name != "instructions-earlier" {
			t.Errorf("%s does not name the server: %s", name, text)
		}
		compareText(t, "tools/"+name, text)
	}
	unusedTexts(t, "tools", func(name string) bool { _, used := texts[name]; return used })
}

func textMember(t *testing.T, raw []byte, name string) string {
	t.Helper()
	text, ok := jsonrpc.String(jsonrpc.Get(raw, name))
	if !ok {
		t.Fatalf("no %s in %s", name, raw)
	}
	return text
}

// Each evidence has words, and each way in which a call is held back.
func TestWordsAboutJobs(t *testing.T) {
	t.Parallel()
	b, _ := journalBridge(t, "crm")
	var lines strings.Builder
	for _, e := range []jobs.Evidence{jobs.ToolResult, jobs.RPCError, jobs.NotSent, jobs.BridgeLost, jobs.BridgeLeft, jobs.EarlierDelivery,
		jobs.CancelledByHost, jobs.InputExpired, jobs.StatusTool, jobs.ResolvedByUser, jobs.ResolvedByModel, "http_503"} {
		fmt.Fprintf(&lines, "%s: %s\n", e, evidenceText(&jobs.Job{Evidence: e, State: jobs.Completed, Resolution: "happened"}))
	}
	compareText(t, "words/evidence", strings.TrimSuffix(lines.String(), "\n"))
	day := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	held := b.keeper.waysOut(&jobs.Job{State: jobs.OutcomeUnknown, Directory: "/home/ann/other"}, jobs.Begun{Until: day, OtherArguments: true, SetAside: day})
	compareText(t, "words/held-back", held)
	b.counters.First("write_note")
	b.counters.Retry("write_note")
	b.counters.Failed("write_note")
	compareText(t, "words/counters", strings.TrimPrefix(b.countersText(), "\n"))
	unusedTexts(t, "words", func(name string) bool { return name == "evidence" || name == "held-back" || name == "counters" })
}
