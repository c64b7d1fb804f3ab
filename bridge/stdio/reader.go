package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// readBuffer is all that a Reader keeps between two lines.
const readBuffer = 64 << 10

// A Reader reads lines. It is not safe for concurrent use.
type Reader struct {
	in  *bufio.Reader
	max int
}

// NewReader returns a Reader of r for lines of at most max bytes.
func NewReader(r io.Reader, max int) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, readBuffer), max: max}
}

// A LineTooLongError reports a line that was skipped for its length.
type LineTooLongError struct {
	Limit int // bytes

	// ID is the JSON value of the message's member "id", a string or a number,
	// wherever it stood in the line; nil if there was none, or more than one.
	ID     []byte
	Method string // of the message; empty if it has none
}

func (e *LineTooLongError) Error() string {
	return fmt.Sprintf("read message from host: longer than %d bytes; --max-message sets the limit", e.Limit)
}

// Next returns the next line that is not empty, without its end and without
// spaces around it. The line belongs to the caller. A last line without its end
// is a line too.
//
// A *LineTooLongError concerns one line; the next call goes on behind it. Every
// other error, io.EOF among them, is final.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.line()
		if err == nil && len(line) == 0 {
			continue
		}
		return line, err
	}
}

func (r *Reader) line() ([]byte, error) {
	piece, err := r.in.ReadSlice('\n')
	var held [][]byte
	size := len(piece)
	for errors.Is(err, bufio.ErrBufferFull) {
		held = append(held, bytes.Clone(piece))
		if size > r.max+len("\r\n") {
			return nil, r.skip(held)
		}
		piece, err = r.in.ReadSlice('\n')
		size += len(piece)
	}
	if err != nil && !(err == io.EOF && size > 0) {
		return nil, err
	}
	line := join(held, piece)
	if len(line) > r.max {
		return nil, r.tooLong(line)
	}
	return line, nil
}

// join returns a new slice of what was read, trimmed.
func join(held [][]byte, last []byte) []byte {
	const space = " \t\r\n"
	if len(held) == 0 {
		return bytes.Clone(bytes.Trim(last, space))
	}
	return bytes.Trim(bytes.Join(append(held, last), nil), space)
}

// tooLong judges a line that is in memory.
func (r *Reader) tooLong(line []byte) error {
	var e envelope
	e.scan(line)
	return e.err(r.max)
}

// skip reads the rest of a line, of which held is the beginning.
func (r *Reader) skip(held [][]byte) error {
	var e envelope
	for i, piece := range held {
		e.scan(piece)
		held[i] = nil
	}
	for {
		piece, err := r.in.ReadSlice('\n')
		e.scan(piece)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && err != io.EOF:
			return err
		default:
			return e.err(r.max)
		}
	}
}
