package bridge

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"

	"github.com/mcpbridge/mcpbridge/classify/sse"
)

// memory bounds the sum of all bodies held at once. What does not fit is read
// into a file of the state directory and mapped from there.
type memory struct {
	limit int64
	used  atomic.Int64
	spool func() (*spool, error) // makes an unnamed private file
}

var errTooLarge = errors.New("larger than the limit")

// held is a body, and how to give back what it occupies.
type held struct {
	bytes   []byte
	release func()
}

// after returns a function that calls release with its n-th call; nil for nil.
func after(n int, release func()) func() {
	if release == nil {
		return nil
	}
	var left atomic.Int64
	left.Store(int64(n))
	return func() {
		if left.Add(-1) == 0 {
			release()
		}
	}
}

// all returns one function for several; nil for none.
func all(releases []func()) func() {
	if len(releases) == 0 {
		return nil
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

// smallBody is the size, in bytes, below which bodies are not counted: there
// are at most maxInFlight of them.
const smallBody = 16 << 10

// take reserves n bytes, or reports that they are not to be had.
func (m *memory) take(n int64) bool {
	if m.used.Add(n) <= m.limit {
		return true
	}
	m.give(n)
	return false
}

// give gives back what take reserved.
func (m *memory) give(n int64) { m.used.Add(-n) }

// holds reserves room for a request of n bytes, or reports that there is none.
func (b *Bridge) holds(n int) bool {
	return n <= smallBody || b.link == nil || b.link.endpoint.memory.take(int64(n))
}

// lets gives back what holds reserved.
func (b *Bridge) lets(n int) {
	if n > smallBody && b.link != nil {
		b.link.endpoint.memory.give(int64(n))
	}
}

// read reads a body of the given length (-1: unknown) and at most limit bytes.
// With an error, what had arrived is in held all the same.
func (m *memory) read(r io.Reader, length, limit int64) (held, error) {
	if length > limit {
		return held{}, errTooLarge
	}
	if length >= 0 && length <= smallBody {
		buf := make([]byte, length)
		n, err := io.ReadFull(r, buf)
		return held{bytes: buf[:n]}, short(err)
	}
	if length >= 0 && m.take(length) {
		buf := make([]byte, length)
		n, err := io.ReadFull(r, buf)
		return held{buf[:n], func() { m.give(length) }}, short(err)
	}
	if length >= 0 {
		return m.readToFile(chunks{}, r, limit)
	}
	return m.readUnknown(r, limit)
}

// short names the end of a body before its stated length.
func short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readUnknown reads a body of unknown length in growing pieces.
func (m *memory) readUnknown(r io.Reader, limit int64) (held, error) {
	var p chunks
	for size := int64(4 << 10); ; size = min(2*size, 4<<20) {
		if p.total+size > smallBody {
			if !m.take(size) {
				return m.readToFile(p, r, limit)
			}
			p.taken += size
		}
		piece := make([]byte, size)
		n, err := io.ReadFull(r, piece)
		p.list, p.total = append(p.list, piece[:n]), p.total+int64(n)
		switch {
		case p.total > limit:
			return m.whole(p, limit, errTooLarge)
		case err == io.EOF || err == io.ErrUnexpectedEOF: // ReadFull's own: a broken body says *wire.Failure
			return m.whole(p, p.total, nil)
		case err != nil:
			return m.whole(p, p.total, err)
		}
	}
}

// chunks are a body in the making.
type chunks struct {
	list  [][]byte
	total int64 // of their bytes
	taken int64 // reserved for them
}

// whole makes a body of the first n bytes of p, with the error that ended it.
// For the moment of copying it needs room twice.
func (m *memory) whole(p chunks, n int64, err error) (held, error) {
	switch {
	case len(p.list) == 1:
		return held{p.list[0][:n], func() { m.give(p.taken) }}, err
	case n <= smallBody:
		m.give(p.taken)
		return held{bytes: p.join(n)}, err
	case m.take(n):
		b := p.join(n)
		m.give(p.taken)
		return held{b, func() { m.give(n) }}, err
	}
	h, fileErr := m.readToFile(p, bytes.NewReader(nil), p.total)
	h.bytes = h.bytes[:min(int64(len(h.bytes)), n)]
	if fileErr != nil {
		return h, fileErr
	}
	return h, err
}

func (p *chunks) join(n int64) []byte {
	out := make([]byte, 0, n)
	for _, piece := range p.list {
		out = append(out, piece[:min(int64(len(piece)), n-int64(len(out)))]...)
	}
	return out
}

// A spoolError says why a body was held neither in memory nor in a file.
type spoolError struct{ err error }

func (e *spoolError) Error() string {
	return "--max-memory is in use, and a file could not take its place: " + e.err.Error()
}
func (e *spoolError) Unwrap() error { return e.err }

// readToFile reads on into a file, after what was read already. If no file can
// be had, the beginning of that is what is held.
func (m *memory) readToFile(p chunks, r io.Reader, limit int64) (held, error) {
	f, err := m.spool()
	if err != nil {
		return m.beginning(p), &spoolError{err}
	}
	for _, piece := range p.list {
		if _, err := f.Write(piece); err != nil {
			f.Close()
			return m.beginning(p), &spoolError{err}
		}
	}
	n, err := io.Copy(spoolWriter{f}, io.LimitReader(r, limit-p.total+1))
	if err == nil && p.total+n > limit {
		err = errTooLarge
	}
	b, mapErr := f.Map()
	if mapErr != nil {
		f.Close()
		return m.beginning(p), &spoolError{mapErr}
	}
	m.give(p.taken)
	return held{b, func() { f.Close() }}, err
}

// beginning holds the first piece, which is the best there is without more room.
func (m *memory) beginning(p chunks) held {
	if len(p.list) == 0 {
		return held{}
	}
	return held{p.list[0], func() { m.give(p.taken) }}
}

// A spoolWriter tells its own errors from those of what is read.
type spoolWriter struct{ f *spool }

func (w spoolWriter) Write(b []byte) (int, error) {
	n, err := w.f.Write(b)
	if err != nil {
		err = &spoolError{err}
	}
	return n, err
}

// An eventStore lets the events of streams share the memory with bodies.
type eventStore struct{ *memory }

func (s eventStore) Take(n int) bool { return s.take(int64(n)) }
func (s eventStore) Give(n int)      { s.give(int64(n)) }

func (s eventStore) File() (sse.File, error) {
	f, err := s.spool()
	if err != nil {
		return nil, err
	}
	return f, nil
}

// events reads an event stream whose events count against --max-memory.
func (e *endpoint) events(body io.Reader) *sse.Reader {
	r := sse.NewReader(body, int(e.cfg.MaxMessage))
	r.HoldIn(eventStore{e.memory})
	return r
}
