package classify

import (
	"net/http"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// effect says what the verdict, complete apart from it, proves of side effects.
func effect(c *Capture, v *Verdict) Effect {
	switch {
	case v.Outcome == ToolSuccess || v.Outcome == ToolError:
		return Reported
	case c.Sent == NothingSent:
		return None
	case c.Status == 0:
		return Possible
	case isSuccess(c.Status):
		return effectOfError(c, v)
	case refusedUnread(c.Status):
		return None
	case v.SessionLost && (c.Status == http.StatusNotFound || c.Status == http.StatusBadRequest):
		return None
	case c.Status == http.StatusNotFound || c.Status == http.StatusBadRequest:
		return effectOfRefusal(v)
	}
	return Possible
}

// refusedUnread reports whether a status says that the request was refused
// before anything was executed.
func refusedUnread(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests,
		http.StatusRequestHeaderFieldsTooLarge:
		return true
	}
	return false
}

// effectOfRefusal judges a 400 or 404 by the JSON-RPC error in its body.
func effectOfRefusal(v *Verdict) Effect {
	if v.RPCError == nil {
		return Possible
	}
	switch v.RPCError.Code {
	case ParseError, InvalidRequest, MethodNotFound, InvalidParams, HeaderMismatch, MissingCapability, UnsupportedVersion:
		return None
	}
	return Possible
}

// effectOfError judges a JSON-RPC error that came with a status 2xx. Invalid
// params and a missing capability prove nothing there: SDKs raise them from
// inside a tool too. Nor does anything once an event of the delivery was seen,
// because then the server had begun to answer; an array may hold such events.
func effectOfError(c *Capture, v *Verdict) Effect {
	if v.Outcome != JSONRPCError || c.Events > 0 || jsonrpc.IsBatch(c.Body) {
		return Possible
	}
	switch v.RPCError.Code {
	case ParseError, InvalidRequest, MethodNotFound, HeaderMismatch, UnsupportedVersion:
		return None
	}
	return Possible
}
