package hostside

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// An answer of the host to a question that cannot be read is the end of the
// question, and nothing is said about it to the host: the call goes on with an
// error in place of the answer, from a server of either era.
func TestUnreadableAnswerEndsTheQuestion(t *testing.T) {
	t.Parallel()
	const caps = `{"elicitation":{}}`
	long := `{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"` + strings.Repeat("x", 70<<10) + `"}}}`
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		r := start(t, startUpstream(t, bridgetest.Options{Era: era}), setup{version: v2511, caps: caps, noAnswer: true, args: []string{"--max-message=64KiB"}})
		r.knowTools()
		for i, answer := range []string{
			`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","action":"decline"}}`,
			`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"\ud800"}}}`,
			`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept"},"error":{"code":1,"message":"m"}}`,
			`{"jsonrpc":"2.0","id":%s,"error":"no object"}`,
			`{"jsonrpc":"2.0","id":%s}`,
			`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept"}`,
			long,
		} {
			id := fmt.Sprintf(`"call %d"`, i)
			if err := r.host.Request(id, "tools/call", bridgetest.ToolParams("ask", `{"kind":"elicitation"}`)); err != nil {
				t.Fatal(err)
			}
			asked, err := r.host.WaitMessage(r.ctx, "question", func(m bridgetest.HostMessage) bool { return questionOf(m, i) })
			if err != nil {
				t.Fatalf("%v: %v\n%s", era, err, r.host.Stderr())
			}
			r.send(fmt.Sprintf(answer, asked.ID))
			if got := r.answerTo(id); got.Error == nil && !got.IsError() && !strings.Contains(got.Text(), "cancel") {
				t.Errorf("%v, %.80q: the call is told %.300s", era, answer, got.Raw)
			}
			if n := len(r.host.Replies(string(asked.ID))); n != 0 {
				t.Errorf("%v, %.80q: the host's answer is answered %d times", era, answer, n)
			}
		}
		r.echo("after all that")
	}
}

// questionOf reports whether m is the n-th question of the process.
func questionOf(m bridgetest.HostMessage, n int) bool {
	return m.Method == "elicitation/create" && string(m.ID) == fmt.Sprintf(`"mcpbridge-%d"`, n+1)
}

// A line that is no message but bears the id of a request in flight does not
// answer that request: its one answer is still to come.
func TestDamagedLineWithAnIDInFlight(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := start(t, startUpstream(t, bridgetest.Options{Tools: withTool(g.tool())}), setup{version: v2503, batches: true, args: []string{"--max-message=64KiB"}})
	if err := r.host.Request("700", "tools/call", bridgetest.ToolParams("gate", "")); err != nil {
		t.Fatal(err)
	}
	r.ledger(func(v *bridgetest.View) bool { return v.Deliveries("gate") == 1 })
	r.refusedAs(parseError, "null", `{"jsonrpc":"2.0","id":700,"method":"ping","params":{"a":1,"a":2}}`)
	r.refusedAs(invalidRequest, "null", `{"jsonrpc":"1.0","id":7e2,"method":"ping"}`)
	r.refusedAs(invalidRequest, "null", toolLine("700.0", "echo", `{"text":"`+strings.Repeat("x", 70<<10)+`"}`))
	r.send(message("700", "initialize", "{}"))                                                                 // refused for its params, were it not for its id
	r.send(message("700", "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`)) // likewise
	r.send(message("700", "tools/call", `{}`))                                                                 // likewise
	r.send(`[{"jsonrpc":"2.0","id":700,"result":{},"result":{}}]`)
	r.barrier()
	close(g.open)
	if got := r.answerTo("700"); got.Text() != "open" {
		t.Errorf("the request: %s", got.Raw)
	}
	r.barrier()
	if n := len(r.host.Replies("700")); n != 1 {
		t.Errorf("the request is answered %d times", n)
	}
}

// Every answer repeats the id: one that would leave no room for an answer in
// the host's line is refused, under no id, and not silently lost.
func TestIDTooLongToAnswer(t *testing.T) {
	t.Parallel()
	r := start(t, startUpstream(t, bridgetest.Options{}), setup{version: v2503, batches: true, args: []string{"--host-line-limit=128KiB"}})
	for _, size := range []int{33 << 10, 127 << 10, 200 << 10} {
		id := `"` + strings.Repeat("i", size) + `"`
		r.refusedAs(invalidRequest, "null", message(id, "ping", "{}"))
		r.refusedAs(invalidRequest, "null", message(id, "tools/call", bridgetest.ToolParams("write_note", `{"key":"k"}`)))
		r.refusedAs(invalidRequest, "null", `{"jsonrpc":"1.0","id":`+id+`,"method":"ping"}`)
		short := fmt.Sprintf(`"short %d"`, size)
		got := batchAnswer(r, `[`+message(id, "ping", "{}")+`,`+message(short, "ping", "{}")+`]`, short)
		if len(got) != 2 {
			t.Errorf("a batch with an id of %d bytes: %.300s", size, got)
		}
	}
	id := `"` + strings.Repeat("i", 31<<10) + `"`
	r.host.Expect(id)
	r.send(message(id, "tools/call", bridgetest.ToolParams("blob", `{"bytes":110000}`)))
	if got := r.answerTo(id); got.Error != nil || !strings.Contains(got.Text(), "mcpbridge_job") {
		t.Errorf("a long result under an id of 31 KiB: %.300s", got.Raw)
	}
	if n := r.up.Ledger().Deliveries("write_note"); n != 0 {
		t.Errorf("%d of the refused calls were delivered", n)
	}
}

// What errors and records repeat of a request is bounded too: a method longer
// than a line of the host is refused and not lost.
func TestMethodTooLongToName(t *testing.T) {
	t.Parallel()
	r := start(t, startUpstream(t, bridgetest.Options{}), setup{version: v2506, args: []string{"--host-line-limit=128KiB"}})
	for i, size := range []int{5 << 10, 127 << 10, 200 << 10} {
		method := strings.Repeat("m", size)
		id := fmt.Sprintf(`"method %d"`, i)
		r.refusedAs(invalidRequest, id, message(id, method, "{}"))
		r.send(`{"jsonrpc":"2.0","method":"` + method + `"}`)
		r.host.Expect("null")
	}
	r.echo("after all that")
	if log := r.host.Stderr(); strings.Contains(log, "mmmm") {
		t.Errorf("standard error: %.300s", log)
	}
}
