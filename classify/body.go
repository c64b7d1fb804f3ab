package classify

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/classify/sse"
)

// batchRevision is the one MCP revision whose messages may come in arrays
// (2025-03-26, basic, "Batching"; removed in 2025-06-18).
const batchRevision = "2025-03-26"

// judgeBody judges a 2xx body that is no event stream, of any content type.
func judgeBody(e *Expectation, c *Capture) Verdict {
	if len(bytes.TrimSpace(c.Body)) == 0 {
		return judgeEmpty(c)
	}
	if jsonrpc.IsBatch(c.Body) {
		return judgeArray(e, c)
	}
	m, err := jsonrpc.Read(c.Body)
	switch {
	case err == nil:
		return judgeAnswer(e, &m)
	case c.Ended != Complete && !isEnvelope(err):
		return incomplete(c, fmt.Sprintf("in the body, after %d bytes", len(c.Body)))
	}
	return unreadable(c.Body, err)
}

func judgeEmpty(c *Capture) Verdict {
	switch {
	case c.Ended != Complete:
		return incomplete(c, "before the body")
	case c.Status == 202:
		// 2025-03-26 and later, Streamable HTTP: 202 answers notifications and
		// responses; a request is answered by a body or a stream.
		return Verdict{Layer: Protocol, Outcome: InvalidEnvelope, Why: "the request was accepted (HTTP 202) without an answer"}
	}
	return Verdict{Layer: Protocol, Outcome: MalformedJSON, Why: fmt.Sprintf("HTTP %d with an empty body", c.Status)}
}

// judgeAnswer judges the one message of a body.
func judgeAnswer(e *Expectation, m *jsonrpc.Message) Verdict {
	switch {
	case m.Kind != jsonrpc.Response:
		return invalidEnvelope(m, "the answer is no response but has a method")
	case e.answeredBy(m) || m.Error != (jsonrpc.Span{}) && isIDLess(m):
		return judgeMessage(e, m)
	case isIDLess(m):
		return invalidEnvelope(m, "the result has no id")
	}
	return invalidEnvelope(m, "the response has another id: "+shorten(string(m.Bytes(m.ID)), 40))
}

// judgeArray judges a body that is an array.
func judgeArray(e *Expectation, c *Capture) Verdict {
	parts, err := jsonrpc.Split(c.Body)
	switch {
	case err != nil && c.Ended != Complete && !isEnvelope(err):
		return incomplete(c, fmt.Sprintf("in the body, after %d bytes", len(c.Body)))
	case err != nil:
		return unreadable(c.Body, err)
	case e.Protocol != batchRevision:
		return Verdict{Layer: Protocol, Outcome: InvalidEnvelope, Why: "the answer is an array of messages, which only revision " + batchRevision + " allows"}
	}
	var replies []jsonrpc.Message
	for _, part := range parts {
		m, err := jsonrpc.Read(part)
		if err != nil {
			if jsonrpc.SameID(m.Bytes(m.ID), e.ID) {
				return unreadable(part, err)
			}
			continue
		}
		if m.Kind == jsonrpc.Response {
			replies = append(replies, m)
		}
	}
	if m := e.pick(replies); m != nil {
		return judgeMessage(e, m)
	}
	return Verdict{Layer: Protocol, Outcome: InvalidEnvelope, Why: fmt.Sprintf("none of the %d messages of the array is the answer", len(parts))}
}

// pick returns the answer among the responses that one delivery brought: the
// one with the awaited id, or the only response if that is an error without id.
func (e *Expectation) pick(replies []jsonrpc.Message) *jsonrpc.Message {
	for i := range replies {
		if e.answeredBy(&replies[i]) {
			return &replies[i]
		}
	}
	if len(replies) == 1 && replies[0].Error != (jsonrpc.Span{}) && isIDLess(&replies[0]) {
		return &replies[0]
	}
	return nil
}

// unreadable judges text that is no JSON-RPC message.
func unreadable(body []byte, err error) Verdict {
	v := Verdict{Layer: Protocol, Outcome: MalformedJSON, Why: "the answer is no JSON"}
	if isEnvelope(err) {
		v.Outcome, v.Why = InvalidEnvelope, "the answer is no JSON-RPC response"
	}
	if page, ok := webPage(body); ok {
		v.Why = "instead of an answer came " + page
		return v
	}
	if bytes.HasPrefix(body, []byte("data:")) || bytes.HasPrefix(body, []byte("event:")) {
		v.Why = "the answer is an event stream that is not declared as text/event-stream"
		return v
	}
	v.Why += ": " + reason(err)
	if text := shorten(Excerpt(body), maxQuoted); text != "" {
		v.Why += "; it begins with: " + text
	}
	return v
}

// reason is what is wrong with a message, and where.
func reason(err error) string {
	var e *jsonrpc.Error
	if errors.As(err, &e) {
		return fmt.Sprintf("%s at byte %d", e.Why, e.Offset)
	}
	return err.Error()
}

// isEnvelope reports whether err is about JSON that is no proper message, and
// not about text that is no JSON. Duplicate names are of the first kind: the
// text parses, but says two things.
func isEnvelope(err error) bool {
	var e *jsonrpc.Error
	return errors.As(err, &e) && (e.Class == jsonrpc.Envelope || e.Class == jsonrpc.DuplicateName)
}

func invalidEnvelope(m *jsonrpc.Message, why string) Verdict {
	return Verdict{Layer: Protocol, Outcome: InvalidEnvelope, Why: why, Reply: *m}
}

// maxErrorEvent bounds, in bytes, an event that is read below an error status.
const maxErrorEvent = 1 << 20

// errorInBody reads the JSON-RPC error below a status outside 2xx. Its id does
// not matter (some servers make one up), and an envelope without "jsonrpc" is
// good enough to know the code; Reply is set only for a correct message.
func errorInBody(c *Capture) (*RPCError, jsonrpc.Message) {
	body := c.Body
	if isEventStream(c.Header) {
		event, _ := sse.NewReader(bytes.NewReader(body), maxErrorEvent).Next()
		body = event.Data
	}
	m, err := jsonrpc.Read(body)
	if err != nil && !isEnvelope(err) {
		return nil, jsonrpc.Message{}
	}
	rpc := errorOf(&m)
	if err != nil || rpc == nil {
		return rpc, jsonrpc.Message{}
	}
	return rpc, m
}

// errorOf returns the error object of m, nil if it has none with a code and a
// message.
func errorOf(m *jsonrpc.Message) *RPCError {
	if m.Error == (jsonrpc.Span{}) {
		return nil
	}
	code, hasCode := jsonrpc.Integer(m.Field(jsonrpc.Code))
	text, hasText := jsonrpc.String(m.Field(jsonrpc.Text))
	if !hasCode || !hasText {
		return nil
	}
	return &RPCError{Code: code, Message: text, Data: m.Field(jsonrpc.Data)}
}
