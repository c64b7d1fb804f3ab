package bridge

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// stress is how many calls of each kind a race test makes.
const stress = 60

// logged is a configuration that writes every record.
func logged(c *Config) {
	c.Log = slog.New(slog.NewJSONHandler(io.Discard, nil))
}

// Calls of a legacy host that are cancelled at any moment: for the race
// detector, and each call that is not cancelled has its answer.
func TestCancelledAtAnyMoment(t *testing.T) {
	t.Parallel()
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			up, err := bridgetest.Start(bridgetest.Options{Era: era})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(up.Close)
			r := newBoundsRig(t, up.URL(), func(c *Config) {
				logged(c)
				c.AnswerWithin = 40 * time.Millisecond
				c.Tools = []ToolConfig{{Glob: "write_note", IdempotencyKey: "/idempotency_key"}}
			})
			r.shakeHands(`{"roots":{}}`)
			random := rand.New(rand.NewPCG(1, uint64(era)))
			cancelled := map[int]bool{}
			for i := range stress {
				r.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s,"_meta":{"progressToken":%d}}}`, i, []string{
					fmt.Sprintf(`"name":"write_note","arguments":{"key":"k%d","text":"t"}`, i),
					fmt.Sprintf(`"name":"slow_write","arguments":{"key":"s%d","ms":%d}`, i, random.IntN(80)),
					`"name":"sleep","arguments":{"ms":60}`,
					fmt.Sprintf(`"name":"ask","arguments":{"key":"a%d","kind":"roots"}`, i),
					`"name":"mcpbridge_job","arguments":{}`,
				}[i%5], i)
				if i%2 == 1 {
					n := i - random.IntN(2)
					cancelled[n] = true
					r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, n)
				}
			}
			for i := range stress {
				if !cancelled[i] {
					r.answer(fmt.Sprint(i))
				}
			}
		})
	}
}

// Rounds of a modern host for calls that a legacy server holds open, some of
// them cancelled: for the race detector, and each round has its answer.
func TestRoundsAtAnyMoment(t *testing.T) {
	t.Parallel()
	up, err := bridgetest.Start(bridgetest.Options{Era: bridgetest.Legacy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	r := newBoundsRig(t, up.URL(), logged)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"b","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`
	ask := func(id, key, more string) {
		r.send(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"ask","arguments":{"key":%q,"kind":"elicitation","effect":true}%s,%s}}`, id, key, more, meta)
	}
	const calls = 24
	for i := range calls {
		ask(fmt.Sprint(i), fmt.Sprint("k", i), "")
	}
	for i := range calls {
		line := r.answer(fmt.Sprint(i))
		result := jsonrpc.Get([]byte(strings.TrimSpace(line)), "result")
		state := jsonrpc.Get(result, "requestState")
		if len(state) == 0 {
			t.Fatalf("no question: %s", line)
		}
		answers := []byte{'{'}
		for id := range jsonrpc.Members(jsonrpc.Get(result, "inputRequests")) {
			answers = appendMember(answers, id, []byte(`{"action":"accept","content":{}}`))
		}
		id := fmt.Sprint(1000 + i)
		ask(id, fmt.Sprint("k", i), fmt.Sprintf(`,"requestState":%s,"inputResponses":%s`, state, append(answers, '}')))
		if i%3 == 0 {
			r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
		}
	}
	for i := range calls {
		if i%3 != 0 {
			if line := r.answer(fmt.Sprint(1000 + i)); strings.Contains(line, `"error"`) {
				t.Error(line)
			}
		}
	}
}
