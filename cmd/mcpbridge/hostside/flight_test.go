package hostside

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// An id that is in flight already, however it is spelled, is dropped with a
// warning; the request that has it is answered once.
func TestDuplicateIDIsDropped(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := start(t, startUpstream(t, bridgetest.Options{Tools: withTool(g.tool())}), setup{version: v2506})
	if err := r.host.Request("700", "tools/call", bridgetest.ToolParams("gate", "")); err != nil {
		t.Fatal(err)
	}
	r.ledger(func(v *bridgetest.View) bool { return v.Deliveries("gate") == 1 })
	for _, id := range []string{"700", "700.0", "7e2", "70000e-2"} {
		r.send(toolLine(id, "write_note", `{"key":"k"}`))
	}
	r.barrier()
	if err := r.host.WaitStderr(r.ctx, "its id is in flight already"); err != nil {
		t.Error(err)
	}
	close(g.open)
	if got := r.answerTo("700"); got.Text() != "open" {
		t.Errorf("the first request: %s", got.Raw)
	}
	r.barrier()
	if n := r.up.Ledger().Deliveries("write_note"); n != 0 {
		t.Errorf("%d duplicates were delivered", n)
	}
	if got := r.request("tools/call", bridgetest.ToolParams("echo", `{"text":"700"}`)); got.Text() != "700" {
		t.Errorf("a string is another id than a number: %s", got.Raw)
	}
}

// As soon as its answer is there, an id may be used again.
func TestIDUsedAgainRightAway(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{})
	p := startPlain(t, append(plainCommand(t), up.URL())...)
	p.initialize()
	for i := range 60 {
		want := "round " + strconv.Itoa(i)
		p.send(toolLine("5", "echo", `{"text":"`+want+`"}`))
		if line := p.nextWith(`"id":5`); !strings.Contains(line, want) {
			t.Fatalf("round %d: %s", i, line)
		}
		p.send(message("5", "ping", "{}"))
		if line := p.nextWith(`"id":5`); !strings.Contains(line, `"result":{}`) {
			t.Fatalf("ping %d: %s", i, line)
		}
	}
	if n := up.Ledger().Deliveries("echo"); n != 60 {
		t.Errorf("%d deliveries of 60 calls", n)
	}
}

// batchAnswer sends an array and returns the array that answers it.
func batchAnswer(r *rig, line string, ids ...string) []json.RawMessage {
	r.t.Helper()
	for _, id := range ids {
		r.host.Expect(id)
	}
	before := len(r.host.Lines())
	r.send(line)
	for _, id := range ids {
		r.answerTo(id)
	}
	for _, line := range r.host.Lines()[before:] {
		var parts []json.RawMessage
		if bytes.HasPrefix(line, []byte("[")) && json.Unmarshal(line, &parts) == nil {
			return parts
		}
	}
	return nil
}

// Arrays exist at 2025-03-26, and before a revision was chosen: one array
// answers, of whatever its members were.
func TestBatches(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{})
	for _, version := range []string{v2503, ""} {
		r := start(t, up, setup{version: version, batches: true})
		parts := batchAnswer(r, `[`+strings.Join([]string{
			message(`"p"`, "ping", "{}"), toolLine(`"e"`, "echo", `{"text":"in a batch"}`),
			`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
			`{"jsonrpc":"2.0","id":"stray","result":{}}`,
			`{"jsonrpc":"2.0","id":"bad","method":1}`, message(`"u"`, "tools/call", `{"name":"fail","arguments":{}}`),
		}, ",")+`]`, `"p"`, `"e"`, `"bad"`, `"u"`)
		if len(parts) != 4 {
			t.Errorf("%q: %d answers in the array, want 4: %s", version, len(parts), parts)
		}
		if parts := batchAnswer(r, `[`+message(`"one"`, "ping", "{}")+`]`, `"one"`); len(parts) != 1 {
			t.Errorf("%q: an array of one is answered by %s", version, parts)
		}
		before := len(r.host.Lines())
		r.send(`[{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]`)
		r.barrier()
		if n := len(r.host.Lines()) - before; n != 1 {
			t.Errorf("%q: an array of notifications is answered: %d lines", version, n-1)
		}
		r.refusedAs(invalidRequest, "null", `[]`)
		r.refusedAs(parseError, "null", `[`+message(`"x"`, "ping", "{}"))
	}
}

// A cancelled member is left out of the array that answers; the others are not
// held up, and if none is left there is no answer.
func TestCancelInBatch(t *testing.T) {
	t.Parallel()
	g := newGate()
	defer close(g.open)
	r := start(t, startUpstream(t, bridgetest.Options{Tools: withTool(g.tool())}), setup{version: v2503, batches: true})
	r.knowTools()
	waits := func(n int) {
		t.Helper()
		r.ledger(func(v *bridgetest.View) bool { return v.Deliveries("gate") == n })
	}
	for _, id := range []string{`"p"`, `"g"`, `"alone"`} {
		r.host.Expect(id)
	}
	r.send(`[` + toolLine(`"g"`, "gate", "{}") + `,` + message(`"p"`, "ping", "{}") + `]`)
	waits(1)
	r.send(cancelLine(`"g"`))
	r.answerTo(`"p"`)
	before := len(r.host.Lines())
	r.send(`[` + toolLine(`"alone"`, "gate", "{}") + `]`)
	waits(2)
	r.send(cancelLine(`"alone"`))
	r.barrier()
	r.echo("next")
	for _, line := range r.host.Lines()[before:] {
		if line[0] == '[' {
			t.Errorf("an array for nothing: %s", line)
		}
	}
	if n := len(r.host.Replies(`"g"`)) + len(r.host.Replies(`"alone"`)); n != 0 {
		t.Errorf("cancelled members have %d answers", n)
	}
}

// Elsewhere an array is refused as a whole.
func TestBatchesElsewhere(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{})
	for _, version := range []string{"2024-11-05", v2506, v2511, modern} {
		r := start(t, up, setup{version: version})
		r.refusedAs(invalidRequest, "null", `[`+toolLine(`"e"`, "write_note", `{"key":"b"}`)+`]`)
		r.refusedAs(invalidRequest, "null", `[]`)
		r.echo("the next line")
	}
	if n := up.Ledger().Deliveries("write_note"); n != 0 {
		t.Errorf("%d members were delivered", n)
	}
}

// A hall holds all requests to an upstream until it is opened.
type hall struct {
	open chan struct{}
	once sync.Once
}

func (h *hall) authorize(_ http.ResponseWriter, r *http.Request) bool {
	select {
	case <-h.open:
	case <-r.Context().Done():
	}
	return true
}

// 1,024 requests may be open at once; the next one is told so at once, cancels
// get through and make room, and in the end each has its one answer.
func TestInFlightLimit(t *testing.T) {
	t.Parallel()
	const most = 1024
	h := &hall{open: make(chan struct{})}
	up := startUpstream(t, bridgetest.Options{Authorize: h.authorize})
	defer h.once.Do(func() { close(h.open) })
	r := start(t, up, setup{version: v2506, args: []string{"--answer-within=5m"}})
	id := func(i int) string { return `"f` + strconv.Itoa(i) + `"` }
	for i := range most {
		if err := r.host.Request(id(i), "resources/read", `{"uri":"test://items/alpha"}`); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.request("resources/read", `{"uri":"test://items/alpha"}`); got.Error == nil || got.Error.Code != overloaded {
		t.Errorf("request %d: %s", most+1, got.Raw)
	}
	if got := r.tool("write_note", `{"key":"one too many"}`); !got.IsError() || !strings.Contains(got.Text(), "NOT SENT") {
		t.Errorf("call %d: %s", most+1, got.Raw)
	}
	r.barrier() // a ping is answered past the limit too
	if err := r.host.Notify("notifications/cancelled", `{"requestId":`+id(7)+`}`); err != nil {
		t.Fatal(err)
	}
	freed := r.host.NextID()
	for range 50 { // its goroutine may need a moment to end
		if err := r.host.Request(freed, "resources/read", `{"uri":"test://items/alpha"}`); err != nil {
			t.Fatal(err)
		}
		r.barrier() // a refusal is written before the next line is read
		if len(r.host.Replies(freed)) == 0 {
			break
		}
		freed = r.host.NextID()
	}
	h.once.Do(func() { close(h.open) })
	for i := range most {
		if i == 7 {
			continue
		}
		if got := r.answerTo(id(i)); got.Error != nil {
			t.Fatalf("request %d: %s", i, got.Raw)
		}
	}
	if got := r.answerTo(freed); got.Error != nil {
		t.Errorf("a cancel made no room: %s", got.Raw)
	}
	r.barrier()
	if n := up.Ledger().Deliveries("write_note"); n != 0 {
		t.Errorf("the call past the limit was delivered %d times", n)
	}
	if n := len(r.host.Replies(id(7))); n != 0 {
		t.Errorf("the cancelled request has %d answers", n)
	}
}

func cancelLine(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"tests"}}`
}

// A cancel ends the request that it names, also twice, and nothing else.
func TestCancelDuring(t *testing.T) {
	t.Parallel()
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		left := make(chan struct{}, 2)
		g := newGate()
		tool := g.tool()
		run := tool.Run
		tool.Run = func(c *bridgetest.Call) (any, error) {
			out, err := run(c)
			if err != nil {
				left <- struct{}{}
			}
			return out, err
		}
		r := start(t, startUpstream(t, bridgetest.Options{Era: era, Tools: withTool(tool)}), setup{version: v2506})
		r.knowTools()
		for _, id := range []string{`"gone"`, `"stays"`} {
			if err := r.host.Request(id, "tools/call", bridgetest.ToolParams("gate", "")); err != nil {
				t.Fatal(err)
			}
		}
		r.ledger(func(v *bridgetest.View) bool { return v.Deliveries("gate") == 2 })
		r.send(cancelLine(`"gone"`))
		r.send(cancelLine(`"gone"`))
		r.send(cancelLine(`"gone"`))
		select {
		case <-left:
		case <-r.ctx.Done():
			t.Fatalf("%v: the server was not told", era)
		}
		close(g.open)
		if got := r.answerTo(`"stays"`); got.Text() != "open" {
			t.Errorf("%v: the other request: %s", era, got.Raw)
		}
		r.echo("and on")
		if n := len(r.host.Replies(`"gone"`)); n != 0 {
			t.Errorf("%v: a cancelled request has %d answers", era, n)
		}
		notices := r.up.Ledger().Requests("notifications/cancelled")
		if era == bridgetest.Legacy && len(notices) != 1 {
			t.Errorf("the server got %d cancels for one call", len(notices))
		}
		for _, n := range notices {
			if strings.Contains(n.Body, "gone") {
				t.Errorf("the server was told the host's id: %s", n.Body)
			}
		}
	}
}

// Cancels of what is not there, not there yet or not there any more change
// nothing; malformed ones are ignored.
func TestCancelBeforeAfterAndMalformed(t *testing.T) {
	t.Parallel()
	for _, version := range []string{v2506, modern} {
		r := start(t, startUpstream(t, bridgetest.Options{}), setup{version: version})
		for i := range 5 {
			id := fmt.Sprintf(`"c%d"`, i)
			r.send(cancelLine(id)) // before
			got, err := r.host.CallID(r.ctx, id, "tools/call", bridgetest.ToolParams("echo", `{"text":"here"}`))
			if err != nil || got.Text() != "here" {
				t.Fatalf("%s: a call after a cancel of its id: %s, %v", version, got.Raw, err)
			}
			r.send(cancelLine(id)) // after, twice
			r.send(cancelLine(id))
		}
		before := len(r.host.Lines())
		for _, params := range []string{``, `,"params":{}`, `,"params":{"requestId":null}`, `,"params":{"requestId":{}}`, `,"params":{"requestId":[1]}`,
			`,"params":[]`, `,"params":"x"`, `,"params":{"requestId":1.5}`, `,"params":{"reason":"none"}`} {
			r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"` + params + `}`)
		}
		r.barrier()
		for _, line := range r.host.Lines()[before:] {
			if bytes.Contains(line, []byte(`"id":null`)) && bytes.Contains(line, []byte(`"code":-32603`)) {
				t.Errorf("%s: %s", version, line)
			}
		}
		r.echo("after all that")
		if n := len(r.up.Ledger().Requests("notifications/cancelled")); n != 0 {
			t.Errorf("%s: the server got %d cancels", version, n)
		}
	}
}

// initialize is never cancelled.
func TestCancelOfInitialize(t *testing.T) {
	t.Parallel()
	h := &hall{open: make(chan struct{})}
	up := startUpstream(t, bridgetest.Options{Authorize: h.authorize})
	defer close(h.open)
	r := start(t, up, setup{})
	if err := r.host.Request(`"init"`, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"h","version":"1"}}`); err != nil {
		t.Fatal(err)
	}
	r.send(cancelLine(`"init"`))
	if got := r.answerTo(`"init"`); !strings.Contains(string(got.Result), `"protocolVersion":"2025-06-18"`) {
		t.Errorf("initialize: %s", got.Raw)
	}
}

// ping is answered here: before any handshake, in any era, with the server dead.
func TestPingAlways(t *testing.T) {
	t.Parallel()
	door, url := startDoor(t, startUpstream(t, bridgetest.Options{}))
	door.SetFault(bridgetest.ProxyFault{Freeze: true})
	r := start(t, nil, setup{url: url})
	r.barrier()
	if n, _ := door.Connections(); n != 0 {
		t.Errorf("ping made %d connections", n)
	}
	r.shakeHands(v2506)
	if got := r.request("ping", "{}"); string(got.Result) != "{}" {
		t.Errorf("ping: %s", got.Raw)
	}
	r.shakeHands(modern) // of a revision without ping
	if got := r.request("ping", "{}"); got.Error == nil || got.Error.Code != methodNotFound {
		t.Errorf("ping of a modern host: %s", got.Raw)
	}
}

// progressOf lists what the host was told under a token.
func progressOf(r *rig, token string) []float64 {
	var values []float64
	for _, n := range r.host.Notifications(func(m bridgetest.HostMessage) bool { return m.Method == "notifications/progress" }) {
		var p struct {
			ProgressToken json.RawMessage
			Progress      float64
		}
		if json.Unmarshal(n.Params, &p) == nil && string(p.ProgressToken) == token {
			values = append(values, p.Progress)
		}
	}
	return values
}

// Progress arrives under the host's own token, in order and before the answer;
// without a token there is none, and the server never sees the host's.
func TestProgressMapping(t *testing.T) {
	t.Parallel()
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		for _, version := range []string{v2506, modern} {
			r := start(t, startUpstream(t, bridgetest.Options{Era: era}), setup{version: version})
			tokens := []string{`"host-token"`, `9007199254740993`, `"\u0041"`, `0`}
			for i, token := range tokens {
				params := `{"name":"stream","arguments":{"n":4,"interval":1},"_meta":{"progressToken":` + token + `}}`
				if err := r.host.Request(`"s`+strconv.Itoa(i)+`"`, "tools/call", params); err != nil {
					t.Fatal(err)
				}
			}
			for i, token := range tokens {
				r.answerTo(`"s` + strconv.Itoa(i) + `"`)
				if got := progressOf(r, token); !slices.Equal(got, []float64{1, 2, 3, 4}) {
					t.Errorf("%v to %s: progress under %s: %v", era, version, token, got)
				}
			}
			all := len(r.host.Notifications(nil))
			r.tool("stream", `{"n":4}`)
			r.barrier()
			if n := len(r.host.Notifications(nil)); n != all {
				t.Errorf("%v to %s: %d notifications for a call without a token", era, version, n-all)
			}
			for _, e := range r.up.Ledger().Requests("tools/call") {
				if strings.Contains(e.Body, "host-token") || strings.Contains(e.Body, "9007199254740993") {
					t.Errorf("%v: the server saw the host's token: %s", era, e.Body)
				}
			}
		}
	}
}

// The level of logging/setLevel holds, also when it came before the server was
// known; an unknown one is refused.
func TestLoggingLevel(t *testing.T) {
	t.Parallel()
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		h := &hall{open: make(chan struct{})}
		r := start(t, startUpstream(t, bridgetest.Options{Era: era, Authorize: h.authorize}), setup{version: v2506})
		for _, level := range []string{`"loud"`, `7`, `null`, `""`} {
			if got := r.request("logging/setLevel", `{"level":`+level+`}`); got.Error == nil || got.Error.Code != invalidParams {
				t.Errorf("%v: level %s: %s", era, level, got.Raw)
			}
		}
		if got := r.request("logging/setLevel", `{"level":"error"}`); got.Error != nil {
			t.Errorf("%v: a level before there is a server: %s", era, got.Raw)
		}
		close(h.open)
		r.knowTools()
		r.tool("stream", `{"n":3,"log":true}`)
		logs := func() int {
			return len(r.host.Notifications(func(m bridgetest.HostMessage) bool { return m.Method == "notifications/message" }))
		}
		r.barrier()
		if n := logs(); n != 0 {
			t.Errorf("%v: %d messages of level info to a host that wants errors", era, n)
		}
		if got := r.request("logging/setLevel", `{"level":"info"}`); got.Error != nil {
			t.Errorf("%v: %s", era, got.Raw)
		}
		r.tool("stream", `{"n":3,"log":true}`)
		r.barrier()
		if n := logs(); n != 3 {
			t.Errorf("%v: %d messages of level info, want 3", era, n)
		}
	}
}
