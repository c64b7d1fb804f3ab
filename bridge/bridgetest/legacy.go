package bridgetest

import (
	"net/http"
	"slices"
)

// streamable serves a request to the Streamable HTTP endpoint.
func (u *Upstream) streamable(d *delivery) {
	if !d.read() {
		return
	}
	switch d.r.Method {
	case http.MethodPost:
		if d.isModern() {
			d.modern()
			return
		}
		d.legacyPost()
	case http.MethodGet:
		d.legacyGet()
	case http.MethodDelete:
		d.legacyDelete()
	default:
		d.notAllowed()
	}
}

func (d *delivery) notAllowed() {
	d.w.Header().Set("Allow", "POST")
	d.text(http.StatusMethodNotAllowed, "method not allowed")
}

func (d *delivery) hasSessions() bool { return d.up.opts.Era == Both || d.up.opts.Era == Legacy }

// legacyPost serves one POST of a handshake revision.
func (d *delivery) legacyPost() {
	if d.injected() {
		return
	}
	if !accepts(d.r, "application/json") || !isStreamRequest(d.r) {
		d.refuse(http.StatusNotAcceptable, rpcErrorf(codeServer, "Not Acceptable: Client must accept both application/json and text/event-stream"))
		return
	}
	if v := d.r.Header.Get("MCP-Protocol-Version"); v != "" && !slices.Contains(d.up.opts.legacyVersions(), v) {
		d.refuse(http.StatusBadRequest, rpcErrorf(codeServer, "Bad Request: Unsupported protocol version: %s", v))
		return
	}
	if d.msg.Method == "initialize" && d.msg.isRequest() {
		d.initialize()
		return
	}
	if s := d.sessionOf(); s != nil {
		d.inSession(s)
	}
}

// sessionOf finds the session of the request, or answers that there is none.
func (d *delivery) sessionOf() *session {
	id := d.r.Header.Get("Mcp-Session-Id")
	if d.up.opts.Sessionless {
		return d.up.state.shared(d.r.Header.Get("MCP-Protocol-Version"))
	}
	if id == "" {
		d.refuse(http.StatusBadRequest, rpcErrorf(codeServer, "Bad Request: Mcp-Session-Id header is required"))
		return nil
	}
	s := d.up.state.session(id)
	if s == nil {
		d.unknownSession()
	}
	return s
}

// unknownSession: 404 by the specification (MCP 2025-11-25, transports,
// "Session Management"), other shapes by fault.
func (d *delivery) unknownSession() {
	switch status := d.up.state.unknownStatus(); status {
	case http.StatusBadRequest:
		d.refuse(status, rpcErrorf(codeServer, "Bad Request: No valid session ID provided"))
	case http.StatusServiceUnavailable:
		d.text(status, "service unavailable")
	default:
		d.refuse(status, rpcErrorf(-32001, "Session not found"))
	}
}

// initialize makes a session and answers with it.
func (d *delivery) initialize() {
	params := open(d.msg.Params)
	version := d.negotiate(params.string("protocolVersion"))
	s := d.up.state.add(version, params.open("capabilities"))
	if d.up.opts.Sessionless {
		d.up.state.forget(s)
	} else {
		d.w.Header().Set("Mcp-Session-Id", s.id)
	}
	c := d.call(s, newStream(d.up.state.streamID()), version)
	defer c.cancel(nil)
	c.out.push(c.reply(d.up.initializeResult(version), nil))
	d.answer(c.out, false)
}

func (d *delivery) negotiate(asked string) string {
	offered := d.up.opts.legacyVersions()
	if slices.Contains(offered, asked) {
		return asked
	}
	return offered[0]
}

func (u *Upstream) initializeResult(version string) object {
	o := object{"protocolVersion": version, "capabilities": u.capabilities(version), "serverInfo": u.serverInfo()}
	if u.opts.Instructions != "" {
		o["instructions"] = u.opts.Instructions
	}
	return o
}

// inSession serves a message of a session. Nothing but ping comes before
// notifications/initialized (MCP 2025-11-25, lifecycle, "Initialization").
func (d *delivery) inSession(s *session) {
	switch {
	case d.msg.isResponse():
		s.take(d.msg)
		d.body(http.StatusAccepted, "", nil)
	case !d.msg.isRequest():
		d.notified(s)
		d.body(http.StatusAccepted, "", nil)
	case !s.isReady() && d.msg.Method != "ping":
		d.refuse(http.StatusBadRequest, rpcErrorf(codeInvalidRequest, "the session is not initialized"))
	default:
		d.request(s)
	}
}

func (d *delivery) notified(s *session) {
	switch d.msg.Method {
	case "notifications/initialized":
		s.initialized()
	case "notifications/cancelled":
		s.cancel(open(d.msg.Params).fields["requestId"])
	}
}

// request serves a request on a stream of its own. The client may leave and
// come back: leaving cancels nothing.
func (d *delivery) request(s *session) {
	out := newStream(d.up.state.streamID())
	ids := !d.up.opts.NoEventIDs && !d.up.opts.Sessionless
	if ids {
		s.keep(out)
	}
	c := d.call(s, out, s.version)
	s.track(c, true)
	d.up.spawn(func() {
		defer s.track(c, false)
		c.run()
	})
	d.answer(out, ids)
	if out.lost() {
		s.forget(out.id)
	}
}

// legacyGet opens the stream of a session, or resumes one.
func (d *delivery) legacyGet() {
	if d.injected() {
		return
	}
	if !d.hasSessions() || d.up.opts.NoGETStream || d.up.opts.Sessionless {
		d.notAllowed()
		return
	}
	if !isStreamRequest(d.r) {
		d.text(http.StatusNotAcceptable, "Accept must list text/event-stream")
		return
	}
	s := d.sessionOf()
	if s == nil {
		return
	}
	out, from := s.get, s.get.length()
	if id := d.r.Header.Get("Last-Event-ID"); id != "" {
		if out, from = d.resume(s, id); out == nil {
			return
		}
	}
	d.held(out, from, !d.up.opts.NoEventIDs)
}

func (d *delivery) resume(s *session, id string) (*stream, int) {
	name, i, ok := parseEventID(id)
	out := s.stream(name)
	if d.up.opts.NoEventIDs || !ok || out == nil || out.lost() {
		d.text(http.StatusBadRequest, "Last-Event-ID is not known")
		return nil, 0
	}
	return out, i + 1
}

// held writes a long stream, and lets WaitListeners know of it.
func (d *delivery) held(out *stream, from int, ids bool) {
	out.attach(d)
	d.up.state.changed()
	defer d.up.state.changed()
	defer out.detach(d)
	d.events(out, from, ids)
}

// legacyDelete ends a session.
func (d *delivery) legacyDelete() {
	if d.injected() {
		return
	}
	if !d.hasSessions() || d.up.opts.Sessionless {
		d.notAllowed()
		return
	}
	if s := d.sessionOf(); s != nil {
		d.up.state.forget(s)
		d.body(http.StatusNoContent, "", nil)
	}
}

// shared returns a session for a client that has none of its own.
func (s *state) shared(version string) *session {
	if version == "" {
		version = "2025-03-26" // MCP 2025-11-25, transports, "Protocol Version Header"
	}
	n := &session{
		version: version, ready: true, least: "debug", get: newStream(s.streamID()),
		pending: map[string]chan message{}, streams: map[string]*stream{},
		inFlight: map[string]*Call{}, subscribed: map[string]bool{},
	}
	return n
}

// insteadOfEra lets the faults of sessions, handshake and discovery happen.
func (d *delivery) insteadOfEra(s strike) bool {
	switch s.name {
	case "session-lost", "session-400", "session-503":
		status := map[string]int{"session-lost": 404, "session-400": 400, "session-503": 503}[s.name]
		d.up.state.refuseUnknown(status)
		d.up.state.forgetSessions()
	case "get-405":
		d.notAllowed()
		return true
	case "no-get":
		d.text(http.StatusNotFound, "not found")
		return true
	case "get-200-text":
		d.text(http.StatusOK, "this server is alive")
		return true
	case "get-close-at-once":
		d.closeAtOnce(s.arg.(string))
		return true
	case "get-hang":
		d.hold()
		return true
	case "version-400":
		return d.tooNew(s.arg.(string))
	case "initialize-header-400":
		if d.r.Header.Get("MCP-Protocol-Version") != "" {
			d.text(http.StatusBadRequest, "unexpected header MCP-Protocol-Version")
			return true
		}
	case "discover":
		return d.oldDiscover(s.arg.(string))
	}
	return false
}

func (d *delivery) closeAtOnce(how string) {
	w := d.wire("text/event-stream")
	w.stream()
	switch how {
	case "comment":
		w.write([]byte(": nothing to say\n\n"))
	case "retry0":
		w.write([]byte("retry: 0\n\n"))
	}
}

// tooNew answers 400 in plain text to a revision newer than the newest known.
func (d *delivery) tooNew(newest string) bool {
	if newest == "" {
		newest = "2025-06-18"
	}
	params := open(d.msg.Params)
	for _, v := range []string{
		d.r.Header.Get("MCP-Protocol-Version"), params.string("protocolVersion"), params.open("_meta").string(metaVersion),
	} {
		if v > newest {
			d.text(http.StatusBadRequest, "Bad Request: Unsupported protocol version (supported versions: "+newest+", 2025-03-26, 2024-11-05)")
			return true
		}
	}
	return false
}

// oldDiscover answers the probe as servers do that never heard of it.
func (d *delivery) oldDiscover(kind string) bool {
	switch kind {
	case "-32601", "-32602", "-32600", "-32603", "-32000":
		code := map[string]int{
			"-32601": codeMethodNotFound, "-32602": codeInvalidParams, "-32600": codeInvalidRequest,
			"-32603": codeInternal, "-32000": codeServer,
		}[kind]
		d.refuse(http.StatusOK, rpcErrorf(code, "server/discover failed"))
	case "400-text":
		d.text(http.StatusBadRequest, "bad request")
	case "404", "405", "406", "500":
		status := map[string]int{"404": 404, "405": 405, "406": 406, "500": 500}[kind]
		d.text(status, http.StatusText(status))
	case "close":
		d.hangUp()
	case "silent":
		d.hold()
	}
	return true
}
