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

// says answers the form about an unknown outcome.
func says(action, outcome string) func(string, json.RawMessage) (any, error) {
	return func(string, json.RawMessage) (any, error) {
		return map[string]any{"action": action, "content": map[string]any{"outcome": outcome}}, nil
	}
}

// The person at a host that shows forms is asked once, when a call is held back
// because the outcome of an equal one is unknown, and rules what becomes of it.
func TestPersonIsAskedOnTheFirstRepeat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action, outcome string
		word            word
		requests        int // that the server has had in the end
		state           jobs.State
	}{
		{"accept", "happened", settled, 1, jobs.Completed},
		{"accept", "did_not_happen", result, 2, jobs.Failed},
		{"accept", "send_again", result, 2, jobs.Failed},
		{"accept", "perhaps", unknown, 1, jobs.OutcomeUnknown},
		{"decline", "", unknown, 1, jobs.OutcomeUnknown},
	} {
		t.Run(c.action+" "+c.outcome, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, bridgetest.Options{Era: bridgetest.Legacy, NoEventIDs: true})
			h := w.alone().lose("drop_entry", `{"key":"one"}`)
			l := w.startHost(bridgetest.HostOptions{Command: w.command("--linger=0"), Dir: w.home, Capabilities: canBeAsked, Answer: says(c.action, c.outcome)})
			l.call("drop_entry", `{"key":"one"}`).must(t, c.word)
			asked := l.host.Requests()
			if len(asked) != 1 || !strings.Contains(string(asked[0].Params), "drop_entry") || !strings.Contains(string(asked[0].Params), "crm") {
				t.Fatalf("asked: %+v", asked)
			}
			if n := w.up.Ledger().Deliveries("drop_entry"); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
			j := w.find(h)
			if j.State != c.state || c.state != jobs.OutcomeUnknown && j.Evidence != jobs.ResolvedByUser {
				t.Errorf("the earlier call is %s, %s", j.State, j.Evidence)
			}
			if next := j.SupersededBy; (next != "") != (c.outcome == "send_again") {
				t.Errorf("superseded by %q", next)
			}
			if c.state == jobs.OutcomeUnknown { // once is enough
				l.call("drop_entry", `{"key":"one"}`).must(t, unknown)
				if n := len(l.host.Requests()); n != 1 {
					t.Errorf("asked %d times", n)
				}
			}
		})
	}
}

// A modern host is asked by way of a round of its call, and its answer comes with
// the next one.
func TestPersonIsAskedInARound(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	h := w.alone().lose("add_entry", `{"key":"one"}`)
	l := w.startHost(bridgetest.HostOptions{Command: w.command("--linger=0"), Dir: w.home, Capabilities: canBeAsked})
	params := bridgetest.ToolParams("add_entry", `{"key":"one"}`)
	next := nextRound(t, params, l.request("tools/call", params), `{"action":"accept","content":{"outcome":"did_not_happen"}}`)
	l.told(l.request("tools/call", next)).must(t, result)
	if j := w.find(h); j.State != jobs.Failed || j.Evidence != jobs.ResolvedByUser || j.Effect != jobs.None {
		t.Errorf("the earlier call is %s, %s, %s", j.State, j.Evidence, j.Effect)
	}
	if n := w.up.Ledger().Deliveries("add_entry"); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// A model may have a destructive call sent again once the person has agreed, at a
// host of either era.
func TestPersonAgreesToSendAgain(t *testing.T) {
	t.Parallel()
	agrees := func(string, json.RawMessage) (any, error) {
		return map[string]any{"action": "accept", "content": map[string]any{"send_again": true}}, nil
	}
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		t.Run(eraName(era), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, bridgetest.Options{Era: era, NoEventIDs: true})
			h := w.alone().lose("drop_entry", `{"key":"one"}`)
			l := w.startHost(bridgetest.HostOptions{Command: w.command("--linger=0"), Dir: w.home, Capabilities: canBeAsked, Answer: agrees})
			params := bridgetest.ToolParams("mcpbridge_job_resolve", fmt.Sprintf(`{"handle":%q,"resolution":"send_again","why":"it is not there"}`, h))
			r := l.request("tools/call", params)
			if era == bridgetest.Modern {
				r = l.request("tools/call", nextRound(t, params, r, `{"action":"accept","content":{"send_again":true}}`))
			}
			l.told(r).must(t, result)
			if n := w.up.Ledger().Deliveries("drop_entry"); n != 2 {
				t.Errorf("%d requests", n)
			}
			if j := w.find(h); j.SupersededBy == "" || j.Evidence != jobs.ResolvedByModel {
				t.Errorf("superseded by %q, %s", j.SupersededBy, j.Evidence)
			}
		})
	}
}

// nextRound is the request that follows an answer with one question.
func nextRound(t *testing.T, params string, r bridgetest.Reply, answer string) string {
	t.Helper()
	var asks struct {
		ResultType    string
		RequestState  string
		InputRequests map[string]struct{ Method string }
	}
	if err := json.Unmarshal(r.Result, &asks); err != nil || asks.ResultType != "input_required" || len(asks.InputRequests) != 1 {
		t.Fatalf("%v: %s", err, r.Raw)
	}
	for id, q := range asks.InputRequests {
		if q.Method != "elicitation/create" {
			t.Errorf("asked by %s", q.Method)
		}
		params = fmt.Sprintf(`%s,"requestState":%q,"inputResponses":{%q:%s}}`, params[:len(params)-1], asks.RequestState, id, answer)
	}
	return params
}
