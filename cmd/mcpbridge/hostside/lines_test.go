package hostside

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// An id comes back in the bytes in which the host wrote it, whoever answers.
func TestIDsComeBackByteIdentical(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{})
	ids := []string{`"1"`, `"1e3"`, `1e3`, `2.0`, `1E+2`, `-7`, `-0`, `9007199254740993`, `-9007199254740993`, `123456789012345678901234567890`,
		`""`, `"\u0041"`, `"\u00e9"`, `"é"`, `"a\/b"`, `"\ud83d\ude00"`, `"\"\\\n"`, `" "`}
	for method, params := range map[string]string{
		"ping": "{}", "tools/list": "{}", "prompts/get": `{"name":"nobody"}`, "tools/call": bridgetest.ToolParams("echo", `{"text":"x"}`),
	} {
		r := start(t, up, setup{version: v2506})
		for _, id := range ids {
			r.host.Expect(id)
			r.send(message(id, method, params))
			if got := r.answerTo(id); string(got.ID) != id { // it is found by its bytes
				t.Errorf("%s: id %s came back as %s", method, id, got.ID)
			}
		}
	}
	for _, e := range up.Ledger().Requests("tools/call") {
		if e.ID[0] == '"' || len(e.ID) > 8 {
			t.Errorf("the upstream saw the id %s: ids of the host stay with the host", e.ID)
		}
	}
}

// null, booleans, objects, arrays and truly fractional numbers are no ids.
func TestUnusableIDsAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, startUpstream(t, bridgetest.Options{}), setup{version: v2506})
	for _, id := range []string{`null`, `true`, `false`, `{}`, `{"a":1}`, `[]`, `[1]`, `1.5`, `-0.5`, `1e-1`, `15e-1`} {
		r.refusedAs(invalidRequest, "null", message(id, "tools/call", bridgetest.ToolParams("write_note", `{"key":"k"}`)))
		r.refusedAs(invalidRequest, "null", message(id, "ping", "{}"))
	}
	if n := r.up.Ledger().Deliveries("write_note"); n != 0 {
		t.Errorf("%d of them were delivered", n)
	}
}

// A line that is no message gets an error, with its id where it can be read, and
// the next line works.
func TestMalformedLines(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", v2506, modern} {
		r := start(t, startUpstream(t, bridgetest.Options{}), setup{version: version})
		for _, bad := range []struct {
			code     int
			id, line string
		}{
			{parseError, "null", `{`},
			{parseError, "null", `no JSON at all`},
			{parseError, `"a"`, `{"jsonrpc":"2.0","id":"a","method":"ping"`},
			{parseError, `"b"`, `{"jsonrpc":"2.0","id":"b","method":"ping"}}`},
			{parseError, `"c"`, "{\"jsonrpc\":\"2.0\",\"id\":\"c\",\"method\":\"ping\",\"params\":{\"x\":\"\xff\"}}"},
			{parseError, `"d"`, `{"jsonrpc":"2.0","id":"d","method":"ping","params":{"x":1,"x":2}}`},
			{parseError, "null", `{"jsonrpc":"2.0","id":"e1","id":"e2","method":"ping"}`},
			{parseError, `"f"`, `{"jsonrpc":"2.0","id":"f","method":"ping","params":{"x":"\ud800"}}`},
			{parseError, `"g"`, `{"jsonrpc":"2.0","id":"g","method":"ping"} {"jsonrpc":"2.0"}`},
			{parseError, `"deep"`, `{"jsonrpc":"2.0","id":"deep","method":"ping","params":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`},
			{parseError, "null", strings.Repeat("[", 200_000)},
			{invalidRequest, "null", `42`},
			{invalidRequest, "null", `"text"`},
			{invalidRequest, "null", `null`},
			{invalidRequest, `"h"`, `{"jsonrpc":"1.0","id":"h","method":"ping"}`},
			{invalidRequest, `"i"`, `{"id":"i","method":"ping"}`},
			{invalidRequest, `"j"`, `{"jsonrpc":"2.0","id":"j","method":7}`},
			{invalidRequest, `"k"`, `{"jsonrpc":"2.0","id":"k","Method":"ping"}`},
		} {
			r.refusedAs(bad.code, bad.id, bad.line)
		}
		for _, fine := range []string{"", "   ", "\t\r"} {
			r.send(fine)
		}
		r.host.Expect(`"less deep"`)
		r.send(message(`"less deep"`, "ping", strings.Repeat("[", 9_000)+strings.Repeat("]", 9_000)))
		if got := r.answerTo(`"less deep"`); got.Error != nil {
			t.Errorf("a depth of 9,000: %s", got.Raw)
		}
		r.host.Expect(`"crlf"`)
		r.send(message(`"crlf"`, "ping", "{}") + "\r")
		r.answerTo(`"crlf"`)
		r.echo("after all that")
	}
}

// A call that names no tool is refused in these words, and nothing of it is sent
// or journaled.
func TestCallWithoutAToolName(t *testing.T) {
	t.Parallel()
	for _, version := range []string{v2506, modern} {
		r := start(t, startUpstream(t, bridgetest.Options{}), setup{version: version})
		meta := ""
		if version == modern {
			meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
		}
		for i, name := range []string{``, `"name":""`, `"name":7`, `"name":null`, `"name":{}`, `"name":"a\u0000b"`, `"name":"` + strings.Repeat("n", 5000) + `"`} {
			id := fmt.Sprintf(`"unnamed %d"`, i)
			r.refusedAs(invalidParams, id, message(id, "tools/call", `{`+strings.Trim(name+`,`+meta, `,`)+`}`))
		}
		if version != modern {
			r.refusedAs(invalidParams, `"list"`, message(`"list"`, "tools/call", `[]`))
			r.refusedAs(invalidParams, `"none"`, `{"jsonrpc":"2.0","id":"none","method":"tools/call"}`)
		}
		r.echo("after all that")
		if n := len(r.up.Ledger().Requests("tools/call")); n != 1 {
			t.Errorf("%s: %d calls were delivered, want that of echo alone", version, n)
		}
	}
}

// A line above --max-message is an error for its id, wherever that stands, and
// the next line works.
func TestTooLongLineFromHost(t *testing.T) {
	t.Parallel()
	r := start(t, startUpstream(t, bridgetest.Options{}), setup{version: v2506, args: []string{"--max-message=64KiB"}})
	for _, size := range []int{64<<10 + 1, 200 << 10, 3 << 20} {
		long := strings.Repeat(`x`, size)
		first, last := fmt.Sprintf(`"first %d"`, size), fmt.Sprintf(`"last %d"`, size)
		r.refusedAs(invalidRequest, first, toolLine(first, "echo", `{"text":"`+long+`"}`))
		r.refusedAs(invalidRequest, last, `{"jsonrpc":"2.0","method":"ping","params":{"text":"`+long+`","id":"not this"},"id":`+last+`}`)
		r.refusedAs(invalidRequest, "null", long)
	}
	r.echo(strings.Repeat("y", 60<<10)) // still fits
	if n := r.up.Ledger().Deliveries("echo"); n != 1 {
		t.Errorf("echo was delivered %d times", n)
	}
}

// What is longer than a host can read: a tool result becomes a job, everything
// else an error for its id.
func TestTooLongLineToHost(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	up := startUpstream(t, bridgetest.Options{})
	up.SetItem("big", strings.Repeat("z", limit))
	for _, version := range []string{v2506, modern} {
		r := start(t, up, setup{version: version, args: []string{"--host-line-limit=64KiB"}})
		got := r.tool("blob", `{"bytes":70000}`)
		if got.IsError() || !strings.Contains(got.Text(), "mcpbridge_job") || strings.Contains(got.Text(), "xxxx") {
			t.Errorf("%s: a result that is too long: %.300s", version, got.Raw)
		}
		read := r.request("resources/read", `{"uri":"test://items/big"}`)
		if read.Error == nil || read.Error.Code != invalidReply {
			t.Errorf("%s: a resource that is too long: %.300s", version, read.Raw)
		}
		if got := r.tool("blob", `{"bytes":60000}`); len(got.Text()) != 60000 {
			t.Errorf("%s: a result that fits: %.300s", version, got.Raw)
		}
		for _, line := range r.host.Lines() {
			if len(line) >= limit {
				t.Errorf("%s: a line of %d bytes", version, len(line))
			}
		}
	}
}

// Separators that tear lines apart leave as escapes, a reply over many lines as
// one line, numbers as they were written.
func TestBytesOfResults(t *testing.T) {
	t.Parallel()
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		up := startUpstream(t, bridgetest.Options{Era: era})
		for _, version := range []string{v2506, modern} {
			for _, fault := range []string{"", "multi-data-lines@tools/call"} {
				if fault != "" {
					if err := up.SetFault(fault); err != nil {
						t.Fatal(err)
					}
				}
				r := start(t, up, setup{version: version})
				if got := r.tool("unicode", "{}"); got.Text() != "a\u2028b\u2029c\u0085d\x00e\rf\vg\fh\U0001F600" {
					t.Errorf("%v to %s: separators: %q", era, version, got.Text())
				}
				if got := r.tool("pretty", "{}"); got.Text() != "line one\nline two" {
					t.Errorf("%v to %s: a reply over many lines: %q", era, version, got.Raw)
				}
				got := string(r.tool("numbers", "{}").Raw)
				for _, number := range []string{`:9007199254740993`, `:18446744073709551615`, `:1e400`, `:0.1000000000000000055`, `:-0`, `:1.0`} {
					if !strings.Contains(strings.ReplaceAll(got, " ", ""), number) {
						t.Errorf("%v to %s: no %s in %s", era, version, number, got)
					}
				}
			}
			if err := up.SetFault(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What a host sends goes out in the bytes in which it was written, to either era.
func TestBytesOfArguments(t *testing.T) {
	t.Parallel()
	const arguments = `{"text":"\u2028 \ud83d\ude00 é","n":[9007199254740993,1e400,-0,1.0], "a" : {"b":null}}`
	const meta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		r := start(t, startUpstream(t, bridgetest.Options{Era: era}), setup{version: v2506})
		for id, params := range map[string]string{
			`"legacy"`: `{"name":"echo", "arguments":` + arguments + `}`,
			`"modern"`: `{"name":"echo","arguments":` + arguments + `,"_meta":` + meta + `}`,
		} {
			if err := r.host.Send([]byte(message(id, "tools/call", params))); err != nil {
				t.Fatal(err)
			}
			if got := r.answerTo(id); got.Text() != "\u2028 \U0001F600 é" {
				t.Errorf("%s host, %v server: %s", id, era, got.Raw)
			}
		}
		for _, e := range r.up.Ledger().Requests("tools/call") {
			if !strings.Contains(e.Body, arguments) {
				t.Errorf("the %v server got %s", era, e.Body)
			}
		}
	}
}
