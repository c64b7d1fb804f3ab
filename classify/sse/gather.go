package sse

const (
	firstChunk = 4 << 10
	lastChunk  = 1 << 20
)

// A gather collects bytes in chunks of growing size and hands them out as one
// slice of exactly their length. It never moves what it holds, so growing
// costs no copies, and it keeps no more than its first chunk afterwards. What
// its store has no room for goes to a file.
type gather struct {
	store Store // nil: memory without a bound
	full  [][]byte
	tail  []byte
	size  int
	held  int  // bytes of all chunks
	taken int  // of the store
	file  File // instead of the chunks
}

// add takes b. After an error only drop may follow.
func (g *gather) add(b []byte) error {
	g.size += len(b)
	for len(b) > 0 && g.file == nil {
		if len(g.tail) == cap(g.tail) && !g.grow() {
			if err := g.spill(); err != nil {
				return err
			}
			break
		}
		n := copy(g.tail[len(g.tail):cap(g.tail)], b)
		g.tail = g.tail[:len(g.tail)+n]
		b = b[n:]
	}
	if len(b) == 0 {
		return nil
	}
	_, err := g.file.Write(b)
	return err
}

// grow adds a chunk, if the store has room for it.
func (g *gather) grow() bool {
	next := firstChunk
	if len(g.tail) > 0 {
		next = min(2*cap(g.tail), lastChunk)
	}
	if g.store != nil && g.held+next > smallEvent {
		if !g.store.Take(next) {
			return false
		}
		g.taken += next
	}
	if len(g.tail) > 0 {
		g.full = append(g.full, g.tail)
	}
	g.held += next
	g.tail = make([]byte, 0, next)
	return true
}

// spill moves what was gathered to a file.
func (g *gather) spill() (err error) {
	if g.file, err = g.store.File(); err != nil {
		g.file = nil
		return err
	}
	for _, c := range append(g.full, g.tail) {
		if _, err := g.file.Write(c); err != nil {
			return err
		}
	}
	g.dropChunks()
	return nil
}

// take returns what was gathered and empties g. The bytes are valid until
// release is called, which is nil if they just stay.
func (g *gather) take() (data []byte, release func(), err error) {
	defer g.drop()
	if g.store != nil && g.file == nil && g.size > smallEvent && !g.store.Take(g.size) {
		if err := g.spill(); err != nil {
			return nil, nil, err
		}
	}
	if g.file != nil {
		return g.takeFile()
	}
	out := make([]byte, 0, g.size)
	for _, c := range g.full {
		out = append(out, c...)
	}
	out = append(out, g.tail...)
	if store, n := g.store, g.size; store != nil && n > smallEvent {
		release = func() { store.Give(n) }
	}
	return out, release, nil
}

func (g *gather) takeFile() (data []byte, release func(), err error) {
	if data, err = g.file.Map(); err != nil {
		return nil, nil, err
	}
	file := g.file
	g.file = nil
	return data, func() { file.Close() }, nil
}

// drop forgets what was gathered.
func (g *gather) drop() {
	if g.file != nil {
		g.file.Close()
		g.file = nil
	}
	g.dropChunks()
	g.size = 0
}

// dropChunks keeps the first chunk, which was never asked for, and gives back
// the others.
func (g *gather) dropChunks() {
	if len(g.full) > 0 {
		g.tail = g.full[0]
	}
	g.full, g.tail, g.held = nil, g.tail[:0], cap(g.tail)
	if g.taken > 0 {
		g.store.Give(g.taken)
		g.taken = 0
	}
}
