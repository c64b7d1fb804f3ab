package bridge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// benchServer answers a modern server's discover, tools/list and tools/call,
// with as little work of its own as possible.
func benchServer(b *testing.B) *url.URL {
	b.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		m, readErr := jsonrpc.Read(body)
		if err != nil || readErr != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		result := `{"resultType":"complete","content":[{"type":"text","text":"hello"}]}`
		switch m.Method {
		case "server/discover":
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":60000,"cacheScope":"public"}`
		case "tools/list":
			result = `{"resultType":"complete","tools":[{"name":"echo","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}],"ttlMs":60000,"cacheScope":"public"}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.Bytes(m.ID), result)
	}))
	b.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		b.Fatal(err)
	}
	return u
}

// BenchmarkEcho is one call at a time from a legacy host to a modern server:
// stdin line to stdout line.
func BenchmarkEcho(b *testing.B) {
	bridge, err := New(Config{URL: benchServer(b)})
	if err != nil {
		b.Fatal(err)
	}
	in, hostIn, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	hostOut, out, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- bridge.Run(context.Background(), in, out) }()
	lines := bufio.NewReader(hostOut)
	call := func(line string) string {
		if _, err := io.WriteString(hostIn, line+"\n"); err != nil {
			b.Fatal(err)
		}
		answer, err := lines.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		return answer
	}
	call(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	call(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	const echo = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`
	if got := call(echo); !strings.Contains(got, `"hello"`) {
		b.Fatal(got)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		call(echo)
	}
	b.StopTimer()
	hostIn.Close()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
