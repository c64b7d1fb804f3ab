package stdio

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// maxCaptured bounds the id and the method of a line that is too long, in
// bytes.
const maxCaptured = 64 << 10

// An envelope finds id and method of a JSON object that comes in pieces and is
// not kept. It follows strings and nesting and validates nothing else; whatever
// is no object has neither.
type envelope struct {
	depth    int
	inString bool
	escaped  bool // the last byte in the string was a backslash
	isKey    bool // at depth 1: the next string is a name
	done     bool // the object ended, or there was none

	capture  bool   // token takes what is read
	token    []byte // the name or value at hand
	overflow bool   // it was too long

	name   string // of the value at hand, if wanted
	id     []byte
	ids    int
	method string
}

// scan takes the next piece of the line.
func (e *envelope) scan(p []byte) {
	for len(p) > 0 && !e.done {
		if e.inString {
			p = p[e.str(p):]
			continue
		}
		e.structure(p[0])
		p = p[1:]
	}
}

// str goes on in a string, up to its end, and returns how much it took.
func (e *envelope) str(p []byte) int {
	n := 0
	for n < len(p) {
		if e.escaped {
			e.escaped = false
			n++
			continue
		}
		i := bytes.IndexAny(p[n:], `"\`)
		if i < 0 {
			n = len(p)
			break
		}
		n += i + 1
		if p[n-1] == '"' {
			e.inString = false
			break
		}
		e.escaped = true
	}
	e.take(p[:n])
	if !e.inString && e.depth == 1 && e.isKey {
		e.endName()
	}
	return n
}

func (e *envelope) structure(c byte) {
	switch c {
	case '"':
		e.inString, e.done = true, e.depth == 0
		if e.depth == 1 && e.isKey {
			e.begin()
		}
	case '{', '[':
		e.open(c)
	case '}', ']':
		e.close()
	case ',', ':':
		if e.depth == 1 {
			e.separate(c)
			return
		}
	case ' ', '\t', '\r', '\n':
	default:
		e.done = e.depth == 0 // no object
	}
	e.take([]byte{c})
}

func (e *envelope) open(c byte) {
	e.depth++
	if e.depth == 1 {
		e.done, e.isKey = c != '{', true
	}
}

func (e *envelope) close() {
	if e.depth == 1 {
		e.endValue()
		e.done = true
	}
	e.depth--
}

// separate handles a comma or colon between the members of the object.
func (e *envelope) separate(c byte) {
	if c == ',' {
		e.endValue()
		e.isKey = true
		return
	}
	e.isKey = false
	if e.name != "" {
		e.begin()
	}
}

func (e *envelope) begin() {
	e.capture, e.overflow, e.token = true, false, e.token[:0]
}

func (e *envelope) take(b []byte) {
	if !e.capture {
		return
	}
	if len(b) > maxCaptured-len(e.token) {
		e.capture, e.overflow, e.token = false, true, nil
		return
	}
	e.token = append(e.token, b...)
}

func (e *envelope) endName() {
	e.name, e.capture = "", false
	switch name := text(e.token); name {
	case "id", "method":
		if !e.overflow {
			e.name = name
		}
	}
}

func (e *envelope) endValue() {
	name := e.name
	e.name, e.capture = "", false
	if name == "method" {
		e.method = text(bytes.TrimSpace(e.token))
	}
	if name != "id" {
		return
	}
	e.ids++
	switch v := jsontext.Value(bytes.Clone(bytes.TrimSpace(e.token))); v.Kind() {
	case jsontext.KindString, jsontext.KindNumber:
		if !e.overflow && v.IsValid() {
			e.id = v
		}
	}
}

// text returns what the JSON string b says, "" if it is none.
func text(b []byte) string {
	s, err := jsontext.AppendUnquote(nil, b)
	if err != nil {
		return ""
	}
	return string(s)
}

func (e *envelope) err(limit int) error {
	if e.ids != 1 {
		e.id = nil
	}
	return &LineTooLongError{Limit: limit, ID: e.id, Method: e.method}
}
