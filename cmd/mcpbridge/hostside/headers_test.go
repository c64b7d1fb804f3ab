package hostside

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// Arguments that a tool marks go into headers, encoded where a header could not
// hold them; the server compares them with the body.
func TestParamHeaders(t *testing.T) {
	t.Parallel()
	for _, version := range []string{v2506, modern} {
		up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern})
		r := start(t, up, setup{version: version})
		r.knowTools()
		for _, one := range []struct{ region, want string }{
			{"eu-west", "eu-west"}, {"", ""}, {"a b", "a b"},
			{" edge", sentinel(" edge")}, {"edge ", sentinel("edge ")}, {"Zürich", sentinel("Zürich")}, {"a\nb", sentinel("a\nb")}, {"\u2028", sentinel("\u2028")},
			{sentinel("x"), sentinel(sentinel("x"))}, {"=?base64?", "=?base64?"},
		} {
			arguments := fmt.Sprintf(`{"region":%s,"options":{"limit":5,"deep":true},"query":"q"}`, quoted(one.region))
			if got := r.tool("region_query", arguments); got.Error != nil || got.IsError() {
				t.Errorf("%s: region %q: %s", version, one.region, got.Raw)
			}
			sent := last(up, "tools/call")
			if got := sent.Header.Values("Mcp-Param-Region"); len(got) != 1 || got[0] != one.want {
				t.Errorf("%s: region %q went as %q, want %q", version, one.region, got, one.want)
			}
			if sent.Header.Get("Mcp-Param-Limit") != "5" || sent.Header.Get("Mcp-Param-Deep") != "true" || sent.Header.Get("Mcp-Name") != "region_query" {
				t.Errorf("%s: headers %v", version, sent.Header)
			}
		}
		if got := r.tool("region_query", `{"region":"eu","options":{"limit":null},"query":"q"}`); got.Error != nil || got.IsError() {
			t.Errorf("%s: null and absent: %s", version, got.Raw)
		}
		if h := last(up, "tools/call").Header; h.Values("Mcp-Param-Limit") != nil || h.Values("Mcp-Param-Deep") != nil {
			t.Errorf("%s: headers for null and absent arguments: %v", version, h)
		}
		if log := r.host.Stderr(); strings.Contains(log, "Zürich") {
			t.Errorf("an argument is logged: %s", log)
		}
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func sentinel(s string) string {
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

func last(up *bridgetest.Upstream, method string) bridgetest.Entry {
	all := up.Ledger().Requests(method)
	return all[len(all)-1]
}

// An integer that a header may not carry is refused here, once and for all; the
// largest that it may goes out as it is.
func TestParamHeaderOutOfRange(t *testing.T) {
	t.Parallel()
	for _, version := range []string{v2506, modern} {
		up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern})
		r := start(t, up, setup{version: version})
		r.knowTools()
		for _, limit := range []string{"9007199254740992", "-9007199254740992", "18446744073709551616", "1e300", "1.5"} {
			got := r.tool("region_query", `{"region":"eu","options":{"limit":`+limit+`}}`)
			if !got.IsError() || !strings.Contains(got.Text(), "NOT SENT") || !strings.Contains(got.Text(), "limit") {
				t.Errorf("%s: limit %s: %s", version, limit, got.Raw)
			}
			if !strings.Contains(string(got.Result), `"retryOrigin":"none"`) {
				t.Errorf("%s: limit %s was tried again: %s", version, limit, got.Raw)
			}
		}
		if n := up.Ledger().Deliveries("region_query"); n != 0 {
			t.Errorf("%s: %d of them were delivered", version, n)
		}
		for _, limit := range []string{"9007199254740991", "-9007199254740991", "7.0", "1e3"} {
			if got := r.tool("region_query", `{"region":"eu","options":{"limit":`+limit+`}}`); got.IsError() || got.Error != nil {
				t.Errorf("%s: limit %s: %s", version, limit, got.Raw)
			}
		}
	}
}

// Tools whose annotations no client may accept are left out with a warning, on
// modern servers only.
func TestBadHeaderAnnotations(t *testing.T) {
	t.Parallel()
	var tools []bridgetest.Tool
	bad := map[string]string{
		"no_token": `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"Not A Token"}}}`,
		"empty":    `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":""}}}`,
		"number":   `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":7}}}`,
		"an_array": `{"type":"object","properties":{"a":{"type":"array","x-mcp-header":"A"}}}`,
		"twice":    `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`,
		"in_items": `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`,
		"in_anyof": `{"type":"object","anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`,
	}
	run := func(*bridgetest.Call) (any, error) { return bridgetest.Text("ran"), nil }
	for name, schema := range bad {
		tools = append(tools, bridgetest.Tool{Name: name, Description: name, InputSchema: json.RawMessage(schema), Run: run})
	}
	for _, of := range []bridgetest.Era{bridgetest.Modern, bridgetest.Legacy} {
		all := append(bridgetest.DefaultTools(), tools...)
		r := start(t, startUpstream(t, bridgetest.Options{Era: of, Tools: all}), setup{version: v2511})
		r.knowTools()
		names := r.names()
		for name := range bad {
			if listed := slices.Contains(names, name); listed != (of == bridgetest.Legacy) {
				t.Errorf("%v server: %s is listed: %v", of, name, listed)
			}
			if of == bridgetest.Modern {
				if err := r.host.WaitStderr(r.ctx, "tool="+name); err != nil {
					t.Errorf("%s is left out without a warning: %v", name, err)
				}
			}
		}
		if of == bridgetest.Modern && slices.Contains(names, "bad_header") {
			t.Error("bad_header is listed")
		}
	}
}

// A server that knows a newer schema says -32020: the tools are listed once, the
// headers made anew, and the call sent again.
func TestHeaderMismatchRefresh(t *testing.T) {
	t.Parallel()
	schema := func(header string) json.RawMessage {
		return json.RawMessage(`{"type":"object","properties":{"key":{"type":"string"` + header + `}}}`)
	}
	tool := bridgetest.Tool{Name: "act", Description: "Acts.", Annotations: json.RawMessage(`{"readOnlyHint":false,"destructiveHint":true}`), Run: func(c *bridgetest.Call) (any, error) {
		c.Effect("k")
		return bridgetest.Text(c.Header("Mcp-Param-Key")), nil
	}}
	for _, version := range []string{v2506, modern} {
		tool.InputSchema = schema("")
		old := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern, Tools: withTool(tool)})
		tool.InputSchema = schema(`,"x-mcp-header":"Key"`)
		newer := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern, Tools: withTool(tool)})
		door, url := startDoor(t, old)
		r := start(t, newer, setup{version: version, url: url})
		r.knowTools()
		door.SetTarget(address(newer.URL())) // nobody is told that the list changed
		door.Drop()
		if got := r.tool("act", `{"key":"value"}`); got.Text() != "value" {
			t.Errorf("%s: %s\n%s", version, got.Raw, r.host.Stderr())
		}
		if n := newer.Ledger().Deliveries("act"); n != 2 || newer.Ledger().Effects("act") != 1 {
			t.Errorf("%s: %d deliveries and %d effects, want 2 and 1", version, n, newer.Ledger().Effects("act"))
		}
		between := 0
		for _, e := range newer.Ledger().Entries() {
			if e.Method == "tools/list" {
				between++
			}
		}
		if between == 0 || between > 2 {
			t.Errorf("%s: %d lists", version, between)
		}
		before := newer.Ledger().Deliveries("act")
		if got := r.tool("act", `{"key":"other"}`); got.Text() != "other" || newer.Ledger().Deliveries("act") != before+1 {
			t.Errorf("%s: the next call: %s", version, got.Raw)
		}
	}
}
