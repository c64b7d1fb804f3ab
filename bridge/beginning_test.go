package bridge

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/memstore"
)

// A slowJournal holds up calls whose record is written already.
type slowJournal struct {
	*jobs.Journal
	begun   chan jobs.Begun // what was begun
	proceed chan struct{}
}

func (j *slowJournal) Begin(ctx context.Context, c jobs.Call) (jobs.Begun, error) {
	b, err := j.Journal.Begin(ctx, c)
	if err == nil && b.Hold != jobs.Contested {
		j.begun <- b
		<-j.proceed
	}
	return b, err
}

// until looks at a job until it is as wanted.
func (j *slowJournal) until(t *testing.T, h jobs.Handle, want func(jobs.Job) bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	limit := time.After(boundsLimit)
	for {
		job, err := j.Find(t.Context(), h)
		if err == nil && want(job) {
			return
		}
		select {
		case <-look.C:
		case <-limit:
			t.Fatalf("job is %+v, %v", job, err)
		}
	}
}

func startSlow(t *testing.T) (*boundsRig, *slowJournal, *callServer) {
	t.Helper()
	m, err := memstore.New(jobs.Schema())
	if err != nil {
		t.Fatal(err)
	}
	j := &slowJournal{Journal: jobs.New(m, jobs.Options{}), begun: make(chan jobs.Begun), proceed: make(chan struct{})}
	s := newCallServer(t, func(_ int, w http.ResponseWriter, id, _ []byte) { callResult(w, id) })
	r := newBoundsRig(t, s.at.String(), func(c *Config) { c.Server, c.Jobs = "s", j })
	r.shakeHands(`{}`)
	return r, j, s
}

// cancelWhileBegun sends a call, and cancels it when its record is written but
// the call knows nothing of it.
func (r *boundsRig) cancelWhileBegun(j *slowJournal, more string) jobs.Begun {
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"act","arguments":{"a":1}%s}}`, more)
	b := <-j.begun
	r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	r.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	r.answer(`"p"`)
	j.proceed <- struct{}{}
	return b
}

// A call that is cancelled while it is begun is not sent and not answered, be it
// one that asked for a task.
func TestCancelWhileBegun(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"call": "", "task": `,"task":{}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, j, s := startSlow(t)
			b := r.cancelWhileBegun(j, more)
			j.until(t, b.Job.Handle, func(job jobs.Job) bool {
				return job.State == jobs.Failed && job.Effect == jobs.None && job.Waiter == ""
			})
			if calls := s.got(); len(calls) > 0 {
				t.Errorf("sent: %q", calls)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, line := range r.lines {
				if strings.Contains(line, `"id":1,`) {
					t.Errorf("answered: %s", line)
				}
			}
		})
	}
}

// An end that nobody has, and that a cancelled repeat was to be answered with,
// is there for the next one.
func TestKeptEndIsGivenBack(t *testing.T) {
	t.Parallel()
	r, j, s := startSlow(t)
	b, err := j.Journal.Begin(t.Context(), jobs.Call{Account: jobs.Account{Server: "s", Principal: auth.Anonymous},
		Tool: "act", Arguments: []byte(`{"a":1}`), HandleOut: true})
	if err != nil {
		t.Fatal(err)
	}
	e := jobs.End{State: jobs.Completed, Effect: jobs.Reported, Evidence: jobs.ToolResult, Kind: jobs.ToolAnswer,
		Result: []byte(`{"content":[{"type":"text","text":"kept"}]}`)}
	if _, err := j.Finish(t.Context(), b.Job.Handle, e); err != nil {
		t.Fatal(err)
	}
	if held := r.cancelWhileBegun(j, ""); held.Hold != jobs.KeptEnd || held.Job.Handle != b.Job.Handle {
		t.Fatalf("held: %+v", held)
	}
	j.until(t, b.Job.Handle, func(job jobs.Job) bool { return job.Waiter == "" })
	r.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act","arguments":{"a":1}}}`)
	<-j.begun
	j.proceed <- struct{}{}
	if line := r.answer("2"); !strings.Contains(line, `"kept"`) || len(s.got()) > 0 {
		t.Errorf("%s; sent: %q", line, s.got())
	}
}
