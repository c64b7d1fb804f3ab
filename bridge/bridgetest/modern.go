package bridgetest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// isModern reports whether a request is meant for the stateless era: it carries
// a version in _meta, or a version header that no handshake revision has.
func (d *delivery) isModern() bool {
	switch d.up.opts.Era {
	case Modern:
		return true
	case Legacy, SSE:
		return false
	}
	if open(d.msg.Params).open("_meta").has(metaVersion) {
		return true
	}
	return d.r.Header.Get("MCP-Protocol-Version") >= modernVersion
}

// modern serves one POST statelessly.
func (d *delivery) modern() {
	if e := d.checkModern(); e != nil {
		d.refuse(e.status, e)
		return
	}
	if !d.msg.isRequest() {
		if d.msg.isResponse() {
			d.text(http.StatusBadRequest, "responses are not accepted")
			return
		}
		d.body(http.StatusAccepted, "", nil)
		return
	}
	if d.injected() {
		return
	}
	c := d.call(nil, newStream(d.up.state.streamID()), d.r.Header.Get("MCP-Protocol-Version"))
	if d.msg.Method == "subscriptions/listen" {
		d.listen(c)
		return
	}
	d.up.spawn(c.run)
	// The client cancels by leaving (MCP 2026-07-28, Streamable HTTP, "Cancellation").
	d.answer(c.out, false)
	c.cancel(errClientLeft)
}

func headerMismatch(format string, args ...any) *RPCError {
	e := rpcErrorf(codeHeaderMismatch, format, args...)
	e.status = http.StatusBadRequest
	return e
}

func malformedMeta(format string, args ...any) *RPCError {
	e := rpcErrorf(codeInvalidParams, format, args...)
	e.status = http.StatusBadRequest
	return e
}

// checkModern validates headers and _meta (MCP 2026-07-28, Streamable HTTP,
// "Server Validation"; basic, "_meta"). A notification needs neither.
func (d *delivery) checkModern() *RPCError {
	if !accepts(d.r, "application/json") || !isStreamRequest(d.r) {
		e := rpcErrorf(codeInvalidRequest, "Accept must list application/json and text/event-stream")
		e.status = http.StatusNotAcceptable
		return e
	}
	if !d.msg.isRequest() {
		return nil
	}
	meta := open(d.msg.Params).open("_meta")
	version := d.r.Header.Get("MCP-Protocol-Version")
	switch {
	case version == "":
		return headerMismatch("header MCP-Protocol-Version is missing; this server speaks %s", strings.Join(d.up.opts.modernVersions(), ", "))
	case !meta.has(metaVersion):
		return malformedMeta("_meta lacks %s", metaVersion)
	case meta.string(metaVersion) != version:
		return headerMismatch("header MCP-Protocol-Version %q is not the version in _meta", version)
	case !slices.Contains(d.up.opts.modernVersions(), version):
		return d.unsupportedVersion(version)
	case meta.open(metaCapabilities).fields == nil:
		return malformedMeta("_meta lacks %s", metaCapabilities)
	}
	if l := meta.string(metaLogLevel); meta.has(metaLogLevel) && !slices.Contains(levels(), l) {
		return malformedMeta("log level %q is not known", l)
	}
	return d.checkNames()
}

func (d *delivery) unsupportedVersion(version string) *RPCError {
	return &RPCError{
		Code: codeUnsupportedVersion, Message: "Unsupported protocol version", status: http.StatusBadRequest,
		Data: object{"supported": slices.Concat(d.up.opts.modernVersions(), d.up.opts.legacyVersions()), "requested": version},
	}
}

// checkNames compares Mcp-Method, Mcp-Name and Mcp-Param-* with the body.
func (d *delivery) checkNames() *RPCError {
	if got := d.r.Header.Get("Mcp-Method"); got != d.msg.Method {
		return headerMismatch("header Mcp-Method %q is not the method %q", got, d.msg.Method)
	}
	params := open(d.msg.Params)
	switch d.msg.Method {
	case "tools/call", "prompts/get":
		if e := d.checkHeader("Mcp-Name", params.fields["name"]); e != nil {
			return e
		}
	case "resources/read":
		return d.checkHeader("Mcp-Name", params.fields["uri"])
	case "tasks/get", "tasks/update", "tasks/cancel": // SEP-2663, "Routing Headers"
		return d.checkHeader("Mcp-Name", params.fields["taskId"])
	}
	if d.msg.Method != "tools/call" {
		return nil
	}
	return d.checkParams(params.fields["arguments"])
}

// checkParams compares every header that the tool's schema asks for.
func (d *delivery) checkParams(arguments json.RawMessage) *RPCError {
	t, ok := d.up.state.tool(d.tool)
	if !ok {
		return nil
	}
	for _, p := range headerParams(t.InputSchema, nil) {
		v := arguments
		for _, name := range p.path {
			v = open(v).fields[name]
		}
		if e := d.checkHeader("Mcp-Param-"+p.header, v); e != nil {
			return e
		}
	}
	return nil
}

// checkHeader: a header is there exactly if the value is, and says the same.
func (d *delivery) checkHeader(name string, value json.RawMessage) *RPCError {
	got := d.r.Header.Values(name)
	if value == nil || string(value) == "null" {
		if len(got) > 0 {
			return headerMismatch("header %s has no value in the body", name)
		}
		return nil
	}
	if len(got) != 1 {
		return headerMismatch("header %s is missing or repeated", name)
	}
	plain, ok := decodeHeader(got[0])
	if !ok || !sameValue(plain, value) {
		return headerMismatch("header %s does not match the body", name)
	}
	return nil
}

// decodeHeader undoes the Base64 sentinel (MCP 2026-07-28, "Value Encoding").
func decodeHeader(v string) (string, bool) {
	for _, c := range []byte(v) {
		if c < 0x20 && c != '\t' || c > 0x7e {
			return "", false
		}
	}
	inner, ok := strings.CutPrefix(v, "=?base64?")
	if !ok || !strings.HasSuffix(inner, "?=") {
		return v, true
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, "?="))
	return string(b), err == nil
}

func sameValue(header string, value json.RawMessage) bool {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s == header
	}
	if string(value) == header {
		return true
	}
	a, errA := strconv.ParseFloat(header, 64)
	b, errB := strconv.ParseFloat(string(value), 64)
	return errA == nil && errB == nil && a == b
}

// A headerParam is a property that is mirrored into a header.
type headerParam struct {
	header string
	path   []string
}

// headerParams finds x-mcp-header annotations along chains of properties; names
// that no header can have are left out.
func headerParams(schema json.RawMessage, path []string) []headerParam {
	var out []headerParam
	for name, prop := range open(schema).open("properties").fields {
		at := append(slices.Clone(path), name)
		if h := open(prop).string("x-mcp-header"); h != "" && !strings.ContainsAny(h, " :\r\n") {
			out = append(out, headerParam{h, at})
		}
		out = append(out, headerParams(prop, at)...)
	}
	return out
}
