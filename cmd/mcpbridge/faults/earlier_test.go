package faults

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// A delivery that is refused unread proves nothing about the one before it: a
// call that may be repeated, and whose first delivery was executed, is not told
// as one of which nothing was.
func TestRefusedAfterAnEarlierDelivery(t *testing.T) {
	t.Parallel()
	bothEras(t, func(t *testing.T, era bridgetest.Era) {
		up := startUpstream(t, bridgetest.Options{Era: era})
		l := startLogged(t, era, up, up.URL())
		l.knowTools()
		firsts := []string{"status-after-effect:503@put_itemx1", "lost-reply@put_itemx1"}
		for i, then := range []string{"401", "403", "405", "413", "429;retry-after=3600"} {
			id := "then " + then[:3]
			l.fault(firsts[i%len(firsts)], "status:"+then+"@put_item+1")
			said := l.as(id, "put_item", fmt.Sprintf(`{"key":%q,"value":"v"}`, id))
			if n := up.Ledger().EffectsOf("put_item", id); n != 1 {
				t.Fatalf("%s: %d effects: the test proves nothing", id, n)
			}
			switch {
			case said.denies():
				t.Errorf("%s: denies an effect that the ledger has: %q, %+v", id, said.text, said.verdict)
			case said.head != unknown || said.verdict.Deliveries != 2:
				t.Errorf("%s: told %q, %+v", id, said.text, said.verdict)
			case said.job == nil || said.job.State != "outcome_unknown" || said.job.Effect != "possible":
				t.Errorf("%s: the job is %+v", id, said.job)
			}
		}
		find(t, l.records(), "exchange", "then 429").want(t, record{"outcome": "HTTP_ERROR", "effect": "possible", "deliveries": 2})
	})
}

// The same holds for a round: what a tool did before it asked is not denied
// because the round with the answers was refused.
func TestRefusedRound(t *testing.T) {
	t.Parallel()
	tool := bridgetest.Tool{Name: "act_and_ask", Annotations: json.RawMessage(`{"readOnlyHint":false}`), Run: func(c *bridgetest.Call) (any, error) {
		c.Effect("acted")
		_, err := c.Ask("q", "elicitation/create", map[string]any{"message": "really?", "requestedSchema": map[string]any{"type": "object", "properties": map[string]any{}}})
		return bridgetest.Text("done"), err
	}}
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern, Tools: append(bridgetest.DefaultTools(), tool)})
	l := &lane{t: t, ctx: limited(t, callLimit), era: bridgetest.Legacy, up: up, dir: t.TempDir(), capabilities: `{"elicitation":{}}`,
		answer: func(string, json.RawMessage) (any, error) {
			return json.RawMessage(`{"action":"accept","content":{}}`), nil
		}}
	l.start("bridgetest-host", nil, []string{up.URL()})
	l.knowTools()
	l.fault("status:429;retry-after=3600@act_and_ask+1")
	said := read(l.call("act_and_ask", "{}"))
	if n := up.Ledger().Effects("act_and_ask"); n != 1 || up.Ledger().Deliveries("act_and_ask") != 2 {
		t.Fatalf("%d effects: the test proves nothing", n)
	}
	if said.denies() || said.head != unknown {
		t.Errorf("told %q, %+v", said.text, said.verdict)
	}
}
