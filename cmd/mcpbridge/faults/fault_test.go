package faults

import (
	"fmt"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// A sight is what a fault looks like from where the bridge stands. It is all
// that the rules know of a fault, beside whether the tool has run.
type sight uint8

const (
	answer      sight = iota // a result, late or by detours
	unsent                   // no request left: nothing was written
	refusal                  // a status that is given before anything is executed
	credentials              // 401
	busy                     // 429
	sessionLost              // the server says that it does not know the session
	clientError              // another 4xx
	serverError              // 5xx, 408
	broken                   // the connection or the stream ended before the answer
	garbage                  // an answer that is none
	elsewhere                // a redirect that is not followed
	silence                  // nothing comes until the answer deadline
	atAccept                 // reset so early that it is open whether anything was written
)

// A fault is one row of the matrix: the facts about it.
type fault struct {
	name  string   // of its row
	short string   // as README names it; "" is name, "-" leaves it out where it says no more than another row
	specs []string // for bridgetest; none where set does it
	sight sight

	acts    bool // the tool runs before the fault strikes
	once    bool // only the first delivery is struck
	mends   bool // the bridge mends it in the background; a retry may come before that or after
	longAsk bool // Retry-After is longer than any host waits
	learnt  bool // the first call is redirected, a delivery that runs nothing, and the way is remembered
	unread  bool // the request is not read whole: the ledger has no delivery of the tool
	always  bool // the server is so from its start, and stays so

	legacyOnly bool // sessions, resumption
	set        func(*rig)
	unset      func(*rig)
	rig        rigKind
}

// A rigKind says what stands between the program and the server.
type rigKind uint8

const (
	direct  rigKind = iota
	door            // a listener that can be shut, before all replicas in turn
	tcp             // bridgetest.TCPProxy
	connect         // an HTTP proxy and TLS
)

func (f fault) eras() []bridgetest.Era {
	if f.legacyOnly {
		return []bridgetest.Era{bridgetest.Legacy}
	}
	return []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern}
}

func allFaults() []fault {
	var all []fault
	for _, list := range [][]fault{statuses(), afterEffect(), lies(), cuts(), streams(), silences(), sessions(), ways(), recoveries()} {
		all = append(all, list...)
	}
	return all
}

// statuses are refusals: nothing runs.
func statuses() []fault {
	sights := map[int]sight{
		400: clientError, 401: credentials, 403: refusal, 404: clientError, 405: refusal, 406: refusal, 408: serverError,
		413: refusal, 415: refusal, 425: clientError, 429: busy, 431: refusal,
		500: serverError, 502: serverError, 503: serverError, 504: serverError,
	}
	var all []fault
	for _, code := range []int{400, 401, 403, 404, 405, 406, 408, 413, 415, 425, 429, 431, 500, 502, 503, 504} {
		plain := fault{name: fmt.Sprintf("HTTP %d", code), specs: []string{fmt.Sprintf("status:%d", code)}, sight: sights[code]}
		later := plain
		later.name += ", Retry-After"
		later.short = "-"
		later.specs = []string{plain.specs[0] + ";retry-after=1"}
		all = append(all, plain, later)
	}
	return append(all,
		fault{name: "HTTP 429, Retry-After 1 h", specs: []string{"status:429;retry-after=3600"}, sight: busy, longAsk: true},
		fault{name: "HTTP 503, Retry-After 1 h", specs: []string{"status:503;retry-after=3600"}, sight: serverError, longAsk: true},
		fault{name: "HTTP 502 with a web page", specs: []string{"html:502"}, sight: serverError},
	)
}

// afterEffect are errors by status although the tool has run.
func afterEffect() []fault {
	var all []fault
	for _, code := range []int{400, 408, 500, 502, 503, 504} {
		f := fault{name: fmt.Sprintf("HTTP %d after the effect", code), specs: []string{fmt.Sprintf("status-after-effect:%d", code)}, sight: serverError, acts: true}
		if code == 400 {
			f.sight = clientError
		} else if code > 408 {
			f.short = "-"
		} else {
			f.short = "HTTP 408, 500, 502, 503, 504 after the effect"
		}
		all = append(all, f)
	}
	return all
}

// lies are replies that are none.
func lies() []fault {
	all := []fault{
		{name: "empty 200", specs: []string{"empty:200"}, sight: garbage},
		{name: "empty 202", specs: []string{"empty:202"}, sight: garbage},
		{name: "web page instead of a reply", specs: []string{"html:200"}, sight: garbage},
	}
	for _, lie := range []struct{ spec, name string }{
		{"malformed", "reply that is no JSON"},
		{"truncated-json", "reply that ends in the middle"},
		{"wrong-id", "reply to another id"},
		{"null-id", "reply to the id null"},
		{"no-id", "reply without id"},
		{"both", "result and error at once"},
		{"not-2.0", "reply of JSON-RPC 1.0"},
		{"duplicate-names", "two results under one name"},
		{"batch", "array instead of a reply"},
		{"bad-error", "error that is no object"},
		{"bad-content", "content that is no array"},
		{"bad-is-error", "isError that is no boolean"},
		{"unknown-result-type", "unknown resultType"},
	} {
		all = append(all, fault{name: lie.name, specs: []string{lie.spec}, sight: garbage, acts: true})
	}
	return all
}

// cuts end the connection.
func cuts() []fault {
	all := []fault{
		{name: "reset when accepted", sight: atAccept, unread: true, rig: tcp,
			set:   func(r *rig) { r.proxy.SetFault(bridgetest.ProxyFault{Refuse: true}); r.proxy.Drop() },
			unset: func(r *rig) { r.proxy.SetFault(bridgetest.ProxyFault{}) }},
		{name: "reset after the head was read", specs: []string{"cut-phase:head-read"}, sight: broken, unread: true},
		{name: "reset after the body was read", specs: []string{"cut-phase:body-read"}, sight: broken},
		{name: "reset before the effect", specs: []string{"cut-phase:before-effect"}, sight: broken},
		{name: "reset after the effect", specs: []string{"cut-phase:after-effect"}, sight: broken, acts: true},
		{name: "reset after the reply's headers", specs: []string{"cut-phase:after-headers"}, sight: broken, acts: true},
		{name: "reset after half the reply", specs: []string{"cut-phase:half-reply"}, sight: broken, acts: true},
		{name: "reply lost, connection closed", specs: []string{"lost-reply"}, sight: broken, acts: true},
	}
	short := "reset at any byte of the response"
	for _, n := range []int{0, 1, 9, 16, 40, 120, 180} {
		all = append(all, fault{
			name: fmt.Sprintf("reset at byte %d of the response", n), short: short,
			specs: []string{fmt.Sprintf("cut:%d", n)}, sight: broken, acts: true,
		})
		short = "-"
	}
	return all
}

// streams are event streams that break, and those that a session lets go on.
func streams() []fault {
	return []fault{
		{name: "stream ends before the reply", specs: []string{"stream-end"}, sight: broken, acts: true},
		{name: "stream reset before the reply", specs: []string{"stream-cut-after:0"}, sight: broken, acts: true},
		{name: "stream reset, then resumed", specs: []string{"priming-event", "stream-cut-after:0"}, sight: answer, acts: true, legacyOnly: true},
		{name: "stream ends, then resumed", specs: []string{"priming-event", "stream-end"}, sight: answer, acts: true, legacyOnly: true},
		{name: "body that cannot be decompressed", specs: []string{"bad-gzip:garbage"}, sight: broken, acts: true},
		{name: "reply in small pieces", specs: []string{"trickle:40/1ms"}, sight: answer, acts: true},
	}
}

// silences last until the host must have an answer.
func silences() []fault {
	return []fault{
		{name: "silence before the effect", specs: []string{"stall:before-effect"}, sight: silence},
		{name: "silence after the effect", specs: []string{"stall:after-effect"}, sight: silence, acts: true},
		{name: "silence after the reply's headers", specs: []string{"stall:after-headers"}, sight: silence, acts: true},
		{name: "silence after half the reply", specs: []string{"stall:half-reply"}, sight: silence, acts: true},
		{name: "half-open connection", sight: silence, unread: true, rig: tcp,
			set:   func(r *rig) { r.proxy.SetFault(bridgetest.ProxyFault{SwallowUp: true}) },
			unset: func(r *rig) { r.proxy.Drop(); r.proxy.SetFault(bridgetest.ProxyFault{}) }},
		{name: "reply swallowed by the network", sight: silence, acts: true, rig: tcp,
			set:   func(r *rig) { r.proxy.SetFault(bridgetest.ProxyFault{SwallowDn: true}) },
			unset: func(r *rig) { r.proxy.Drop(); r.proxy.SetFault(bridgetest.ProxyFault{}) }},
	}
}

// sessions are forgotten by the server.
func sessions() []fault {
	return []fault{
		{name: "session lost, HTTP 404", specs: []string{"session-lost@tools/callx1"}, sight: sessionLost, once: true, legacyOnly: true},
		{name: "session lost, HTTP 400", specs: []string{"session-400@tools/callx1"}, sight: sessionLost, once: true, legacyOnly: true},
		{name: "session lost, HTTP 503", specs: []string{"session-503@tools/callx1"}, sight: serverError, mends: true, legacyOnly: true},
	}
}

// ways are faults of the way to the server.
func ways() []fault {
	return []fault{
		{name: "redirect 307 on the same server", specs: []string{"redirect:307,/mcp/@tools/call"}, sight: answer, acts: true, learnt: true},
		{name: "redirect in a circle", specs: []string{"redirect:307,/mcp@tools/call"}, sight: elsewhere},
		{name: "redirect 302", specs: []string{"redirect:302,/mcp/@tools/call"}, sight: elsewhere},
		{name: "redirect to another server", specs: []string{"redirect-other-origin:307@tools/call"}, sight: elsewhere},
		{name: "connection refused", sight: unsent, unread: true, rig: door,
			set:   func(r *rig) { r.door.shut() },
			unset: func(r *rig) { r.door.unlock() }},
		{name: "proxy refuses the tunnel (403)", sight: unsent, unread: true, rig: connect,
			set:   func(r *rig) { r.tunnel.answer(403) },
			unset: func(r *rig) { r.tunnel.answer(200) }},
		{name: "proxy wants credentials (407)", sight: unsent, unread: true, rig: connect,
			set:   func(r *rig) { r.tunnel.answer(407) },
			unset: func(r *rig) { r.tunnel.answer(200) }},
	}
}

// recoveries strike the first delivery only.
func recoveries() []fault {
	return []fault{
		{name: "HTTP 429 once", specs: []string{"status:429x1"}, sight: busy, once: true},
		{name: "HTTP 503 once", specs: []string{"status:503x1"}, sight: serverError, once: true},
		{name: "reset after the effect, once", specs: []string{"cut-phase:after-effectx1"}, sight: broken, acts: true, once: true},
		{name: "reply lost, once", specs: []string{"lost-reply@tools/callx1"}, sight: broken, acts: true, once: true},
		{name: "idle connections closed at once", specs: []string{"close-idle:0s"}, sight: answer, acts: true, always: true},
	}
}
