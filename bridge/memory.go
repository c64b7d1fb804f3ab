package bridge

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
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
	m.used.Add(-n)
	return false
}

// holds reserves room for a request of n bytes, or reports that there is none.
func (b *Bridge) holds(n int) bool {
	return n <= smallBody || b.link == nil || b.link.endpoint.memory.take(int64(n))
}

// lets gives back what holds reserved.
func (b *Bridge) lets(n int) {
	if n > smallBody && b.link != nil {
		b.link.endpoint.memory.used.Add(-int64(n))
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
		return held{buf[:n], func() { m.used.Add(-length) }}, short(err)
	}
	if length >= 0 {
		return m.readToFile(nil, r, limit)
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
	var pieces [][]byte
	var total, taken int64
	release := func() { m.used.Add(-taken) }
	for size := int64(4 << 10); ; size = min(2*size, 4<<20) {
		if total+size > smallBody {
			if !m.take(size) {
				h, err := m.readToFile(pieces, r, limit)
				release()
				return h, err
			}
			taken += size
		}
		piece := make([]byte, size)
		n, err := io.ReadFull(r, piece)
		pieces = append(pieces, piece[:n])
		total += int64(n)
		switch {
		case total > limit:
			return held{join(pieces, limit), release}, errTooLarge
		case err == io.EOF || err == io.ErrUnexpectedEOF: // ReadFull's own: a broken body says *wire.Failure
			return held{join(pieces, total), release}, nil
		case err != nil:
			return held{join(pieces, total), release}, err
		}
	}
}

func join(pieces [][]byte, n int64) []byte {
	if len(pieces) == 1 {
		return pieces[0][:min(int64(len(pieces[0])), n)]
	}
	out := make([]byte, 0, n)
	for _, p := range pieces {
		out = append(out, p[:min(int64(len(p)), n-int64(len(out)))]...)
	}
	return out
}

// readToFile reads on into a file, after the pieces that were read already.
func (m *memory) readToFile(pieces [][]byte, r io.Reader, limit int64) (held, error) {
	f, err := m.spool()
	if err != nil {
		return held{bytes: join(pieces, sum(pieces))}, fmt.Errorf("--max-memory is in use and no file could be made instead: %w", err)
	}
	for _, p := range pieces {
		if _, err := f.Write(p); err != nil {
			f.Close()
			return held{}, err
		}
	}
	n, err := io.Copy(f, io.LimitReader(r, limit-sum(pieces)+1))
	if err == nil && sum(pieces)+n > limit {
		err = errTooLarge
	}
	bytes, mapErr := f.Map()
	if mapErr != nil {
		f.Close()
		return held{}, mapErr
	}
	return held{bytes, func() { f.Close() }}, err
}

func sum(pieces [][]byte) (n int64) {
	for _, p := range pieces {
		n += int64(len(p))
	}
	return n
}
