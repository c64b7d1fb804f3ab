package jsonrpc

import "github.com/go-json-experiment/json/jsontext"

// An Edit puts New in the place of the bytes of Span. An empty Span inserts.
type Edit struct {
	Span
	New []byte
}

// AppendEdited appends raw with the edits made to dst. Edits are in order and do
// not overlap.
func AppendEdited(dst, raw []byte, edits ...Edit) []byte {
	at := 0
	for _, e := range edits {
		dst = append(append(dst, raw[at:e.Start]...), e.New...)
		at = e.End
	}
	return append(dst, raw[at:]...)
}

// Canonical returns the canonical form of a JSON value (RFC 8785): members in
// order, no white space, numbers as the float64 they stand for. Invalid JSON,
// duplicate names and invalid UTF-8 are an *Error.
func Canonical(raw []byte) ([]byte, error) {
	v := jsontext.Value(raw).Clone()
	if err := v.Canonicalize(); err != nil {
		return nil, jsonError(raw, err)
	}
	return v, nil
}
