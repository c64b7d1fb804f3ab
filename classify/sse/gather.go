package sse

const (
	firstChunk = 4 << 10
	lastChunk  = 1 << 20
)

// A gather collects bytes in chunks of growing size and hands them out as one
// slice of exactly their length. It never moves what it holds, so growing
// costs no copies, and it keeps no more than its first chunk afterwards.
type gather struct {
	full [][]byte
	tail []byte
	size int
}

func (g *gather) add(b []byte) {
	g.size += len(b)
	for len(b) > 0 {
		if len(g.tail) == cap(g.tail) {
			g.grow()
		}
		n := copy(g.tail[len(g.tail):cap(g.tail)], b)
		g.tail = g.tail[:len(g.tail)+n]
		b = b[n:]
	}
}

func (g *gather) grow() {
	next := firstChunk
	if len(g.tail) > 0 {
		g.full = append(g.full, g.tail)
		next = min(2*cap(g.tail), lastChunk)
	}
	g.tail = make([]byte, 0, next)
}

// take returns a copy of what was gathered and empties g.
func (g *gather) take() []byte {
	out := make([]byte, 0, g.size)
	for _, c := range g.full {
		out = append(out, c...)
	}
	out = append(out, g.tail...)
	g.drop()
	return out
}

func (g *gather) drop() {
	if len(g.full) > 0 {
		g.tail = g.full[0]
	}
	g.full, g.tail, g.size = nil, g.tail[:0], 0
}
