package jsonrpc

import (
	"bytes"
	"fmt"

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
	r := readers.Get().(*reader)
	defer r.release()
	r.start(raw, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if r.dec.PeekKind() != '[' {
		return nil, envelopeError(0, "not an array")
	}
	elements, err := r.elements(raw)
	if err != nil {
		return nil, err
	}
	if err := r.end(raw); err != nil {
		return nil, err
	}
	if len(elements) == 0 {
		return nil, envelopeError(0, "an empty array")
	}
	return elements, nil
}

// elements reads the array that comes next.
func (r *reader) elements(raw []byte) ([][]byte, *Error) {
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, jsonError(raw, err)
	}
	var elements [][]byte
	for r.dec.PeekKind() != ']' {
		span, err := r.value()
		if err != nil {
			return nil, jsonError(raw, err)
		}
		if len(elements) == MaxBatch {
			return nil, envelopeError(span.Start, fmt.Sprintf("more than %d messages in one array", MaxBatch))
		}
		elements = append(elements, raw[span.Start:span.End:span.End])
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, jsonError(raw, err)
	}
	return elements, nil
}
