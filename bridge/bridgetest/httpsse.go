package bridgetest

import (
	"net/http"
	"strings"
)

// httpSSE serves the transport of 2024-11-05: a stream by GET /sse, messages by
// POST to the address that its first event names.
func (u *Upstream) httpSSE(d *delivery) {
	if !d.read() {
		return
	}
	onStream := strings.HasPrefix(d.r.URL.Path, "/sse")
	switch {
	case onStream && d.r.Method == http.MethodGet:
		d.openSSE()
	case !onStream && d.r.Method == http.MethodPost:
		d.postSSE()
	default:
		d.w.Header().Set("Allow", map[bool]string{true: "GET", false: "POST"}[onStream])
		d.text(http.StatusMethodNotAllowed, "method not allowed")
	}
}

// openSSE opens the stream of a new session. The endpoint is a relative
// reference, as most servers send it.
func (d *delivery) openSSE() {
	if d.injected() {
		return
	}
	s := d.up.state.add("", member{})
	defer d.up.state.forget(s)
	s.get.once = true
	s.get.push(item{named: "endpoint", data: []byte("/messages?sessionId=" + s.id)})
	d.held(s.get, 0, false)
}

// postSSE accepts a message; what it leads to goes out on the stream.
func (d *delivery) postSSE() {
	if d.injected() {
		return
	}
	s := d.up.state.session(d.r.URL.Query().Get("sessionId"))
	if s == nil {
		d.text(d.up.state.unknownStatus(), "unknown session")
		return
	}
	switch {
	case d.msg.isResponse():
		s.take(d.msg)
	case !d.msg.isRequest():
		d.notified(s)
	default:
		d.serveSSE(s)
	}
	d.accepted()
}

// accepted answers the POST. With status-after-effect it says that it failed,
// and the reply comes on the stream all the same.
func (d *delivery) accepted() {
	if s, ok := d.strike("status-after-effect"); ok {
		a := s.arg.(statuses)
		d.fail(a.at(s.n), a.retryAfter)
		return
	}
	if !d.broken.Load() {
		d.body(http.StatusAccepted, "text/plain", []byte("Accepted"))
	}
}

func (d *delivery) serveSSE(s *session) {
	c := d.call(s, newStream(""), "2024-11-05")
	// Replies of this transport are events like any other; none ends the stream.
	c.out = s.get
	s.track(c, true)
	d.up.spawn(func() {
		defer s.track(c, false)
		c.runSSE()
	})
}

// runSSE serves the call and puts the reply on the session's stream.
func (c *Call) runSSE() {
	defer c.cancel(nil)
	var result any
	var err error
	switch {
	case c.method == "initialize":
		c.session.setCapabilities(c.params.open("capabilities"))
		version := c.d.negotiate(c.params.string("protocolVersion"))
		result = c.up.initializeResult(version)
	case !c.session.isReady() && c.method != "ping":
		err = rpcErrorf(codeInvalidParams, "the session is not initialized")
	default:
		result, err = c.dispatch()
		c.settled()
	}
	if c.ctx.Err() != nil || c.d.has("lost-reply") {
		return
	}
	it := c.reply(result, err)
	it.final = false
	c.out.push(it)
}
