package classify

import "testing"

func TestNamesLostSession(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Session not found", "session not found: 4f3a-22b1", "Bad Request: No valid session ID provided",
		"Bad Request: Missing session ID", "Missing or invalid Mcp-Session-Id", "Bad Request: Mcp-Session-Id header is required",
		"Unknown session", "Invalid session", "invalid_session", `{"error":"sessionId is missing"}`, "Session has been terminated",
		"Session expired", "The session is no longer valid", "Session ID: 7f3a4c not found", "session abc123 does not exist",
		"session id abcdef was not found", "Session not initialized", "no such session", "session closed",
		"<h1>Error</h1><p>Your session has expired.</p>", "SESSION_NOT_FOUND", "this session doesn't exist", "session 'a1' is unknown",
		"Server says: could not continue; session 5e0c55a0-3b1f-4d52-9a71-0d6f5e3f0a11 is not active",
	} {
		if !namesLostSession(text) {
			t.Errorf("%q is not recognised", text)
		}
	}
	for _, text := range []string{
		"", "session", "Invalid arguments: sessionType must be a string", "Invalid arguments: session must be a string",
		"Unknown tool: create_session", "session started", "Too many sessions", "name not found in session list",
		"missing argument, see session docs", "The session limit is reached", "obsession not found", "Bad request",
		"session timeout value is invalid",
	} {
		if namesLostSession(text) {
			t.Errorf("%q is taken for a lost session", text)
		}
	}
}

func TestSessionLost(t *testing.T) {
	t.Parallel()
	gone := []byte("Session not found")
	for _, c := range []struct {
		why     string
		capture Capture
		session bool
		want    bool
		effect  Effect
	}{
		{"404", Capture{Status: 404}, true, true, None},
		{"404 without a session", Capture{Status: 404}, false, false, Possible},
		{"404, unknown method", Capture{Status: 404, Body: []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Session not found"}}`)}, true, false, None},
		{"400 that names it", Capture{Status: 400, Body: gone}, true, true, None},
		{"400 that does not", Capture{Status: 400, Body: []byte("bad arguments")}, true, false, Possible},
		{"403 that names it", Capture{Status: 403, Body: gone}, true, true, None},
		{"503 that names it", Capture{Status: 503, Body: gone}, true, true, Possible},
		{"500 that names it", Capture{Status: 500, Body: gone}, true, false, Possible},
		{"an error of an SDK", Capture{Status: 200, Body: []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Session not found"}}`)}, true, true, Possible},
		{"an error of a tool", Capture{Status: 200, Body: []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Session not found"}}`)}, true, false, Possible},
		{"a result that speaks of it", Capture{Status: 200, Body: []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"Session not found"}],"isError":true}}`)}, true, false, Reported},
		{"nothing was sent", Capture{Status: 404, Sent: NothingSent}, true, false, None},
	} {
		c.capture.Ended = Complete
		v := Reply(Expectation{Method: "tools/call", ID: []byte("1"), Protocol: "2025-11-25", Session: c.session}, c.capture)
		if v.SessionLost != c.want || v.Effect != c.effect {
			t.Errorf("%s: lost %v, effect %v", c.why, v.SessionLost, v.Effect)
		}
	}
}
