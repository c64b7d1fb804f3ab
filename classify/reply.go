package classify

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// Reply judges one delivery. It is total: every capture has exactly one
// verdict. The transport is judged first, then the protocol, then the result.
//
// Side effects are denied only where the capture proves it; whatever is not
// known stays possible.
func Reply(e Expectation, c Capture) Verdict {
	v := judge(&e, &c)
	v.Status = c.Status
	v.RetryAfter = retryAfter(&c)
	v.SessionLost = sessionLost(&e, &c, &v)
	v.Effect = effect(&c, &v)
	if v.Outcome.isFailure() { // the other texts are constants of ours
		v.Why = shorten(v.Why+encodingNote(&c), maxWhy)
	}
	return v
}

func judge(e *Expectation, c *Capture) Verdict {
	if v, ok := judgeElsewhere(e, c); ok {
		return v
	}
	switch {
	case neverSent(c):
		return unreachable(c)
	case c.Status == 0:
		return noHead(c)
	case !isSuccess(c.Status):
		return judgeStatus(c)
	case e.ID == nil:
		// Any 2xx accepts a notification, whatever is in its body.
		return Verdict{Layer: Protocol, Outcome: Accepted, Why: "the notification was accepted"}
	case e.ReplyElsewhere:
		return judgePosted(e, c)
	case isEventStream(c.Header):
		return judgeStream(e, c)
	}
	return judgeBody(e, c)
}

// neverSent reports whether the request is known not to have left. A failed
// CONNECT may have a status of its own, which is the proxy's.
func neverSent(c *Capture) bool {
	if c.Sent != NothingSent {
		return false
	}
	switch c.Failed {
	case Resolve, Connect, Proxy, Handshake, Refused:
		return true
	}
	return c.Status == 0 && c.Ended != Timeout
}

func unreachable(c *Capture) Verdict {
	why := "no request left"
	if c.Failed != NoFailure {
		why += ": " + c.Failed.String()
	}
	return Verdict{Layer: Transport, Outcome: Unreachable, Why: withDetail(why, c)}
}

// noHead judges a delivery of which no response head arrived.
func noHead(c *Capture) Verdict {
	if c.Ended == Timeout {
		return Verdict{Layer: Transport, Outcome: TimedOut, Why: withDetail("no answer within the limit", c)}
	}
	why := "the connection broke"
	if c.Ended == Cancelled {
		why = howEnded(c)
	}
	return Verdict{Layer: Transport, Outcome: StreamIncomplete, Why: withDetail(why+" before an answer", c)}
}

// judgeStatus judges a status outside 2xx: the body does not change what it is.
func judgeStatus(c *Capture) Verdict {
	v := Verdict{Layer: Transport, Outcome: HTTPError}
	v.RPCError, v.Reply = errorInBody(c)
	why := fmt.Sprintf("HTTP %d", c.Status)
	if text := http.StatusText(c.Status); text != "" {
		why += " " + text
	}
	if c.Status == http.StatusProxyAuthRequired {
		why = "the proxy wants credentials (" + why + ")"
	}
	if what := describeBody(c, v.RPCError); what != "" {
		why += ": " + what
	}
	v.Why = withDetail(why, c)
	return v
}

// describeBody says in a few words what the body below an error status says.
func describeBody(c *Capture, rpc *RPCError) string {
	switch {
	case rpc != nil:
		return fmt.Sprintf("JSON-RPC error %d %s", rpc.Code, shorten(rpc.Message, maxQuoted))
	case len(c.Body) == 0:
		return ""
	}
	if page, ok := webPage(c.Body); ok {
		return page
	}
	return shorten(Excerpt(c.Body), maxQuoted)
}

// judgeElsewhere judges the reply that came on the GET stream of an HTTP+SSE
// server, whatever the POST itself was answered with.
func judgeElsewhere(e *Expectation, c *Capture) (Verdict, bool) {
	if !e.ReplyElsewhere || e.ID == nil {
		return Verdict{}, false
	}
	for i := range c.Replies {
		if e.answeredBy(&c.Replies[i]) {
			return judgeMessage(e, &c.Replies[i]), true
		}
	}
	return Verdict{}, false
}

// judgePosted judges the 2xx that an HTTP+SSE server gives to the POST itself.
func judgePosted(e *Expectation, c *Capture) Verdict {
	if m, err := jsonrpc.Read(c.Body); err == nil && e.answeredBy(&m) {
		return judgeMessage(e, &m)
	}
	if c.Ended == Complete {
		return Verdict{Layer: Protocol, Outcome: Accepted, Why: "accepted; the reply comes on the stream"}
	}
	return incomplete(c, "before the reply came on the stream")
}

// incomplete is the verdict of a 2xx whose reply did not arrive whole.
func incomplete(c *Capture, where string) Verdict {
	v := Verdict{Layer: Transport, Outcome: StreamIncomplete}
	if c.Ended == Timeout {
		v.Outcome = TimedOut
	}
	v.Why = withDetail(howEnded(c)+" "+where, c)
	return v
}

func howEnded(c *Capture) string {
	switch c.Ended {
	case Complete:
		return "the answer ended"
	case Timeout:
		return "a time limit passed"
	case Cancelled:
		return "the call was given up"
	}
	return "the answer broke off"
}

// answeredBy reports whether m is the reply that was waited for.
func (e *Expectation) answeredBy(m *jsonrpc.Message) bool {
	return m.Kind == jsonrpc.Response && e.ID != nil && jsonrpc.SameID(m.Bytes(m.ID), e.ID)
}

// isIDLess reports whether m has no id or null, as the answer to a request that
// could not be read has (JSON-RPC 2.0, section 5).
func isIDLess(m *jsonrpc.Message) bool {
	id := m.Bytes(m.ID)
	return id == nil || string(id) == "null"
}

func isSuccess(status int) bool { return status/100 == 2 }

// encodingNote names a content coding that is left on the body. None is asked
// for where it would not be undone.
func encodingNote(c *Capture) string {
	coding := strings.TrimSpace(c.Header.Get("Content-Encoding"))
	if coding == "" || strings.EqualFold(coding, "identity") {
		return ""
	}
	return fmt.Sprintf(" (the body is encoded as %q, which was not asked for)", shorten(coding, 40))
}

func withDetail(why string, c *Capture) string {
	if c.Detail == "" {
		return why
	}
	return why + ": " + c.Detail
}
