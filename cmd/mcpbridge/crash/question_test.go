package crash

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// canBeAsked is what a host declares that shows forms.
const canBeAsked = `{"elicitation":{}}`

// yes accepts whatever is asked.
func yes(method string, _ json.RawMessage) (any, error) {
	if method != "elicitation/create" {
		return map[string]any{}, nil
	}
	return map[string]any{"action": "accept", "content": map[string]any{"value": "yes", "confirm": true}}, nil
}

// A question that is open at a host that goes is kept for whoever comes for the
// call: it does not stay with a host that is not there, and does not end the call.
func TestQuestionOutlivesItsHost(t *testing.T) {
	t.Parallel()
	if !splits {
		t.Skip("there are no workers on this system")
	}
	w := newWorld(t, bridgetest.Options{Era: bridgetest.Legacy})
	first := w.startHost(bridgetest.HostOptions{Command: w.command("--drain=10ms"), Dir: w.home, Capabilities: canBeAsked, NoAnswer: true})
	first.send("ask", `{"kind":"elicitation","key":"one","effect":true}`)
	if _, err := first.host.WaitRequest(w.ctx, "elicitation/create"); err != nil {
		t.Fatal(err)
	}
	if j := w.records("ask")[0]; j.State != jobs.Working {
		t.Errorf("asked, and the job is %s", j.State)
	}
	if err := first.host.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	j := w.untilRecord("ask", "kept with its question", func(j jobs.Job) bool { return j.State == jobs.InputRequired && len(j.Questions) == 1 })
	if !strings.Contains(string(j.Questions[0].Request), "elicitation/create") {
		t.Errorf("kept %s", j.Questions[0].Request)
	}
	second := w.startHost(bridgetest.HostOptions{Command: w.command("--linger=0"), Dir: w.home, Capabilities: canBeAsked, Answer: yes})
	a := second.call("mcpbridge_job", fmt.Sprintf(`{"handle":%q,"wait_seconds":10}`, j.Handle))
	if a.word == running {
		a = second.poll(j.Handle)
	}
	a.must(t, result)
	if n := len(second.host.Requests()); n == 0 {
		t.Error("nobody was asked again")
	}
	w.once("ask")
}
