package bridge

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// A recordBook keeps what was logged, line by line.
type recordBook struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced with every line
}

func newRecordBook() *recordBook { return &recordBook{more: make(chan struct{})} }

func (b *recordBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(p))
	close(b.more)
	b.more = make(chan struct{})
	return len(p), nil
}

// of waits for the exchange records of an id: they are written when the answer
// is.
func (b *recordBook) of(t *testing.T, id string) []map[string]any {
	t.Helper()
	limit := time.NewTimer(boundsLimit)
	defer limit.Stop()
	for {
		b.mu.Lock()
		lines, more := b.lines, b.more
		b.mu.Unlock()
		if found := recordsIn(t, lines, id); len(found) > 0 {
			return found
		}
		select {
		case <-more:
		case <-limit.C:
			t.Fatalf("no record of %s", id)
		}
	}
}

func recordsIn(t *testing.T, lines []string, id string) (found []map[string]any) {
	t.Helper()
	for _, line := range lines {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r["msg"] == "exchange" && r["id"] == id {
			found = append(found, r)
		}
	}
	return found
}

// Past the bound a call is answered with a tool result, any other request with
// an error whose data says who speaks; each has its record.
func TestOverload(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	s := newFloodServer(t, &floodServer{onCall: func([]byte, func(string)) { <-hold }})
	t.Cleanup(func() { close(hold) })
	book := newRecordBook()
	r := newBoundsRig(t, s.URL, func(c *Config) { c.Log = slog.New(slog.NewJSONHandler(book, nil)) })
	r.shakeHands(`{}`)
	for i := range maxInFlight {
		r.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read","arguments":{"n":%d}}}`, i, i)
	}
	r.send(`{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"read"}}`)
	r.send(`{"jsonrpc":"2.0","id":"list","method":"prompts/list"}`)
	call, list := r.answer(`"call"`), r.answer(`"list"`)
	result := jsonrpc.Get([]byte(strings.TrimSpace(call)), "result")
	for _, part := range []string{"NOT SENT: the call of \\\"read\\\"", "1024 requests are in flight", `"isError":true`, `"outcome":"UNREACHABLE","effect":"none"`, `"endedBy":"bridge"`} {
		if !strings.Contains(string(result), part) {
			t.Errorf("the call's answer has no %s: %s", part, call)
		}
	}
	rpcError := jsonrpc.Get([]byte(strings.TrimSpace(list)), "error")
	if string(jsonrpc.Get(rpcError, "code")) != fmt.Sprint(codeOverloaded) || string(jsonrpc.Get(jsonrpc.Get(rpcError, "data"), "source")) != `"mcpbridge"` ||
		!strings.Contains(string(rpcError), `"verdict":{`) {
		t.Errorf("the list's answer: %s", list)
	}
	for _, id := range []string{`"call"`, `"list"`} {
		got := book.of(t, id)
		if len(got) != 1 || got[0]["outcome"] != "UNREACHABLE" || got[0]["effect"] != "none" || got[0]["endedBy"] != "bridge" || got[0]["deliveries"] != 0.0 {
			t.Errorf("records of %s: %v", id, got)
		}
	}
	// A cancel gets through, and makes room.
	r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`)
	for n := 0; ; n++ {
		r.send(`{"jsonrpc":"2.0","id":"again%d","method":"prompts/list"}`, n)
		if !strings.Contains(r.answer(fmt.Sprintf(`"again%d"`, n)), `"error"`) {
			break
		}
	}
}

// What is answered here has a record too.
func TestRecordsOfLocalAnswers(t *testing.T) {
	t.Parallel()
	s := newFloodServer(t, &floodServer{})
	book := newRecordBook()
	r := newBoundsRig(t, s.URL, func(c *Config) {
		c.Log = slog.New(slog.NewJSONHandler(book, nil))
		c.IgnoreTools = []string{"hidden"}
	})
	r.shakeHands(`{}`)
	ask := func(id, method, params string) {
		r.send(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, params)
		r.answer(`"` + id + `"`)
	}
	write := func(id, key string, n int) {
		ask(id, "tools/call", fmt.Sprintf(`{"name":"write","arguments":{"n":%d},"_meta":{"io.github.mcpbridge/idempotencyKey":%q}}`, n, key))
	}
	ask("hidden", "tools/call", `{"name":"hidden"}`)
	ask("ping", "ping", `{}`)
	ask("level", "logging/setLevel", `{"level":"loud"}`)
	write("first", "k1", 1)
	write("same", "k1", 1)
	write("conflict", "k1", 2)
	for id, want := range map[string]map[string]any{
		"hidden":   {"outcome": "UNREACHABLE", "effect": "none", "endedBy": "bridge", "tool": "hidden", "deliveries": 0.0},
		"ping":     {"outcome": "RESULT", "effect": "none", "endedBy": "bridge"},
		"level":    {"outcome": "JSONRPC_ERROR", "rpcErrorCode": -32602.0, "effect": "none", "endedBy": "bridge"},
		"first":    {"outcome": "TOOL_SUCCESS", "effect": "reported", "endedBy": "upstream", "deduplicated": false},
		"same":     {"outcome": "TOOL_SUCCESS", "effect": "reported", "endedBy": "bridge", "deduplicated": true, "retryOrigin": "host", "deliveries": 0.0},
		"conflict": {"outcome": "UNREACHABLE", "effect": "none", "endedBy": "bridge", "deliveries": 0.0},
	} {
		got := book.of(t, `"`+id+`"`)
		if len(got) != 1 {
			t.Errorf("%d records of %s", len(got), id)
			continue
		}
		for key, value := range want {
			if got[0][key] != value {
				t.Errorf("%s: %s is %v, want %v", id, key, got[0][key], value)
			}
		}
	}
}
