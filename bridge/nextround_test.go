package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store"
	"github.com/mcpbridge/mcpbridge/jobs/store/memstore"
)

// A deafJournal does not take that a round is waited for while it is deaf.
type deafJournal struct {
	*jobs.Journal
	deaf atomic.Bool
}

func (j *deafJournal) Await(ctx context.Context, h jobs.Handle, state []byte) (jobs.Job, error) {
	if j.deaf.Load() {
		return jobs.Job{}, &store.UnavailableError{Op: "await", Reason: store.Full, Err: errors.New("the disk is full")}
	}
	return j.Journal.Await(ctx, h, state)
}

// A roundRig is a modern host before a modern server that asks once in each call.
type roundRig struct {
	*boundsRig
	journal *deafJournal
	server  *callServer
}

func newRoundRig(t *testing.T) *roundRig {
	t.Helper()
	m, err := memstore.New(jobs.Schema())
	if err != nil {
		t.Fatal(err)
	}
	r := &roundRig{journal: &deafJournal{Journal: jobs.New(m, jobs.Options{})}}
	r.server = newCallServer(t, func(_ int, w http.ResponseWriter, id, params []byte) {
		if len(jsonrpc.Get(params, "requestState")) > 0 {
			callResult(w, id)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","requestState":"step","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":"sure?","requestedSchema":{"type":"object","properties":{}}}}}}}`, id)
	})
	r.boundsRig = newBoundsRig(t, r.server.at.String(), func(c *Config) { c.Server, c.Jobs = "crm", r.journal })
	return r
}

// ask sends a call of a tool and returns the line that answers it.
func (r *roundRig) ask(id int, tool, arguments, more string) string {
	r.t.Helper()
	r.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"b","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`, id, tool, arguments, more)
	return r.answer(fmt.Sprint(id))
}

const roundAnswers = `,"requestState":"step","inputResponses":{"q":{"action":"accept","content":{}}}`

// waiting makes a call whose server asks, and returns its job.
func (r *roundRig) waiting() jobs.Job {
	r.t.Helper()
	if line := r.ask(1, "act", `{"a":1}`, ""); !strings.Contains(line, `"input_required"`) {
		r.t.Fatal(line)
	}
	return r.only()
}

// only is the one job there is.
func (r *roundRig) only() jobs.Job {
	r.t.Helper()
	list, err := r.journal.List(context.Background(), jobs.Filter{})
	if err != nil || len(list) != 1 {
		r.t.Fatalf("%d jobs, %v", len(list), err)
	}
	return list[0]
}

// A call that waits between two rounds is ended by whoever cancels it or stops
// waiting for it, and its next round is not sent any more. It cannot be settled by
// a word: its outcome is not unknown.
func TestEndBetweenTwoRounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		resolution string
		evidence   jobs.Evidence
	}{{"cancel", jobs.CancelledByHost}, {"stop_waiting", jobs.InputExpired}} {
		t.Run(c.resolution, func(t *testing.T) {
			t.Parallel()
			r := newRoundRig(t)
			h := r.waiting().Handle
			resolve := func(id int, resolution string) string {
				return r.ask(id, resolveTool, fmt.Sprintf(`{"handle":%q,"resolution":%q,"why":"so"}`, h, resolution), "")
			}
			for id, word := range []string{"happened", "did_not_happen", "send_again"} {
				if line := resolve(10+id, word); !strings.Contains(line, "Nothing was changed") || r.only().State != jobs.InputRequired {
					t.Errorf("%s: %s", word, line)
				}
			}
			if line := resolve(2, c.resolution); !strings.Contains(line, `"state":"failed"`) || !strings.Contains(line, string(c.evidence)) {
				t.Errorf("told %s", line)
			}
			if line := r.ask(3, "act", `{"a":1}`, roundAnswers); !strings.Contains(line, "FAILED") || !strings.Contains(line, string(h)) {
				t.Errorf("the round after it was ended: %s", line)
			}
			if j := r.only(); j.State != jobs.Failed || j.Effect != jobs.Possible || j.Evidence != c.evidence {
				t.Errorf("%s, %s, %s", j.State, j.Effect, j.Evidence)
			}
			if n := len(r.server.got()); n != 1 {
				t.Errorf("%d requests", n)
			}
			if line := r.ask(4, "act", `{"a":1}`, ""); !strings.Contains(line, `"input_required"`) {
				t.Errorf("the call anew: %s", line)
			}
		})
	}
}

// A host is told of a round although the journal did not take it; the next round
// belongs to the same job, and waits until the journal has both.
func TestRoundThatWasNotJournaled(t *testing.T) {
	t.Parallel()
	r := newRoundRig(t)
	r.journal.deaf.Store(true)
	line := r.ask(1, "act", `{"a":1}`, "")
	if !strings.Contains(line, `"input_required"`) || !strings.Contains(line, `"`+metaJournaled+`":false`) {
		t.Fatal(line)
	}
	if line := r.ask(2, "act", `{"a":1}`, roundAnswers); !strings.Contains(line, "NOT SENT") || !strings.Contains(line, "disk is full") {
		t.Errorf("the round while the journal is deaf: %s", line)
	}
	r.journal.deaf.Store(false)
	if line := r.ask(3, "act", `{"a":1}`, roundAnswers); !strings.Contains(line, `"done"`) {
		t.Errorf("the round: %s", line)
	}
	if j := r.only(); j.State != jobs.Completed || j.Rounds != 1 {
		t.Errorf("%s after %d rounds", j.State, j.Rounds)
	}
	if n := len(r.server.got()); n != 2 {
		t.Errorf("%d requests", n)
	}
}
