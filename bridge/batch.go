package bridge

import "sync"

// A batch collects the answers to one array of the host and writes them as one
// array: MCP 2025-03-26, basic, "Batching".
type batch struct {
	host *host
	mu   sync.Mutex
	left int // requests not answered yet
	line []byte
}

func newBatch(n int, h *host) *batch { return &batch{host: h, left: n} }

// add takes the answer to one member.
func (b *batch) add(parts ...[]byte) {
	b.mu.Lock()
	if len(b.line) > 0 {
		b.line = append(b.line, ',')
	}
	for _, p := range parts {
		b.line = append(b.line, p...)
	}
	b.mu.Unlock()
	b.less()
}

// less says that one member gets no answer, or has got it. The array goes out
// with the last one.
func (b *batch) less() {
	b.mu.Lock()
	b.left--
	whole := b.left == 0 && len(b.line) > 0
	b.mu.Unlock()
	if whole {
		b.host.write([]byte("["), b.line, []byte("]"))
	}
}
