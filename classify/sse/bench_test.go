package sse_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/classify/sse"
)

func benchmark(b *testing.B, stream string, events int) {
	b.ReportAllocs()
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		in := sse.NewReader(strings.NewReader(stream), 128<<20)
		n := 0
		for {
			if _, err := in.Next(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != events {
			b.Fatalf("%d events", n)
		}
	}
}

func BenchmarkSmallEvents(b *testing.B) {
	const e = "event: message\nid: 12\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":5}}\n\n"
	benchmark(b, strings.Repeat(e, 10_000), 10_000)
}

func BenchmarkLargeEvent(b *testing.B) {
	benchmark(b, "data: "+strings.Repeat("x", 32<<20)+"\n\n", 1)
}

// BenchmarkCopy is the floor of BenchmarkLargeEvent: one copy.
func BenchmarkCopy(b *testing.B) {
	src := bytes.Repeat([]byte("x"), 32<<20)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if len(bytes.Clone(src)) != len(src) {
			b.Fatal("short")
		}
	}
}
