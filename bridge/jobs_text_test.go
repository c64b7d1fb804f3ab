package bridge

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/memstore"
)

// journalBridge is a bridge with a journal in memory, and an exchange of it.
func journalBridge(t *testing.T, server string) (*Bridge, *exchange) {
	t.Helper()
	u, err := url.Parse("https://crm.example.com/mcp")
	if err != nil {
		t.Fatal(err)
	}
	s, err := memstore.New(jobs.Schema())
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{URL: u, Server: server, Jobs: jobs.New(s, jobs.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.end(nil) })
	h := newHost(b, nil)
	x := &exchange{bridge: b, host: h, began: time.Now(), profile: legacyProfile(rev2025_11_25, nil, nil), id: []byte("1")}
	return b, x
}

// The descriptions of the two tools that every host lists are read at every
// turn of every conversation: together under 1,300 characters, with those in
// their schemas, and they name the server.
func TestToolDescriptionsAreShort(t *testing.T) {
	t.Parallel()
	b, _ := journalBridge(t, "crm.example.com/mcp")
	total := 0
	for _, raw := range b.ownTools() {
		var tool struct {
			Name, Description string
			InputSchema       struct {
				Properties map[string]struct{ Description string }
			}
			Annotations map[string]bool
		}
		if err := json.Unmarshal(raw, &tool); err != nil {
			t.Fatal(err)
		}
		total += len([]rune(tool.Description))
		for _, p := range tool.InputSchema.Properties {
			total += len([]rune(p.Description))
		}
		if !strings.Contains(tool.Description, "crm.example.com/mcp") {
			t.Errorf("%s does not name the server: %s", tool.Name, tool.Description)
		}
		if reads := tool.Name == jobTool; tool.Annotations["readOnlyHint"] != reads || tool.Annotations["openWorldHint"] {
			t.Errorf("%s is annotated %v", tool.Name, tool.Annotations)
		}
	}
	if total >= 1300 {
		t.Errorf("the descriptions have %d characters", total)
	}
}

// Every state has a text: its first words say what it is, and it names handle,
// server and age, says what to do next where there is something to do, and
// stays under 900 characters with the longest names.
func TestJobTexts(t *testing.T) {
	t.Parallel()
	_, x := journalBridge(t, "crm")
	long := strings.Repeat("n", 300)
	for _, c := range []struct {
		job   jobs.Job
		head  string
		holds []string
		lacks []string
	}{
		{job: jobs.Job{State: jobs.Working}, head: "STILL RUNNING (not an error)", holds: []string{jobTool, "wait_seconds", "tell the user", "Do not"}},
		{job: jobs.Job{State: jobs.Working, Class: jobs.Read}, head: "STILL RUNNING (not an error)", lacks: []string{"act twice"}},
		{job: jobs.Job{State: jobs.Working, Progress: &jobs.Progress{Progress: 3, Total: 10, Message: "rows"}}, head: "STILL RUNNING (not an error)", holds: []string{"3 of 10", "rows"}},
		{job: jobs.Job{State: jobs.InputRequired}, head: "STILL RUNNING (not an error)", holds: []string{jobTool, "the user"}},
		{job: jobs.Job{State: jobs.OutcomeUnknown, Evidence: jobs.BridgeLost}, head: "OUTCOME UNKNOWN", holds: []string{resolveTool, "happened, did_not_happen or send_again", "died", "Do not"}},
		{job: jobs.Job{State: jobs.OutcomeUnknown, Evidence: jobs.CancelledByHost}, head: "OUTCOME UNKNOWN", holds: []string{"cancelled"}},
		{job: jobs.Job{State: jobs.Failed, Effect: jobs.None, Evidence: jobs.NotSent}, head: "FAILED", holds: []string{"nothing was executed"}, lacks: []string{"Not known"}},
		{job: jobs.Job{State: jobs.Failed, Evidence: jobs.RPCError}, head: "FAILED", holds: []string{"whether part of it took effect"}},
		{job: jobs.Job{State: jobs.Failed, Evidence: jobs.ResolvedByModel, Resolution: "send_again", SupersededBy: "job_next"}, head: "FAILED", holds: []string{"job_next"}},
		{job: jobs.Job{State: jobs.Cancelled}, head: "FAILED", holds: []string{"cancelled"}},
		{job: jobs.Job{State: jobs.Completed, Evidence: jobs.ToolResult}, head: "COMPLETED"},
	} {
		j := c.job
		j.Handle, j.Account, j.Tool, j.CreatedAt = jobs.NewHandle(), jobs.Account{Server: "crm"}, "start_"+long, time.Now().Add(-90*time.Second)
		text := x.jobNote(&j).String()
		if !strings.HasPrefix(text, c.head) {
			t.Errorf("%s: begins otherwise: %s", j.State, text)
		}
		for _, want := range append(c.holds, string(j.Handle), "crm", "90 s") {
			if !strings.Contains(text, want) {
				t.Errorf("%s: lacks %q: %s", j.State, want, text)
			}
		}
		for _, not := range c.lacks {
			if strings.Contains(text, not) {
				t.Errorf("%s: says %q: %s", j.State, not, text)
			}
		}
		if n := len([]rune(text)); n >= 900 {
			t.Errorf("%s: %d characters: %s", j.State, n, text)
		}
	}
}

// The object about a job has the fields that programs rely on, message first.
func TestJobObject(t *testing.T) {
	t.Parallel()
	_, x := journalBridge(t, "crm")
	j := jobs.Job{Handle: jobs.NewHandle(), Account: jobs.Account{Server: "crm"}, Tool: "start_export", State: jobs.Working,
		Evidence: jobs.AnswerDeadline, EndedBy: "bridge", Deliveries: 1, CreatedAt: time.Now(), UpdatedAt: time.Now()}
	raw := x.jobJSON(&j, "the text", true)
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"message", "handle", "tool", "server", "state", "effect", "evidence", "endedBy", "deliveries",
		"deduplicated", "conflict", "createdAt", "updatedAt", "expiresAt", "next"} {
		if _, ok := object[name]; !ok {
			t.Errorf("%s is missing: %s", name, raw)
		}
	}
	if object["message"] != "the text" || object["deduplicated"] != true || object["state"] != "working" || object["effect"] != "possible" {
		t.Errorf("the object: %s", raw)
	}
	for _, name := range []string{"principal", "owner", "fingerprint", "directory", "arguments"} {
		if _, ok := object[name]; ok {
			t.Errorf("%s is told to hosts: %s", name, raw)
		}
	}
	if !strings.HasPrefix(string(raw), `{"message":`) {
		t.Errorf("message does not come first: %s", raw)
	}
}

// A host whose patience is over is told of no wait below nothing.
func TestWaitIsNeverBelowNothing(t *testing.T) {
	t.Parallel()
	b, x := journalBridge(t, "crm")
	job := beginJob(t, b)
	b.cfg.AnswerWithin, x.ctx = time.Second, b.life
	x.began = time.Now().Add(-time.Hour)
	if _, text := b.keeper.await(x, job, []byte(`{"wait_seconds":5}`)); !strings.Contains(text, "cut to 0,") {
		t.Errorf("told %q", text)
	}
}
