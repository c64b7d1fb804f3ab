package jsonrpc

import (
	"bytes"
	"fmt"
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxBatch is how many messages one array may hold.
const MaxBatch = 4096

// IsBatch reports whether the text is an array, which only MCP 2025-03-26
// (basic, "Batching") allows as a message.
func IsBatch(raw []byte) bool {
	trimmed := bytes.TrimLeft(raw, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '['
}

// Split returns the elements of an array, each a part of raw. They are not
// judged: what is wrong inside one element is for Read to find. An array that
// is empty (which JSON-RPC 2.0, section 6, forbids) or has more than MaxBatch
// elements is an Error of class Envelope.
func Split(raw []byte) ([][]byte, error) {
	elements, err := split(raw, MaxBatch)
	if err == nil && len(elements) == 0 {
		return nil, envelopeError(0, "an empty array")
	}
	return elements, err
}

// Elements returns the elements of any array, such as a list in a result: it
// may be empty and of any length. They are not judged, as by Split.
func Elements(raw []byte) ([][]byte, error) { return split(raw, math.MaxInt) }

func split(raw []byte, most int) ([][]byte, error) {
	r := readers.Get().(*reader)
	defer r.release()
	r.start(raw, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if r.dec.PeekKind() != '[' {
		return nil, envelopeError(0, "not an array")
	}
	elements, err := r.elements(raw, most)
	if err != nil {
		return nil, err
	}
	if err := r.end(raw); err != nil {
		return nil, err
	}
	return elements, nil
}

// elements reads the array that comes next, of so many elements at most.
func (r *reader) elements(raw []byte, most int) ([][]byte, *Error) {
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, jsonError(raw, err)
	}
	var elements [][]byte
	for r.dec.PeekKind() != ']' {
		span, err := r.value()
		if err != nil {
			return nil, jsonError(raw, err)
		}
		if len(elements) == most {
			return nil, envelopeError(span.Start, fmt.Sprintf("more than %d messages in one array", most))
		}
		elements = append(elements, raw[span.Start:span.End:span.End])
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, jsonError(raw, err)
	}
	return elements, nil
}
