package sse

import (
	"fmt"
	"time"
)

// An Event is one block of the stream up to its blank line.
type Event struct {
	Type string // the event field; empty means "message"

	// Data is the data lines joined by \n and belongs to the caller. It is nil
	// if there was no data line: such an event is nothing to a browser, but its
	// ID and Retry count.
	Data []byte

	// Release, if it is not nil, gives back the room that a Store has for Data,
	// which belongs to the caller until it is called, once.
	Release func()

	// ID is the last id field. HasID with an empty ID means that the server
	// took the id back. An unfinished event has none: a stream resumed after
	// its id would miss the event.
	ID    string
	HasID bool

	// Retry is how long the server wants a client to wait before it connects
	// again, as sent: without a bound.
	Retry    time.Duration
	HasRetry bool

	// Unfinished means that the stream ended before the event's blank line. A
	// browser discards such an event; the last data line may be cut.
	Unfinished bool
}

// A TooLongError reports an event that was larger than the reader may hold.
// The stream remains readable behind it.
type TooLongError struct {
	Limit int // bytes
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("read event: larger than %d bytes", e.Limit)
}
