package classify_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/recorded"
)

// FuzzReply judges any bytes under any circumstances: every capture has a
// verdict that is complete, and none is claimed only where a second reading of
// the rules agrees.
func FuzzReply(f *testing.F) {
	for _, path := range corpusFiles(f) {
		g, err := readGolden(path)
		if err != nil {
			f.Fatal(err)
		}
		raw, _ := g.reply()
		f.Add(raw, circumstancesOf(g))
	}
	f.Fuzz(func(t *testing.T, raw []byte, circumstances uint16) {
		n := circumstances
		bit := func(at int) bool { return n>>at&1 == 1 }
		c, err := recorded.Parse(raw, classify.Ended(n&3))
		if err != nil {
			return
		}
		c.Sent = classify.Sent(n >> 2 & 1)
		c.Failed = classify.Stage(n >> 3 & 7)
		e := classify.Expectation{Method: "tools/call", ID: []byte("1"), Protocol: "2026-07-28",
			OfferedTasks: bit(6), UnknownExtension: bit(7), Session: bit(8), ReplyElsewhere: bit(9)}
		if bit(10) {
			e.ID = nil
		}
		if bit(11) {
			e.Protocol = "2025-03-26"
		}
		if bit(12) {
			e.Method = "resources/read"
		}
		before := bytes.Clone(raw)
		taken := allocated()
		v := classify.Reply(e, c)
		if taken = allocated() - taken; taken > uint64(8*len(raw)+1<<20) {
			t.Fatalf("judging %d bytes took %d", len(raw), taken)
		}
		if !bytes.Equal(raw, before) {
			t.Fatal("judging changed the bytes")
		}
		checkVerdict(t, e, c, v)
	})
}

// circumstancesOf packs what is known of a recorded reply beside its bytes.
func circumstancesOf(g *golden) uint16 {
	n := uint16(g.capture.Ended) | uint16(g.capture.Sent)<<2 | uint16(g.capture.Failed)<<3
	for at, set := range map[int]bool{6: g.expect.OfferedTasks, 7: g.expect.UnknownExtension, 8: g.expect.Session, 9: g.expect.ReplyElsewhere,
		10: g.expect.ID == nil, 11: g.expect.Protocol == "2025-03-26", 12: g.expect.Method == "resources/read"} {
		if set {
			n |= 1 << at
		}
	}
	return n
}

// allocated is how many bytes this process has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func checkVerdict(t *testing.T, e classify.Expectation, c classify.Capture, v classify.Verdict) {
	t.Helper()
	text, err := v.MarshalJSON()
	if err != nil || !json.Valid(text) || bytes.ContainsAny(text, "\n") {
		t.Fatalf("verdict %s: %v", text, err)
	}
	if strings.Contains(string(text), `"unknown"`) || v.Outcome.String() == "UNKNOWN" || v.Why == "" {
		t.Fatalf("an incomplete verdict: %s", text)
	}
	if v.Effect == classify.None && !provenNone(e, c, v) {
		t.Fatalf("no effect is claimed without proof: %s", text)
	}
	isToolResult := v.Outcome == classify.ToolSuccess || v.Outcome == classify.ToolError
	if (v.Effect == classify.Reported) != isToolResult {
		t.Fatalf("effect and outcome contradict each other: %s", text)
	}
	if isToolResult && (c.Status/100 != 2 && !e.ReplyElsewhere || e.ID == nil) {
		t.Fatalf("a tool result out of HTTP %d: %s", c.Status, text)
	}
	if v.SessionLost && !e.Session {
		t.Fatalf("a session was lost where there was none: %s", text)
	}
}

// provenNone reads the rules for effect none once more, from the raw bytes and
// with another JSON library.
func provenNone(e classify.Expectation, c classify.Capture, v classify.Verdict) bool {
	if c.Sent == classify.NothingSent {
		return true
	}
	always := []int{401, 403, 405, 406, 413, 415, 429, 431}
	refusals := []int64{-32700, -32600, -32601, -32602, -32020, -32021, -32022}
	in2xx := []int64{-32700, -32600, -32601, -32020, -32022}
	code, has := codeIn(c)
	switch {
	case slices.Contains(always, c.Status):
		return true
	case c.Status == 404 && e.Session && !(has && code == -32601):
		return true
	case c.Status == 400 && e.Session && (strings.Contains(strings.ToLower(string(c.Body)), "session") ||
		has && code == -32000 && strings.Contains(string(c.Body), "Server not initialized")):
		return true
	case c.Status == 400 || c.Status == 404:
		return has && slices.Contains(refusals, code)
	case c.Status/100 == 2 && strings.HasPrefix(strings.TrimSpace(string(c.Body)), "["):
		return false // other messages may stand beside the error
	case c.Status/100 == 2:
		return has && slices.Contains(in2xx, code) && c.Events == 0 && v.Outcome == classify.JSONRPCError
	}
	return false
}

// codeIn looks for an error code in the body, in an array or an event of it.
func codeIn(c classify.Capture) (int64, bool) {
	body := c.Body
	if strings.Contains(strings.ToLower(http.Header(c.Header).Get("Content-Type")), "event-stream") {
		var data []string
		for line := range strings.FieldsFuncSeq(string(body), func(r rune) bool { return r == '\n' || r == '\r' }) {
			if text, ok := strings.CutPrefix(strings.TrimPrefix(line, "\ufeff"), "data:"); ok {
				data = append(data, text)
			}
		}
		body = []byte(strings.Join(data, "\n"))
	}
	type message struct {
		Error *struct{ Code float64 }
	}
	var one message
	if json.Unmarshal(body, &one) == nil && one.Error != nil {
		return int64(one.Error.Code), true
	}
	var many []json.RawMessage
	if json.Unmarshal(body, &many) == nil {
		for _, part := range many {
			var one message
			if json.Unmarshal(part, &one) == nil && one.Error != nil {
				return int64(one.Error.Code), true
			}
		}
	}
	return 0, false
}
