package jsonrpc

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A Class says in which way bytes are not a message.
type Class uint8

const (
	Syntax        Class = iota // not JSON (RFC 8259), or more than one value
	DuplicateName              // an object names a member twice
	UTF8                       // text that is no Unicode: invalid UTF-8, a lone surrogate
	Envelope                   // JSON, but not exactly one JSON-RPC 2.0 message
)

func (c Class) String() string {
	switch c {
	case Syntax:
		return "syntax"
	case DuplicateName:
		return "duplicate name"
	case UTF8:
		return "utf-8"
	case Envelope:
		return "envelope"
	}
	return "unknown"
}

// An Error says why bytes are not a message and about where, in bytes from
// their start. It quotes at most a name or a character of them.
type Error struct {
	Class  Class
	Offset int
	Why    string
}

func (e *Error) Error() string {
	return fmt.Sprintf("read message: %s at byte %d", e.Why, e.Offset)
}

// maxQuotedName bounds, in bytes, how much of a duplicate name an Error quotes.
const maxQuotedName = 64

func envelopeError(offset int, why string) *Error {
	return &Error{Class: Envelope, Offset: offset, Why: why}
}

// jsonError turns an error of the decoder that read raw into one of ours.
func jsonError(raw []byte, err error) *Error {
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF):
		return &Error{Class: Syntax, Offset: len(raw), Why: "nothing there"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Class: Syntax, Offset: len(raw), Why: "ends too early"}
	case !errors.As(err, &syntactic):
		return &Error{Class: Syntax, Why: err.Error()}
	}
	at := int(syntactic.ByteOffset)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		name := []byte(syntactic.JSONPointer.LastToken())
		if len(name) > maxQuotedName {
			name = append(name[:maxQuotedName:maxQuotedName], "..."...)
		}
		return &Error{Class: DuplicateName, Offset: at, Why: fmt.Sprintf("duplicate name %q", strings.ToValidUTF8(string(name), ""))}
	case noUnicodeAt(raw, at):
		return &Error{Class: UTF8, Offset: at, Why: "invalid UTF-8 or a lone surrogate"}
	}
	return &Error{Class: Syntax, Offset: at, Why: syntactic.Err.Error()}
}

// noUnicodeAt reports whether the bytes at the offset of a decoding error are
// an invalid UTF-8 sequence or the escape of a surrogate. The decoder exports
// no error value to tell these from other errors.
func noUnicodeAt(raw []byte, at int) bool {
	if at < 0 || at >= len(raw) {
		return false
	}
	if r, n := utf8.DecodeRune(raw[at:]); r == utf8.RuneError && n == 1 {
		return true
	}
	escape := raw[at:min(at+4, len(raw))]
	return len(escape) == 4 && string(escape[:2]) == `\u` &&
		(escape[2]|0x20) == 'd' && strings.IndexByte("89abcdefABCDEF", escape[3]) >= 0
}
