package jsonrpc

import (
	"bytes"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Read reads one message in a single strict pass: names are unique and text is
// UTF-8 at every depth, and nothing but white space follows. It records where
// the members of the envelope are and the known members of params, result or
// error, and checks that it is exactly one request, notification or response:
//
//   - "jsonrpc" is "2.0";
//   - method is a string, params an object or an array or absent;
//   - the id of a request is a string or a number without a fraction (JSON-RPC
//     2.0, section 4; MCP forbids null); that of a response may also be null or
//     absent, which is what an answer to an unreadable request carries;
//   - result and error exclude each other, error has an integer code and a
//     message (JSON-RPC 2.0, section 5.1).
//
// The message refers to raw and copies nothing. Errors are of type *Error; the
// Message then still holds what was read before, and its ID where that could be
// found and is unambiguous.
func Read(raw []byte) (Message, error) {
	r := readers.Get().(*reader)
	defer r.release()
	r.start(raw)
	m := Message{Raw: raw}
	err := r.message(&m)
	if err == nil {
		err = m.check()
	}
	if err == nil {
		return m, nil
	}
	m.Kind = Invalid
	if err.Class != Envelope {
		m.rescueID(err)
	}
	return m, err
}

// A reader is a decoder with the buffer that lends it the bytes: the decoder
// parses a bytes.Buffer in place, any other io.Reader through a copy.
type reader struct {
	dec *jsontext.Decoder
	buf bytes.Buffer
}

// readers holds idle decoders, which keep their tables of names. It is a cache
// and carries nothing from one message to the next.
var readers = sync.Pool{New: func() any {
	return &reader{dec: jsontext.NewDecoder(new(bytes.Buffer))}
}}

func (r *reader) start(raw []byte, opts ...jsontext.Options) {
	r.buf = *bytes.NewBuffer(raw)
	r.dec.Reset(&r.buf, opts...)
}

// release returns r to the pool without a reference to the bytes it read.
func (r *reader) release() {
	r.buf = bytes.Buffer{}
	r.dec.Reset(&r.buf)
	readers.Put(r)
}

func (r *reader) offset() int { return int(r.dec.InputOffset()) }

// message reads the object that is the message up to the end of the input.
func (r *reader) message(m *Message) *Error {
	if kind := r.dec.PeekKind(); kind != '{' {
		if _, err := r.value(); err != nil {
			return jsonError(m.Raw, err)
		}
		if err := r.end(m.Raw); err != nil {
			return err
		}
		return envelopeError(0, "not an object")
	}
	if _, err := r.object(m, envelope); err != nil {
		return jsonError(m.Raw, err)
	}
	return r.end(m.Raw)
}

// end demands that only white space is left.
func (r *reader) end(raw []byte) *Error {
	rest := raw[r.offset():]
	if trimmed := bytes.TrimLeft(rest, " \t\r\n"); len(trimmed) > 0 {
		return &Error{Class: Syntax, Offset: len(raw) - len(trimmed), Why: "more bytes after the message"}
	}
	return nil
}

// value reads the next value, whatever it is, and says where it is.
func (r *reader) value() (Span, error) {
	v, err := r.dec.ReadValue()
	if err != nil {
		return Span{}, err
	}
	end := r.offset()
	return Span{end - len(v), end}, nil
}

// A level is which object is being read. (A function value per level would say
// it too, but makes every Message escape to the heap.)
type level uint8

const (
	envelope level = iota // the message itself
	inner                 // params, result or error
)

// object reads the object that comes next into m and says where it is.
func (r *reader) object(m *Message, at level) (Span, error) {
	if _, err := r.dec.ReadToken(); err != nil {
		return Span{}, err
	}
	start := r.offset() - 1
	for r.dec.PeekKind() == '"' {
		quoted, err := r.dec.ReadValue()
		if err != nil {
			return Span{}, err
		}
		if err := r.member(m, at, unquote(quoted)); err != nil {
			return Span{}, err
		}
	}
	if _, err := r.dec.ReadToken(); err != nil { // no closing brace: what PeekKind saw
		return Span{}, err
	}
	return Span{start, r.offset()}, nil
}

// member reads the value of the member name of the object at the given level.
func (r *reader) member(m *Message, at level, name []byte) error {
	if at == envelope {
		return r.envelopeMember(m, name)
	}
	k, known := keyOf(name)
	span, err := r.value()
	if known && err == nil {
		m.fields[k] = span
	}
	return err
}

func (r *reader) envelopeMember(m *Message, name []byte) (err error) {
	switch string(name) {
	case "jsonrpc":
		m.Version, err = r.value()
	case "id":
		m.ID, err = r.value()
	case "method":
		m.MethodValue, err = r.value()
	case "params":
		m.Params, err = r.structure(m)
	case "result":
		m.Result, err = r.structure(m)
	case "error":
		m.Error, err = r.structure(m)
	default:
		_, err = r.value()
	}
	return err
}

// structure reads a value, and of an object the known members.
func (r *reader) structure(m *Message) (Span, error) {
	if r.dec.PeekKind() != '{' {
		return r.value()
	}
	return r.object(m, inner)
}

// unquote returns the text of a valid JSON string, without a copy if it has no
// escapes.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // valid, so no error
	return text
}

// kindOf is the kind of a JSON value by its first byte: one of n f t " 0 { [ or
// zero for none.
func kindOf(value []byte) jsontext.Kind { return jsontext.Value(value).Kind() }
