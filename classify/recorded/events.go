package recorded

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/classify/sse"
)

// maxBroken is how many events that are no messages a capture keeps.
const maxBroken = 8

func isEventStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

// addEvents reads an event stream into the capture. Events without data and of
// types that MCP does not use are no messages.
func addEvents(c *classify.Capture, body []byte) {
	events := sse.NewReader(bytes.NewReader(body), len(body)+1)
	for {
		event, err := events.Next()
		if err != nil {
			return
		}
		if len(event.Data) > 0 && (event.Type == "" || event.Type == "message") {
			addEvent(c, event)
		}
	}
}

func addEvent(c *classify.Capture, event sse.Event) {
	m, err := jsonrpc.Read(event.Data)
	if event.Unfinished && (err != nil || m.Kind != jsonrpc.Response || anonymous(&m)) {
		return // without its blank line an event counts only as a whole reply
	}
	c.Events++
	switch {
	case err == nil && m.Kind == jsonrpc.Response:
		c.Replies = append(c.Replies, m)
	case err != nil && len(c.Broken) < maxBroken:
		c.Broken = append(c.Broken, classify.Event{Data: event.Data, Err: err})
	}
}

// anonymous reports whether a response names no request.
func anonymous(m *jsonrpc.Message) bool {
	id := m.Bytes(m.ID)
	return id == nil || string(id) == "null"
}
