package classify

import (
	"fmt"
	"strings"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// judgeStream judges a 2xx event stream by the reply among its events.
func judgeStream(e *Expectation, c *Capture) Verdict {
	replies, broken := unbatch(e, c)
	if m := e.pick(replies); m != nil {
		return judgeMessage(e, m)
	}
	for _, data := range broken {
		if v, ok := judgeBroken(e, data); ok {
			return v
		}
	}
	return incomplete(c, "before the reply"+tally(c, len(replies), broken))
}

// unbatch returns the responses of the stream and the events that are none,
// arrays taken apart where the revision has them.
func unbatch(e *Expectation, c *Capture) (replies []jsonrpc.Message, broken [][]byte) {
	replies = c.Replies
	for _, event := range c.Broken {
		parts, err := jsonrpc.Split(event.Data)
		if err != nil || e.Protocol != batchRevision {
			broken = append(broken, event.Data)
			continue
		}
		for _, part := range parts {
			switch m, err := jsonrpc.Read(part); {
			case err != nil:
				broken = append(broken, part)
			case m.Kind == jsonrpc.Response:
				replies = append(replies[:len(replies):len(replies)], m)
			}
		}
	}
	return replies, broken
}

// judgeBroken judges an event that is no message but must have been meant as
// the reply: it bears the awaited id, or it is an array that holds the reply.
func judgeBroken(e *Expectation, data []byte) (Verdict, bool) {
	m, err := jsonrpc.Read(data)
	if err == nil {
		return Verdict{}, false
	}
	if m.ID != (jsonrpc.Span{}) && isEnvelope(err) && jsonrpc.SameID(m.Bytes(m.ID), e.ID) {
		return unreadable(data, err), true
	}
	parts, err := jsonrpc.Split(data)
	if err != nil {
		return Verdict{}, false
	}
	for _, part := range parts {
		if m, err := jsonrpc.Read(part); err == nil && e.answeredBy(&m) {
			return Verdict{Layer: Protocol, Outcome: InvalidEnvelope, Why: "the reply came in an array, which only revision " + batchRevision + " allows"}, true
		}
	}
	return Verdict{}, false
}

// tally counts what came instead of the reply, and says what is wrong with the
// first event that is no message: it may have been meant as the reply.
func tally(c *Capture, replies int, broken [][]byte) string {
	var parts []string
	if c.Events > 0 {
		parts = append(parts, plural(c.Events, "event", "events"))
	}
	if replies > 0 {
		parts = append(parts, plural(replies, "response that is not the answer", "responses that are not the answer"))
	}
	if len(broken) > 0 {
		count := plural(len(broken), "event that is no message", "events that are no messages")
		if _, err := jsonrpc.Read(broken[0]); err != nil {
			count += ": " + reason(err)
		}
		parts = append(parts, count)
	}
	if len(parts) == 0 {
		return " and without an event"
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
