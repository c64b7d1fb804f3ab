package jsonrpc

import (
	"bytes"
	"strconv"
)

// check decides what the message is and whether it is that correctly.
func (m *Message) check() *Error {
	m.readMethod()
	if text, ok := stringValue(m.Bytes(m.Version)); !ok || string(text) != "2.0" {
		return envelopeError(m.Version.Start, `"jsonrpc" is not "2.0"`)
	}
	hasResult, hasError := m.Result != Span{}, m.Error != Span{}
	switch {
	case m.MethodValue != Span{} && (hasResult || hasError):
		return envelopeError(m.MethodValue.Start, "both a request and a response")
	case m.MethodValue != Span{}:
		return m.checkRequest()
	case hasResult && hasError:
		return envelopeError(m.Error.Start, `both "result" and "error"`)
	case hasResult || hasError:
		return m.checkResponse()
	}
	return envelopeError(0, `none of "method", "result" and "error"`)
}

// readMethod sets Method from its value; names of the protocol cost nothing.
func (m *Message) readMethod() {
	text, _ := stringValue(m.Bytes(m.MethodValue))
	switch string(text) {
	case "tools/call":
		m.Method = "tools/call"
	case "tools/list":
		m.Method = "tools/list"
	case "notifications/progress":
		m.Method = "notifications/progress"
	case "notifications/message":
		m.Method = "notifications/message"
	default:
		m.Method = string(text)
	}
}

func (m *Message) checkRequest() *Error {
	if kindOf(m.Bytes(m.MethodValue)) != '"' {
		return envelopeError(m.MethodValue.Start, `"method" is not a string`)
	}
	if m.Params != (Span{}) {
		if kind := kindOf(m.Bytes(m.Params)); kind != '{' && kind != '[' {
			return envelopeError(m.Params.Start, `"params" is neither an object nor an array`)
		}
	}
	if m.ID == (Span{}) {
		m.Kind = Notification
		return nil
	}
	if why := badID(m.Bytes(m.ID)); why != "" {
		return envelopeError(m.ID.Start, why)
	}
	m.Kind = Request
	return nil
}

func (m *Message) checkResponse() *Error {
	if id := m.Bytes(m.ID); id != nil && kindOf(id) != 'n' {
		if why := badID(id); why != "" {
			return envelopeError(m.ID.Start, why)
		}
	}
	if m.Error != (Span{}) {
		if why := m.badError(); why != "" {
			return envelopeError(m.Error.Start, why)
		}
	}
	m.Kind = Response
	return nil
}

// badError says what is wrong with the error object, "" if nothing is.
func (m *Message) badError() string {
	switch {
	case kindOf(m.Bytes(m.Error)) != '{':
		return `"error" is not an object`
	case kindOf(m.Field(Text)) != '"':
		return `"error" has no string "message"`
	}
	if _, ok := Integer(m.Field(Code)); !ok {
		return `"error" has no integer "code"`
	}
	return ""
}

// badID says what is wrong with the id of a request, "" if nothing is.
func badID(id []byte) string {
	switch kindOf(id) {
	case '"':
		return ""
	case '0':
		if len(id) > maxNumber {
			return `"id" is a number longer than ` + strconv.Itoa(maxNumber) + " bytes"
		}
		if d := parseDecimal(id); !d.whole() {
			return `"id" is a number with a fraction`
		}
		return ""
	}
	return `"id" is neither a string nor a number`
}

// stringValue returns the text of a JSON string.
func stringValue(value []byte) ([]byte, bool) {
	if kindOf(value) != '"' {
		return nil, false
	}
	return unquote(value), true
}

// String returns the text of a JSON string of a message; ok is false if the
// value is no string.
func String(value []byte) (text string, ok bool) {
	b, ok := stringValue(bytes.TrimSpace(value))
	return string(b), ok
}
