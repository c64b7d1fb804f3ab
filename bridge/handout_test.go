package bridge

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/memstore"
)

// A call that is held back is answered without the handle of the earlier one
// where the journal cannot take it that the handle is out: whoever makes the call
// next would be sent on. It is not sent either way.
func TestHandleThatIsNotJournaledIsNotGiven(t *testing.T) {
	t.Parallel()
	for _, task := range []bool{false, true} {
		t.Run(fmt.Sprintf("task=%v", task), func(t *testing.T) {
			t.Parallel()
			p, j := startBroken(t)
			p.initialize()
			job := j.begun(t)
			j.Note(job.Handle, jobs.Note{NobodyWait: "host gone"})
			if err := j.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			params := fmt.Sprintf(`{"name":"t","arguments":{"of":%q}}`, t.Name())
			if task {
				params = params[:len(params)-1] + `,"task":{}}`
			}
			j.breaks("give")
			if m := p.call("tools/call", params); task {
				wantError(t, m, codeJournal, errBroken.Error())
			} else if text := string(m.Raw); !strings.Contains(text, `"STILL RUNNING (not an error)`) || !strings.Contains(text, errBroken.Error()) ||
				strings.Contains(text, string(job.Handle)) || !strings.Contains(text, `"isError":false`) {
				t.Errorf("told %s", text)
			}
			if now, err := j.Find(t.Context(), job.Handle); err != nil || now.HandleOut {
				t.Errorf("the handle is out: %v, %v", now.HandleOut, err)
			}
			j.breaks("")
			if text := string(p.call("tools/call", params).Raw); !strings.Contains(text, string(job.Handle)) {
				t.Errorf("told %s", text)
			}
			if now, err := j.Find(t.Context(), job.Handle); err != nil || !now.HandleOut {
				t.Errorf("the handle is not out: %v", err)
			}
		})
	}
}

// taskServer is a modern server with a tool that reads, whose calls become tasks
// that do not end.
func taskServer(method string) (int, string) {
	const task = `"taskId":"t1","status":"working","createdAt":"2026-11-30T00:00:00Z","lastUpdatedAt":"2026-11-30T00:00:00Z","ttlMs":60000,"pollIntervalMs":100`
	answers := map[string]string{
		"server/discover": `"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
		"tools/list":      `"resultType":"complete","tools":[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]`,
		"tools/call":      `"resultType":"task",` + task,
		"tasks/get":       `"resultType":"complete",` + task,
	}
	if answer, ok := answers[method]; ok {
		return http.StatusOK, `{"jsonrpc":"2.0","id":ID,"result":{` + answer + `}}`
	}
	return http.StatusOK, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"Method not found"}}`
}

// startTasks runs a bridge before taskServer.
func startTasks(t *testing.T, change func(*Config)) (*inProcess, *jobs.Journal) {
	t.Helper()
	s, err := memstore.New(jobs.Schema())
	if err != nil {
		t.Fatal(err)
	}
	j := jobs.New(s, jobs.Options{})
	cfg := Config{URL: serve(t, taskServer), Server: "crm", Jobs: j, Drain: time.Nanosecond, AnswerWithin: time.Second}
	if change != nil {
		change(&cfg)
	}
	return startInProcess(t, cfg), j
}

// A read has a job only once it has a handle; the task that the server made of it
// is in that job, so that the next process can go on with it.
func TestTaskOfALateReadIsJournaled(t *testing.T) {
	t.Parallel()
	p, j := startTasks(t, nil)
	p.initialize()
	p.call("tools/list", `{}`)
	if text := string(p.call("tools/call", `{"name":"look","arguments":{}}`).Raw); !strings.Contains(text, "STILL RUNNING") {
		t.Fatalf("told %s", text)
	}
	found, err := j.List(context.Background(), jobs.Filter{Tool: "look"})
	if err != nil || len(found) != 1 || found[0].UpstreamTask != "t1" {
		t.Errorf("%v, %+v", err, found)
	}
}

// Without the bridge's tools a host that asked for tasks gets its task all the
// same; another one waits for the answer.
func TestJobToolsNoneLeavesTheTaskDoorOpen(t *testing.T) {
	t.Parallel()
	p, _ := startTasks(t, func(c *Config) { c.JobTools = JobToolsNone })
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	text := string(p.call("tools/call", `{"name":"look","arguments":{},`+meta+`}`).Raw)
	if !strings.Contains(text, `"resultType":"task"`) || !strings.Contains(text, `"taskId":"job_`) {
		t.Errorf("told %s", text)
	}
}
