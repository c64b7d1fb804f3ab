package bridgetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

const maxBlob = 256 << 20 // bytes that the tool blob makes at most

// Annotations of the default tools.
const (
	readOnly      = `{"readOnlyHint":true}`
	additive      = `{"readOnlyHint":false,"destructiveHint":false}`
	destructive   = `{"readOnlyHint":false,"destructiveHint":true}`
	idempotent    = `{"readOnlyHint":false,"idempotentHint":true}`
	keySchema     = `{"key":{"type":"string","description":"name of the effect in the ledger"}}`
	slowSchema    = `{"key":{"type":"string"},"ms":{"type":"integer"},"effect_at":{"type":"string","enum":["START","END"]},"on_cancel":{"type":"string","enum":["stop","go_on"]}}`
	streamSchema  = `{"key":{"type":"string"},"n":{"type":"integer","description":"progress events"},"interval":{"type":"integer","description":"milliseconds between them"},"log":{"type":"boolean"}}`
	askSchema     = `{"key":{"type":"string"},"kind":{"type":"string","enum":["elicitation","url","sampling","roots","ping"]},"rounds":{"type":"integer"},"effect":{"type":"boolean"}}`
	exportSchema  = `{"requestId":{"type":"string"},"ms":{"type":"integer","description":"how long it takes"}}`
	regionSchema  = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"options":{"type":"object","properties":{"limit":{"type":"integer","x-mcp-header":"Limit"},"deep":{"type":"boolean","x-mcp-header":"Deep"}}},"query":{"type":"string"}},"required":["region"]}`
	brokenSchema  = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Bad Header"}}}`
	weatherSchema = `{"type":"object","properties":{"city":{"type":"string"},"celsius":{"type":"number"}},"required":["city","celsius"]}`
	listSchema    = `{"type":"array","items":{"type":"integer"}}`
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// DefaultTools returns the tools of an Upstream that was given none.
func DefaultTools() []Tool {
	return normal(slices.Concat(readers(), writers(), replies(), protocolTools(), exportTools()))
}

func readers() []Tool {
	return []Tool{
		{Name: "echo", Title: "Echo", Description: "Returns the text it is given.", Annotations: raw(readOnly), Input: raw(`{"text":{"type":"string"}}`), Run: runEcho},
		{Name: "get_item", Description: "Returns one item.", Input: raw(`{"key":{"type":"string"}}`), Run: runGetItem},
		{Name: "now", Description: "Returns the time.", Annotations: raw(readOnly), Run: runNow},
		{Name: "sleep", Description: "Waits, then answers.", Annotations: raw(readOnly), Input: raw(`{"ms":{"type":"integer"}}`), Run: runSleep},
		{Name: "stream", Description: "Reports progress, then answers.", Annotations: raw(readOnly), Input: raw(streamSchema), Run: runStream},
		{Name: "fail", Description: "Fails.", Annotations: raw(readOnly), Input: raw(`{"text":{"type":"string"}}`), Run: runFail},
	}
}

func writers() []Tool {
	return []Tool{
		{Name: "write_note", Title: "Write a note", Description: "Writes a note under a key.", Annotations: raw(additive), Input: raw(`{"key":{"type":"string"},"text":{"type":"string"},"idempotency_key":{"type":"string"}}`), Run: runWriteNote},
		{Name: "put_item", Description: "Sets one item; doing it twice is doing it once.", Annotations: raw(idempotent), Input: raw(`{"key":{"type":"string"},"value":{"type":"string"}}`), Run: runPutItem},
		{Name: "unmarked_action", Description: "Does something, and does not say of what kind.", Input: raw(keySchema), Run: runUnmarked},
		{Name: "slow_write", Description: "Writes slowly.", Annotations: raw(destructive), Input: raw(slowSchema), Run: runSlowWrite},
		{Name: "stream_write", Description: "Writes, reporting progress.", Annotations: raw(destructive), Input: raw(streamSchema), Run: runStreamWrite},
		{Name: "fail_write", Description: "Writes, then fails.", Annotations: raw(destructive), Input: raw(keySchema), Run: runFailWrite},
	}
}

func replies() []Tool {
	return []Tool{
		{Name: "rpc_error", Description: "Answers with a JSON-RPC error.", Annotations: raw(readOnly), Input: raw(`{"code":{"type":"integer"},"data":{}}`), Run: runRPCError},
		{Name: "blob", Description: "Answers with so many bytes of text.", Annotations: raw(readOnly), Input: raw(`{"bytes":{"type":"integer"}}`), Run: runBlob},
		{Name: "pretty", Description: "Answers over many lines.", Annotations: raw(readOnly), Run: runPretty},
		{Name: "unicode", Description: "Answers with characters that tear lines apart.", Annotations: raw(readOnly), Run: runUnicode},
		{Name: "numbers", Description: "Answers with numbers that do not survive a float.", Annotations: raw(readOnly), Run: runNumbers},
		{Name: "structured", Description: "Answers with an object.", Annotations: raw(readOnly), Input: raw(`{"city":{"type":"string"}}`), Output: raw(weatherSchema), Run: runStructured},
		{Name: "structured_array", Description: "Answers with an array.", Annotations: raw(readOnly), Output: raw(listSchema), ModernOnly: true, Run: runStructuredArray},
	}
}

func protocolTools() []Tool {
	return []Tool{
		{Name: "region_query", Description: "Mirrors arguments into headers.", Annotations: raw(readOnly), InputSchema: raw(regionSchema), Run: runRegionQuery},
		{Name: "bad_header", Description: "Has a header annotation that no client may accept.", Annotations: raw(readOnly), InputSchema: raw(brokenSchema), ModernOnly: true, Run: runNow},
		{Name: "ask", Description: "Asks the client before it answers.", Input: raw(askSchema), Annotations: raw(additive), Run: runAsk},
	}
}

func exportTools() []Tool {
	return []Tool{
		{Name: "start_export", Description: "Starts an export; get_export tells how it goes.", Annotations: raw(additive), Input: raw(exportSchema), Run: runStartExport},
		{Name: "get_export", Description: "Tells how an export goes: queued, running, done or not_found.", Annotations: raw(readOnly), Input: raw(`{"id":{"type":"string"}}`), Run: runGetExport},
	}
}

// taskTools are added where the upstream has tasks.
func taskTools() []Tool {
	return []Tool{
		{Name: "task_write", Description: "Writes slowly, as a task where the client knows tasks.", Annotations: raw(destructive), Input: raw(slowSchema), Tasks: "optional", Run: runSlowWrite},
		{Name: "task_only", Description: "Writes slowly, always as a task.", Annotations: raw(destructive), Input: raw(slowSchema), Tasks: "required", Run: runSlowWrite},
		{Name: "task_ask", Description: "Asks in the middle of a task.", Annotations: raw(additive), Input: raw(askSchema), Tasks: "optional", Run: runAsk},
	}
}

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func runEcho(c *Call) (any, error) {
	var a struct{ Text string }
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	return Text(a.Text), nil
}

func runNow(*Call) (any, error) { return Text(time.Now().UTC().Format(time.RFC3339Nano)), nil }

func runSleep(c *Call) (any, error) {
	var a struct{ Ms int }
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	if err := c.Sleep(millis(a.Ms)); err != nil {
		return nil, err
	}
	return Text(fmt.Sprintf("slept %d ms", a.Ms)), nil
}

func runFail(*Call) (any, error) { return Failure("the tool failed, as it always does"), nil }

func runRPCError(c *Call) (any, error) {
	a := struct {
		Code int
		Data json.RawMessage
	}{Code: codeInternal}
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	e := rpcErrorf(a.Code, "an error of code %d", a.Code)
	if a.Data != nil {
		e.Data = a.Data
	}
	return nil, e
}

func runBlob(c *Call) (any, error) {
	var a struct{ Bytes int }
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	if a.Bytes < 0 || a.Bytes > maxBlob {
		return nil, rpcErrorf(codeInvalidParams, "bytes must be from 0 to %d", maxBlob)
	}
	return Text(strings.Repeat("x", a.Bytes)), nil
}

func runPretty(c *Call) (any, error) {
	c.pretty = true
	return Text("line one\nline two"), nil
}

// runUnicode answers with raw U+2028, U+2029 and U+0085, and with escapes.
func runUnicode(*Call) (any, error) {
	return raw("{\"content\":[{\"type\":\"text\",\"text\":\"a\u2028b\u2029c\u0085d\\u0000e\\rf\\u000bg\\u000ch\U0001F600\"}]}"), nil
}

func runNumbers(*Call) (any, error) {
	return raw(`{"content":[{"type":"text","text":"numbers"}],"structuredContent":{"big":9007199254740993,"huge":18446744073709551615,"far":1e400,"fine":0.1000000000000000055,"minus":-0,"one":1.0}}`), nil
}

func runStructured(c *Call) (any, error) {
	a := struct{ City string }{"Bern"}
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	return Structured(object{"city": a.City, "celsius": 21.5}), nil
}

func runStructuredArray(*Call) (any, error) { return Structured([]int{1, 2, 3}), nil }

// runRegionQuery answers with the headers as they arrived.
func runRegionQuery(c *Call) (any, error) {
	return Structured(object{
		"region": c.Header("Mcp-Param-Region"), "limit": c.Header("Mcp-Param-Limit"), "deep": c.Header("Mcp-Param-Deep"),
	}), nil
}
