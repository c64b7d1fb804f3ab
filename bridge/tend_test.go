package bridge

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/memstore"
	"github.com/mcpbridge/mcpbridge/retry"
)

// beginJob begins a call in the journal of b.
func beginJob(t *testing.T, b *Bridge) jobs.Job {
	t.Helper()
	begun, err := b.keeper.journal.Begin(context.Background(), jobs.Call{Account: b.keeper.account(), Tool: "add_entry"})
	if err != nil {
		t.Fatal(err)
	}
	return begun.Job
}

func findJob(t *testing.T, b *Bridge, h jobs.Handle) jobs.Job {
	t.Helper()
	job, err := b.keeper.journal.Find(context.Background(), h)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// letGo is what work on a job comes to when its context ends.
func letGo(x *exchange, _ jobs.Job) *reply {
	<-x.ctx.Done()
	e := endingOf(x.ctx)
	r := &reply{endedBy: e.by}
	r.capture.Failed, r.capture.Ended, r.capture.Detail = classify.Exchange, e.ended, e.why
	r.judge()
	return r
}

// A job that was taken over stays open for the next process when this one
// leaves, and is unknown when its stream breaks.
func TestTakenOverJobIsLeftToTheNext(t *testing.T) {
	t.Parallel()
	for _, leaving := range []bool{true, false} {
		b, x := journalBridge(t, "crm")
		b.host = x.host
		job := beginJob(t, b)
		b.leaving.Store(leaving)
		b.end(hostGone("the host closed stdin"))
		b.keeper.adopted(job, letGo)
		want := jobs.Working
		if !leaving {
			want = jobs.OutcomeUnknown
		}
		if got := findJob(t, b, job.Handle); got.State != want {
			t.Errorf("leaving %v: %s, %s", leaving, got.State, got.Evidence)
		}
	}
}

// Only who wanted a call cancelled is named as having cancelled it.
func TestCancelledByWhom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cause error
		want  jobs.Evidence
	}{
		{calledOff{hostCancelled()}, jobs.CancelledByHost},
		{hostGone("the host is gone"), jobs.BridgeLeft},
		{context.Canceled, jobs.BridgeLeft},
	} {
		b, x := journalBridge(t, "crm")
		x.class = retry.Write
		x.ctx, x.cancel = context.WithCancelCause(b.life)
		x.cancel(c.cause)
		if got := x.endOf(letGo(x, jobs.Job{})); got.State != jobs.OutcomeUnknown || got.Evidence != c.want {
			t.Errorf("%v: %s, %s", c.cause, got.State, got.Evidence)
		}
	}
}

// A round that nobody sends expires too when the process that gave it out is
// gone, and not before its time.
func TestRoundOfAnotherProcessExpires(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration]jobs.State{time.Nanosecond: jobs.Failed, time.Hour: jobs.InputRequired} {
		b, _ := journalBridge(t, "crm")
		b.cfg.InputTimeout = limit
		job, err := b.keeper.journal.Await(context.Background(), beginJob(t, b).Handle, []byte("state"))
		if err != nil {
			t.Fatal(err)
		}
		b.keeper.recover(job)
		got := findJob(t, b, job.Handle)
		if got.State != want {
			t.Errorf("after %v: %s", limit, got.State)
		}
		if want == jobs.Failed && (got.Evidence != jobs.InputExpired || got.Effect != jobs.Possible) {
			t.Errorf("evidence %s, effect %s", got.Evidence, got.Effect)
		}
	}
}

// An error of tasks/get that says nothing about the task is no reason to give
// it up; that the server does not know it is.
func TestTaskPollErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		code   string
		want   string
	}{
		{"internal error", http.StatusOK, "-32603", "it is done"},
		{"too many requests", http.StatusTooManyRequests, "-32000", "it is done"},
		{"unknown task", http.StatusOK, "-32602", "OUTCOME UNKNOWN"},
		{"not found", http.StatusNotFound, "-32001", "OUTCOME UNKNOWN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var polls atomic.Int32
			u := serve(t, func(method string) (int, string) {
				const head = `{"jsonrpc":"2.0","id":ID,"result":{"resultType":`
				switch method {
				case "server/discover":
					return 200, head + `"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`
				case "tools/list":
					return 200, head + `"complete","tools":[{"name":"add_entry","inputSchema":{"type":"object"}}]}}`
				case "tools/call":
					return 200, head + `"task","taskId":"t1","status":"working","createdAt":"2026-11-30T00:00:00Z","lastUpdatedAt":"2026-11-30T00:00:00Z","ttlMs":60000,"pollIntervalMs":100}}`
				}
				if polls.Add(1) == 1 {
					return c.status, `{"jsonrpc":"2.0","id":ID,"error":{"code":` + c.code + `,"message":"no"}}`
				}
				return 200, head + `"complete","taskId":"t1","status":"completed","createdAt":"2026-11-30T00:00:00Z","lastUpdatedAt":"2026-11-30T00:00:00Z","ttlMs":60000,"result":{"content":[{"type":"text","text":"it is done"}]}}}`
			})
			s, err := memstore.New(jobs.Schema())
			if err != nil {
				t.Fatal(err)
			}
			p := startInProcess(t, Config{URL: u, Server: "crm", Jobs: jobs.New(s, jobs.Options{})})
			p.initialize()
			if got := string(p.call("tools/call", `{"name":"add_entry","arguments":{}}`).Raw); !strings.Contains(got, c.want) {
				t.Errorf("told %s", got)
			}
		})
	}
}

// A task of the server's is left to the next process when this one leaves: the
// server is not told that anybody cancelled it.
func TestLeavingCancelsNoTask(t *testing.T) {
	t.Parallel()
	const task = `"taskId":"t1","status":"working","createdAt":"2026-11-30T00:00:00Z","lastUpdatedAt":"2026-11-30T00:00:00Z"`
	const head = `{"jsonrpc":"2.0","id":ID,"result":{`
	modern := map[string]string{
		"server/discover": `"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
		"tools/list":      `"resultType":"complete","tools":[{"name":"add_entry","inputSchema":{"type":"object"}}]`,
		"tools/call":      `"resultType":"task","ttlMs":60000,"pollIntervalMs":100,` + task,
		"tasks/get":       `"resultType":"complete","ttlMs":60000,"pollIntervalMs":100,` + task,
	}
	legacy := map[string]string{
		"initialize": `"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}},"cancel":{}}}`,
		"tools/list": `"tools":[{"name":"add_entry","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]`,
		"tools/call": `"task":{"ttl":60000,"pollInterval":100,` + task + `}`,
		"tasks/get":  `"ttl":60000,"pollInterval":100,` + task,
	}
	for name, answers := range map[string]map[string]string{"modern": modern, "legacy": legacy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			polled, cancelled := make(chan struct{}, 1), make(chan string, 8)
			u := serve(t, func(method string) (int, string) {
				switch method {
				case "tasks/get":
					select {
					case polled <- struct{}{}:
					default:
					}
				case "tasks/cancel", "notifications/cancelled":
					cancelled <- method
				}
				if answer, ok := answers[method]; ok {
					return http.StatusOK, head + answer + `}}`
				}
				if strings.HasPrefix(method, "notifications/") {
					return http.StatusAccepted, ""
				}
				return http.StatusOK, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"Method not found"}}`
			})
			s, err := memstore.New(jobs.Schema())
			if err != nil {
				t.Fatal(err)
			}
			p := startInProcess(t, Config{URL: u, Server: "crm", Jobs: jobs.New(s, jobs.Options{}), Drain: time.Nanosecond})
			p.initialize()
			p.call("tools/list", `{}`)
			p.send(`{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"add_entry","arguments":{}}}`)
			select {
			case <-polled:
			case <-time.After(20 * time.Second):
				t.Fatal("the task is not polled")
			}
			open := p.bridge.host.openCalls()
			p.bridge.leaving.Store(true) // as leave does, which ends what still sends a moment later
			p.bridge.host.leave(hostGone("the host closed stdin"))
			for _, x := range open {
				<-x.whenAnswered()
			}
			p.in.Close()
			p.ended <- <-p.ended
			select {
			case method := <-cancelled:
				t.Errorf("the server was sent %s", method)
			default:
			}
			found, err := p.bridge.keeper.journal.List(context.Background(), jobs.Filter{Server: "crm", Limit: 2})
			if err != nil || len(found) != 1 || found[0].State != jobs.Working || found[0].UpstreamTask != "t1" {
				t.Errorf("%v, %+v", err, found)
			}
		})
	}
}
