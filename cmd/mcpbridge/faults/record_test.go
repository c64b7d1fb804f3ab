package faults

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// A record is one line of the log file.
type record map[string]any

// keys are those of an exchange's record.
func keys() []string {
	return []string{
		"client", "hostProtocol", "upstreamProtocol", "method", "tool", "id", "handle", "deliveries", "httpStatuses", "contentType",
		"sseEvents", "rpcErrorCode", "resultType", "layer", "outcome", "effect", "retryOrigin", "deduplicated", "endedBy", "elapsedMs", "remainingMs",
	}
}

// A logged is a lane whose log file is read after the process has ended.
type logged struct {
	*lane
	file string
}

func startLogged(t *testing.T, era bridgetest.Era, up *bridgetest.Upstream, args ...string) *logged {
	t.Helper()
	l := &logged{file: filepath.Join(t.TempDir(), "mcpbridge.log")}
	args = append([]string{"--log-format=json", "--log-level=debug", "--log-file=" + l.file}, args...)
	l.lane = startLane(t, era, up, args...)
	return l
}

// records ends the process and returns what it logged about exchanges.
func (l *logged) records() []record {
	l.t.Helper()
	if err := l.host.CloseStdin(); err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.host.Wait(l.ctx); err != nil {
		l.t.Fatal(err)
	}
	text, err := os.ReadFile(l.file)
	if err != nil {
		l.t.Fatal(err)
	}
	var all []record
	for line := range strings.Lines(string(text)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			l.t.Fatalf("a line of the log file is no JSON: %v: %s", err, line)
		}
		if r["msg"] == "exchange" || r["msg"] == "settled" {
			all = append(all, r)
		}
	}
	return all
}

// find returns the one record of a message and an id.
func find(t *testing.T, all []record, msg, id string) record {
	t.Helper()
	var found []record
	for _, r := range all {
		if r["msg"] == msg && r["id"] == `"`+id+`"` {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d records %q of %s, want one", len(found), msg, id)
	}
	for _, k := range keys() {
		if _, ok := found[0][k]; !ok {
			t.Errorf("record %q of %s has no key %s", msg, id, k)
		}
	}
	return found[0]
}

// want compares some keys of a record.
func (r record) want(t *testing.T, values record) {
	t.Helper()
	for k, v := range values {
		got, _ := json.Marshal(r[k]) // came from JSON
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("record %v of %v: %s is %s, want %s", r["msg"], r["id"], k, got, want)
		}
	}
}

// as calls a tool under an id that the record can be found by.
func (l *lane) as(id, tool, arguments string) statement {
	l.t.Helper()
	r, err := l.host.CallID(l.ctx, `"`+id+`"`, "tools/call", bridgetest.ToolParams(tool, arguments))
	if err != nil {
		l.t.Fatalf("%s: %v; standard error: %s", id, err, l.host.Stderr())
	}
	return read(r)
}

func (l *lane) fault(specs ...string) {
	l.t.Helper()
	if err := l.up.SetFault(specs...); err != nil {
		l.t.Fatal(err)
	}
}

// Each exchange leaves one record when the host is answered, and a second one
// if its delivery ends later.
func TestRecords(t *testing.T) {
	t.Parallel()
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t, bridgetest.Options{Era: era})
			l := startLogged(t, era, up, "--answer-within=2s", up.URL())
			l.knowTools()
			l.makeRecords()
			checkRecords(t, l.records(), era)
		})
	}
}

// makeRecords makes one exchange of each kind.
func (l *lane) makeRecords() {
	l.as("plain", "echo", `{"text":"hello"}`)
	l.fault("status:503x1")
	l.as("retried", "echo", `{"text":"hello"}`)
	l.fault("lost-reply@tools/callx1")
	l.as("unknown", "write_note", `{"key":"lost"}`)
	l.as("error", "rpc_error", `{"code":-32055}`)
	l.as("failing", "fail", `{}`)

	l.cancelled()
	l.as("late", "slow_write", `{"key":"late","ms":2600}`)
	l.awaitSettled("late")
	l.awaitSettled("cancelled")
}

// cancelled cancels a call with an effect that is under way: it goes on.
func (l *lane) cancelled() {
	l.t.Helper()
	if err := l.host.Request(`"cancelled"`, "tools/call", bridgetest.ToolParams("slow_write", `{"key":"cancelled","ms":300,"effect_at":"START"}`)); err != nil {
		l.t.Fatal(err)
	}
	if err := l.up.Ledger().Wait(l.ctx, func(v *bridgetest.View) bool { return v.EffectsOf("slow_write", "cancelled") == 1 }); err != nil {
		l.t.Fatal(err)
	}
	if err := l.host.Notify("notifications/cancelled", `{"requestId":"cancelled","reason":"test"}`); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lane) awaitSettled(id string) {
	l.t.Helper()
	want := regexp.MustCompile(`"msg":"settled"[^\n]*"id":"\\"` + id + `\\""`)
	for text := ""; !want.MatchString(text); text = l.host.Stderr() {
		if err := l.ctx.Err(); err != nil {
			l.t.Fatalf("no record settled of %s: %v; standard error: %s", id, err, l.host.Stderr())
		}
		l.request("ping", "{}")
	}
}

func checkRecords(t *testing.T, all []record, era bridgetest.Era) {
	version := "2025-11-25"
	if era == bridgetest.Modern {
		version = "2026-07-28"
	}
	common := record{"client": "bridgetest-host", "hostProtocol": version, "upstreamProtocol": version, "method": "tools/call"}
	for _, id := range []string{"plain", "retried", "unknown", "error", "failing"} {
		find(t, all, "exchange", id).want(t, common)
	}
	find(t, all, "exchange", "plain").want(t, record{
		"tool": "echo", "deliveries": 1, "httpStatuses": []int{200}, "contentType": "application/json", "sseEvents": 0, "rpcErrorCode": nil,
		"resultType": "complete", "layer": "application", "outcome": "TOOL_SUCCESS", "effect": "reported", "retryOrigin": "none",
		"deduplicated": false, "endedBy": "upstream",
	})
	find(t, all, "exchange", "retried").want(t, record{
		"tool": "echo", "deliveries": 2, "httpStatuses": []int{503, 200}, "layer": "application", "outcome": "TOOL_SUCCESS",
		"retryOrigin": "bridge", "endedBy": "upstream",
	})
	find(t, all, "exchange", "unknown").want(t, record{
		"tool": "write_note", "deliveries": 1, "httpStatuses": nil, "layer": "transport", "outcome": "STREAM_INCOMPLETE", "effect": "possible",
		"retryOrigin": "none", "endedBy": "network",
	})
	find(t, all, "exchange", "error").want(t, record{
		"tool": "rpc_error", "deliveries": 1, "httpStatuses": []int{200}, "rpcErrorCode": -32055, "layer": "protocol", "outcome": "JSONRPC_ERROR",
		"effect": "possible", "endedBy": "upstream",
	})
	find(t, all, "exchange", "failing").want(t, record{"outcome": "TOOL_ERROR", "effect": "reported", "layer": "application"})
	find(t, all, "exchange", "cancelled").want(t, record{"tool": "slow_write", "deliveries": 1, "endedBy": "host", "effect": "possible"})
	find(t, all, "settled", "cancelled").want(t, record{"deliveries": 1, "outcome": "TOOL_SUCCESS", "effect": "reported", "endedBy": "upstream"})
	late := find(t, all, "exchange", "late")
	late.want(t, record{"deliveries": 1, "outcome": "TIMEOUT", "effect": "possible", "endedBy": "bridge"})
	if n, _ := late["elapsedMs"].(float64); n < 2000 || n > 2600 {
		t.Errorf("the host was answered after %v ms, the limit was 2000", n)
	}
	if n, _ := late["remainingMs"].(float64); n > 0 {
		t.Errorf("%v ms are said to remain after the answer deadline", n)
	}
	settled := find(t, all, "settled", "late")
	settled.want(t, record{"deliveries": 1, "httpStatuses": []int{200}, "outcome": "TOOL_SUCCESS", "effect": "reported", "endedBy": "upstream"})
	if n, _ := settled["elapsedMs"].(float64); n < 2600 {
		t.Errorf("the call is said to have settled after %v ms, it took 2600", n)
	}
	handled(t, late, settled)
	if n := slices.IndexFunc(all, func(r record) bool { return r["msg"] == "settled" && r["id"] == `"plain"` }); n >= 0 {
		t.Error("a call that was answered in time has a second record")
	}
}

// handled: both records of a call that became a job name its handle.
func handled(t *testing.T, answered, settled record) {
	t.Helper()
	h, _ := answered["handle"].(string)
	if !strings.HasPrefix(h, "job_") || settled["handle"] != h {
		t.Errorf("handles of the two records: %q and %q", h, settled["handle"])
	}
}

// What is sent and what comes back is in no log at any level, nor is what
// configuration keeps secret.
func TestNothingSecretIsLogged(t *testing.T) {
	t.Parallel()
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t, bridgetest.Options{Era: era})
			l := startLogged(t, era, up, "--header=X-Api-Key: sesame-header", up.URL())
			l.knowTools()
			l.as("echo", "echo", `{"text":"sesame-argument"}`)
			l.fault("lost-reply@tools/callx1")
			l.as("lost", "write_note", `{"key":"sesame-key","text":"sesame-argument"}`)
			l.fault("status:503@tools/call")
			l.as("status", "echo", `{"text":"sesame-argument"}`)
			l.fault("bad-content")
			l.as("invalid", "write_note", `{"key":"sesame-key2"}`)
			l.records()
			sent := up.Ledger().Requests("tools/call")
			if len(sent) == 0 || sent[0].Header.Get("X-Api-Key") != "sesame-header" {
				t.Fatal("the header was not sent: the test proves nothing")
			}
			file, err := os.ReadFile(l.file)
			if err != nil {
				t.Fatal(err)
			}
			for where, text := range map[string]string{"standard error": l.host.Stderr(), "log file": string(file)} {
				if i := strings.Index(text, "sesame"); i >= 0 {
					t.Errorf("%s holds a secret: %s", where, text[max(0, i-300):min(len(text), i+100)])
				}
			}
		})
	}
}

// A trace goes on through the bridge, and begins there where the host has none.
func TestTraces(t *testing.T) {
	t.Parallel()
	const given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	form := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$`)
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		up := startUpstream(t, bridgetest.Options{Era: era})
		l := startLane(t, era, up, up.URL())
		l.knowTools()
		l.request("tools/call", `{"name":"echo","arguments":{"text":"a"},"_meta":{"traceparent":"`+given+`"}}`)
		l.call("echo", `{"text":"b"}`)
		l.call("echo", `{"text":"c"}`)
		var traces []string
		for _, e := range up.Ledger().Requests("tools/call") {
			traces = append(traces, traceOf(t, e.Body))
		}
		if len(traces) != 3 || traces[0] != given {
			t.Fatalf("%v: traces %q, want %q first", era, traces, given)
		}
		if !form.MatchString(traces[1]) || !form.MatchString(traces[2]) || traces[1] == traces[2] {
			t.Errorf("%v: traces made: %q", era, traces[1:])
		}
		for _, method := range []string{"resources/read", "example/unknown"} {
			l.request(method, `{"uri":"note://greeting"}`)
			l.request(method, `{"uri":"note://greeting","_meta":{"traceparent":"`+given+`"}}`)
			sent := up.Ledger().Requests(method)
			if len(sent) != 2 || !form.MatchString(traceOf(t, sent[0].Body)) || traceOf(t, sent[1].Body) != given {
				t.Errorf("%v: %s was sent %d times, first as %s", era, method, len(sent), sent[0].Body)
			}
		}
	}
}

func traceOf(t *testing.T, body string) string {
	t.Helper()
	var m struct {
		Params struct {
			Meta struct {
				Traceparent string `json:"traceparent"`
			} `json:"_meta"`
		} `json:"params"`
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatal(err)
	}
	return m.Params.Meta.Traceparent
}
