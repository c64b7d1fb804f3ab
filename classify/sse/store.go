package sse

import (
	"fmt"
	"io"
)

// smallEvent is how much of one event's data, in bytes, is held without asking
// the Store.
const smallEvent = 16 << 10

// A Store bounds what the data of events takes in memory. A Reader calls it
// from the goroutine of Next.
type Store interface {
	// Take reserves n bytes of memory, or reports that there are none.
	Take(n int) bool
	// Give gives n reserved bytes back. Event.Release calls it too.
	Give(n int)
	// File makes a place outside memory, for an event that finds no room there.
	File() (File, error)
}

// A File holds the data of one event.
type File interface {
	io.Writer
	// Map returns all that was written. It is valid until Close.
	Map() ([]byte, error)
	Close() error
}

// A StoreError reports an event that was lost because the Store had no room for
// it. The stream remains readable behind it.
type StoreError struct{ Err error }

func (e *StoreError) Error() string { return fmt.Sprintf("hold event: %v", e.Err) }
func (e *StoreError) Unwrap() error { return e.Err }

// HoldIn lets r ask s before it holds the data of a large event, and lets such
// events have a Release. It is to be called before Next; without it a Reader
// takes the memory that it needs.
func (r *Reader) HoldIn(s Store) { r.data.store = s }
