package bridge

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/bridge/wire"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// Limits of reopening a legacy session's GET stream. The pauses 1, 2, 4 ... s
// make at most six requests in the first minute.
const (
	firstPause = time.Second
	maxPause   = 2 * time.Minute
)

// listen keeps the optional GET stream of s open: 2025-11-25, transports,
// "Listening for Messages from the Server". It returns at once where nothing
// could come over it, when the server has none, and when the session ends.
func (u *legacy) listen(s *session) {
	if !mayNotify(s) {
		return
	}
	ctx, cancel := context.WithCancel(context.WithValue(u.life, noIdleLimit{}, true))
	u.mu.Lock()
	s.cancel = cancel
	closed := u.closed || u.sessions[s.profile.key] != s
	u.mu.Unlock()
	defer cancel()
	if closed {
		return
	}
	var last string
	pause := firstPause
	stood := false // the stream, at least once
	for again := false; ctx.Err() == nil; again = true {
		signedIn := u.endpoint.access.changes()
		stream, stop := u.endpoint.sleepers.untilWake(ctx)
		stream, end := u.whileNeeded(stream, s)
		r := u.get(stream, s, last, &noticeSink{sessionSink{u.feed, u, s}, again})
		r.done()
		nextUse := end()
		stop()
		if r.lastEvent != "" {
			last = r.lastEvent
		}
		if nextUse != nil {
			select {
			case <-nextUse:
				pause = firstPause
				continue
			case <-ctx.Done():
				return
			}
		}
		if r.capture.Status == http.StatusUnauthorized && r.decision.Action == auth.SignIn {
			if !u.endpoint.access.wait(ctx, signedIn, maxPause) {
				return
			}
			continue
		}
		if r.capture.Status == http.StatusNotFound && s.id != "" && stood {
			// 2025-11-25, transports, "Session Management": the session is gone.
			// To a first GET, 404 may as well mean that there is no such stream.
			u.renew(&delivery{profile: s.profile, session: s})
			return
		}
		if r.capture.Status != 0 && (r.capture.Status/100 != 2 || !r.isStream()) && !transientStatus(r.capture.Status) {
			return // no such stream here: 405, a page, a list of links
		}
		stood = stood || r.capture.Status/100 == 2
		if r.capture.Events > 0 {
			pause = firstPause // only a stream that carried something counts as healthy
		}
		if !wait(ctx, max(pause, min(r.pause, maxPause))) {
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// A noticeSink is the sink of a GET stream. When a stream is open again after
// one that broke, messages may have been lost.
type noticeSink struct {
	sessionSink
	again bool
}

func (s *noticeSink) opened() {
	if s.again {
		s.upstream.feed.gap(s.session.profile)
	}
}

// mayNotify reports whether the server could have anything to say by itself.
func mayNotify(s *session) bool {
	if s.id != "" || len(jsonrpc.Get(s.handshake.Capabilities, "logging")) > 0 {
		return true
	}
	for _, name := range []string{"tools", "prompts", "resources"} {
		c := jsonrpc.Get(s.handshake.Capabilities, name)
		if len(c) > 0 && c[0] == '{' && (truthy(jsonrpc.Get(c, "listChanged")) || truthy(jsonrpc.Get(c, "subscribe"))) {
			return true
		}
	}
	return false
}

// truthy reads a capability leniently: true and any object declare it.
func truthy(value []byte) bool {
	return len(value) > 0 && string(value) != "false" && string(value) != "null"
}

func transientStatus(status int) bool {
	return status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
}

// get opens a stream by GET, from the event after last if that is not empty.
func (u *legacy) get(ctx context.Context, s *session, last string, out sink) *reply {
	h := s.headers(acceptSSE)
	delete(h, hdrContentType)
	if last != "" {
		h[hdrLastEvent] = []string{last}
	}
	return u.endpoint.sendOwn(ctx, &wire.Request{Method: http.MethodGet, Header: h}, classify.Expectation{Protocol: s.handshake.Version}, out)
}

// resume goes on with the answer to d by GET and Last-Event-ID: 2025-11-25,
// transports, "Resumability and Redelivery". It ends with the terminal reply,
// when the server refuses, or with the context.
func (u *legacy) resume(ctx context.Context, d *delivery, broken *reply, out sink) *reply {
	defer d.session.use()()
	last, pause := broken.lastEvent, broken.pause
	idle := firstPause / 2
	for {
		if !wait(ctx, max(min(pause, maxPause), idle)) {
			broken.interrupted(ctx)
			return broken
		}
		h := d.session.headers(acceptSSE)
		delete(h, hdrContentType)
		h[hdrLastEvent] = []string{last}
		r := u.endpoint.collect(ctx, &wire.Request{Method: http.MethodGet, Header: h}, &reply{expect: broken.expect, anyID: broken.anyID}, &sessionSink{out, u, d.session})
		// The request was sent by the first delivery, whatever became of this one.
		r.capture.Sent = classify.MaybeSent
		r.capture.Events += broken.capture.Events
		status := r.capture.Status
		switch {
		case r.tooLarge:
			return r // it would be as large again
		case status/100 == 2 && r.isStream():
			if n := len(r.capture.Replies); n > 0 && r.matches(&r.capture.Replies[n-1]) {
				return r
			}
		case u.endpoint.access.mended(ctx, r):
			// Asked for once more with what is presented now.
		case status != 0 && !transientStatus(status):
			r.done()
			broken.lastEvent = "" // refused: nothing left to resume
			return broken
		}
		r.done()
		idle = min(2*idle, maxPause/4)
		if r.lastEvent != "" && r.lastEvent != last {
			last, idle = r.lastEvent, firstPause/2
		}
		if r.pause > 0 {
			pause = r.pause
		}
	}
}

// resumeElsewhere collects the rest of an answer whose request another process
// made: its session, its event id, and a reply to an id that only that process
// knew. The one response on the stream is the reply.
func (u *legacy) resumeElsewhere(ctx context.Context, from jobs.Resumption, out sink) *reply {
	s := &session{profile: legacyProfile(from.Protocol, nil, nil), id: from.Session, handshake: handshake{Version: from.Protocol}}
	d := &delivery{method: "tools/call", session: s}
	broken := &reply{lastEvent: from.EventID, anyID: true, endedBy: byNetwork,
		expect: classify.Expectation{Method: "tools/call", ID: []byte("null"), Protocol: from.Protocol, Session: true}} // a request, whatever its id was
	broken.capture.Status, broken.capture.Header = http.StatusOK, header(hdrContentType, acceptSSE)
	return u.resume(ctx, d, broken, out)
}

// wait waits for about d, spread by up to a quarter, or until ctx ends.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d + rand.N(d/4+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
