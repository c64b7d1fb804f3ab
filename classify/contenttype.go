package classify

import (
	"mime"
	"net/http"
	"strings"
)

// isEventStream reports whether the content type is text/event-stream, in any
// case and with any parameters, malformed ones too.
func isEventStream(h http.Header) bool {
	value := h.Get("Content-Type")
	if value == "application/json" { // most are, and parsing allocates
		return false
	}
	kind, _, err := mime.ParseMediaType(value)
	if err != nil {
		kind, _, _ = strings.Cut(value, ";")
	}
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}
