package jsonrpc

import (
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// A member is one name and value of an object.
type member struct {
	name   []byte // unescaped
	quoted Span   // where the name is, with its quotes
	value  Span
}

// members walks over an object that is already known to be valid. It ends early
// where the bytes are not an object.
func members(obj []byte) iter.Seq[member] {
	return func(yield func(member) bool) {
		r := readers.Get().(*reader)
		defer r.release()
		r.start(obj, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if r.dec.PeekKind() != '{' {
			return
		}
		if _, err := r.dec.ReadToken(); err != nil {
			return
		}
		for r.dec.PeekKind() == '"' {
			quoted, err := r.value()
			if err != nil {
				return
			}
			value, err := r.value()
			if err != nil {
				return
			}
			m := member{unquote(obj[quoted.Start:quoted.End]), quoted, value}
			if !yield(m) {
				return
			}
		}
	}
}

// Members ranges over the names, unescaped, and the values, exactly as spelt,
// of a valid JSON object. Of anything else it yields nothing.
func Members(obj []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for m := range members(obj) {
			if !yield(string(m.name), obj[m.value.Start:m.value.End:m.value.End]) {
				return
			}
		}
	}
}

// Get returns the value of a member of a valid JSON object, nil if it is absent
// or obj is no object.
func Get(obj []byte, name string) []byte {
	for m := range members(obj) {
		if string(m.name) == name {
			return obj[m.value.Start:m.value.End:m.value.End]
		}
	}
	return nil
}

// With returns a copy of a valid JSON object in which the member name has the
// given JSON value: replaced where it is, or added as the last one. All other
// bytes are as they were. What is no object is returned as it is.
func With(obj []byte, name string, value []byte) []byte {
	last := Span{}
	for m := range members(obj) {
		if string(m.name) == name {
			return AppendEdited(nil, obj, Edit{m.value, value})
		}
		last = m.value
	}
	if kindOf(obj) != '{' {
		return obj
	}
	var added []byte
	at := last.End
	if last == (Span{}) {
		at = slices.Index(obj, '{') + 1
	} else {
		added = append(added, ',')
	}
	added, _ = jsontext.AppendQuote(added, name) // an error only says that it mended UTF-8
	added = append(append(added, ':'), value...)
	return AppendEdited(nil, obj, Edit{Span{at, at}, added})
}

// Without returns a copy of a valid JSON object without the named members, and
// obj itself if it has none of them. All other bytes are as they were; of the
// commas and the white space around a member that goes, those before the next
// member that stays remain.
func Without(obj []byte, names ...string) []byte {
	var out []byte
	kept, dropped, first, end := 0, 0, 0, 0
	for m := range members(obj) {
		if end == 0 {
			first = m.quoted.Start
			out = append(out, obj[:first]...)
			end = first
		}
		if slices.Contains(names, string(m.name)) {
			dropped++
		} else {
			if kept > 0 {
				out = append(out, obj[end:m.quoted.Start]...)
			}
			out = append(out, obj[m.quoted.Start:m.value.End]...)
			kept++
		}
		end = m.value.End
	}
	if dropped == 0 {
		return obj
	}
	return append(out, obj[end:]...)
}
