package jsonrpc

import (
	"strings"
	"testing"
)

func BenchmarkRead(b *testing.B) {
	for _, c := range []struct {
		name string
		raw  string
	}{
		{"1KiB", reply(`{"type":"text","text":"` + strings.Repeat("plain words ", 80) + `"}`)},
		{"16MiBText", reply(`{"type":"text","text":"` + strings.Repeat(`plain words \n`, 16<<20/13) + `"}`)},
		{"16MiBObjects", reply(strings.Repeat(`{"type":"text","text":"a line of words"},`, 16<<20/41) + "{}")},
	} {
		b.Run(c.name, func(b *testing.B) {
			raw := []byte(c.raw)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func reply(content string) string {
	return `{"jsonrpc":"2.0","id":1,"result":{"content":[` + content + `],"isError":false}}`
}
