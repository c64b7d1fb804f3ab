//go:build !race

package jsonrpc

import (
	"strings"
	"testing"
)

// Under the race detector a sync.Pool forgets at random, so this is not for it.

func TestReadAllocates(t *testing.T) {
	raw := []byte(reply(`{"type":"text","text":"` + strings.Repeat("words ", 160) + `"}`))
	if n := testing.AllocsPerRun(100, func() { _, _ = Read(raw) }); n > 2 {
		t.Errorf("reading a reply of %d bytes allocates %v objects", len(raw), n)
	}
}
