package classify_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/classify"
)

func reply(size int) classify.Capture {
	body := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("plain words ", size/12) + `"}],"isError":false}}`
	return classify.Capture{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body), Ended: classify.Complete}
}

var call = classify.Expectation{Method: "tools/call", ID: []byte("1"), Protocol: "2026-07-28"}

func BenchmarkReply(b *testing.B) {
	for name, size := range map[string]int{"1KiB": 1 << 10, "16MiB": 16 << 20} {
		b.Run(name, func(b *testing.B) {
			c := reply(size)
			b.SetBytes(int64(len(c.Body)))
			b.ReportAllocs()
			for b.Loop() {
				if v := classify.Reply(call, c); v.Outcome != classify.ToolSuccess {
					b.Fatal(v.Why)
				}
			}
		})
	}
}

func TestReplyAllocates(t *testing.T) {
	c := reply(1 << 10)
	if n := testing.AllocsPerRun(100, func() { classify.Reply(call, c) }); n > 10 {
		t.Errorf("judging a reply of 1 KiB allocates %v objects", n)
	}
}
