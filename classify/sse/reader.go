package sse

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"time"
)

// maxField bounds the value of an id, event or retry field in bytes. An id
// travels back in a header, which no server takes at such a length.
const maxField = 64 << 10

// A Reader reads events. Only Bytes may be called by several goroutines.
type Reader struct {
	lines   lines
	counter *counter
	max     int
	typ     string // the last type seen, to not allocate it for every event

	// The line at hand.
	begun  bool // the stream's first piece, with its byte order mark, was seen
	inLine bool // the line goes on with the next piece
	field  field
	value  []byte // of a field other than data

	// The event at hand.
	event    Event
	data     gather
	hasData  bool
	skipping bool  // it was too long
	failed   error // the store had no room for it
}

// A field is what a line sets.
type field uint8

const (
	ignored field = iota // a comment, an unknown name
	dataField
	eventField
	idField
	retryField
)

// NewReader returns a Reader of r that holds at most max bytes of one event's
// data.
func NewReader(r io.Reader, max int) *Reader {
	c := &counter{r: r}
	return &Reader{
		lines:   lines{in: bufio.NewReaderSize(c, bufferSize)},
		counter: c,
		max:     max,
	}
}

// Bytes returns how many bytes of the stream were read so far, including what
// is no event.
func (r *Reader) Bytes() int64 { return r.counter.n.Load() }

// Next returns the next event that has data, an id or a retry time.
//
// A stream that ends between events returns io.EOF, one that fails returns its
// error; in both cases an event that was begun comes first, as Unfinished. A
// *TooLongError or *StoreError comes with the fields of its event that were read
// before it, without data; the call after it goes on with the next event.
func (r *Reader) Next() (Event, error) {
	for {
		piece, ends, err := r.lines.next()
		if !r.begun {
			r.begun = true
			piece = bytes.TrimPrefix(piece, []byte("\xef\xbb\xbf"))
		}
		if ends && len(piece) == 0 && !r.inLine {
			if e, ok, err := r.finish(); ok || err != nil {
				return e, err
			}
			continue
		}
		if !r.read(piece, ends) {
			return r.giveUp()
		}
		if err != nil {
			if e, ok, lost := r.cutOff(); ok || lost != nil {
				return e, lost
			}
			return Event{}, err
		}
	}
}

// read takes one piece of a line and reports whether there was room for it.
func (r *Reader) read(piece []byte, ends bool) bool {
	fits := true
	if !r.inLine && (ends || len(piece) > 0) {
		r.field, piece = cut(piece)
		fits = r.begin()
	}
	r.inLine = !ends
	fits = fits && r.add(piece)
	if ends && fits {
		r.set()
	}
	return fits
}

// cut splits a line into what it sets and the value.
func cut(line []byte) (field, []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		return dataField, value
	case "event":
		return eventField, value
	case "id":
		return idField, value
	case "retry":
		return retryField, value
	}
	return ignored, nil
}

// begin prepares for the value of r.field.
func (r *Reader) begin() bool {
	if r.skipping {
		r.field = ignored
	}
	r.value = r.value[:0]
	if r.field != dataField {
		return true
	}
	if r.hasData { // "append a single U+000A", here between two lines
		return r.add([]byte{'\n'})
	}
	r.hasData = true
	return true
}

// add takes a part of the value of r.field.
func (r *Reader) add(part []byte) bool {
	switch r.field {
	case ignored:
	case dataField:
		if len(part) > r.max-r.data.size {
			return false
		}
		r.failed = r.data.add(part)
		return r.failed == nil
	default:
		if len(part) > maxField-len(r.value) {
			return false
		}
		r.value = append(r.value, part...)
	}
	return true
}

// set applies the value of a whole line.
func (r *Reader) set() {
	switch r.field {
	case eventField:
		if r.typ != string(r.value) {
			r.typ = string(r.value)
		}
		r.event.Type = r.typ
	case idField:
		// "If the field value does not contain U+0000 NULL, then set the last
		// event ID buffer to the field value. Otherwise, ignore the field."
		if bytes.IndexByte(r.value, 0) < 0 {
			r.event.ID, r.event.HasID = string(r.value), true
		}
	case retryField:
		if d, ok := parseRetry(r.value); ok {
			r.event.Retry, r.event.HasRetry = d, true
		}
	}
}

// parseRetry reads a value that "consists of only ASCII digits" as
// milliseconds. One beyond what a Duration holds is the longest Duration.
func parseRetry(value []byte) (d time.Duration, ok bool) {
	const most = math.MaxInt64 / time.Millisecond
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		if d = 10*d + time.Duration(c-'0'); d > most {
			d = most
		}
	}
	return d * time.Millisecond, len(value) > 0
}

// finish ends an event at its blank line and reports whether there is one.
func (r *Reader) finish() (e Event, ok bool, err error) {
	e = r.event
	if r.hasData {
		if e.Data, e.Release, err = r.data.take(); err != nil {
			err = &StoreError{err}
		}
	}
	ok = !r.skipping && (r.hasData || e.HasID || e.HasRetry)
	r.reset()
	return e, ok, err
}

// cutOff ends an event at the end of the stream. Of the line at hand only data
// counts: a cut id, type or time would be another one.
func (r *Reader) cutOff() (e Event, ok bool, err error) {
	r.event.ID, r.event.HasID = "", false
	e, ok, err = r.finish()
	e.Unfinished = true
	r.inLine, r.field = false, ignored
	return e, ok, err
}

// giveUp lets go of an event for which there is no room, and skips its rest.
func (r *Reader) giveUp() (Event, error) {
	e, failed, limit := r.event, r.failed, r.max
	if r.field != dataField {
		limit = maxField
	}
	r.reset()
	r.skipping, r.field = true, ignored
	if failed != nil {
		return e, &StoreError{failed}
	}
	return e, &TooLongError{Limit: limit}
}

func (r *Reader) reset() {
	r.event, r.hasData, r.skipping, r.failed = Event{}, false, false, nil
	r.data.drop()
}
