package bridge

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/retry"
)

// An upstream is the remote server in the dialect that it speaks. One deliver
// is one HTTP request on the wire that carries the message (redirects within
// the origin are counted in reply.hops).
//
// There are three: modern, legacy (Streamable HTTP with a handshake) and
// httpSSE (the transport of 2024-11-05).
type upstream interface {
	era() era
	// version is the MCP revision spoken with this upstream for p.
	version(p *profile) string
	// prepare makes sure that a delivery for p can be made at once: the
	// handshake of a legacy session. Its reply is nil when all is well, and
	// otherwise says why no request can leave.
	prepare(ctx context.Context, p *profile) *reply
	deliver(ctx context.Context, d *delivery, s sink) *reply
	// resume continues the answer to d from where r broke off.
	resume(ctx context.Context, d *delivery, r *reply, s sink) *reply
	// notify sends a notification of the host.
	notify(ctx context.Context, p *profile, m *jsonrpc.Message) error
	// cancel tells upstream that nobody waits for d any more, where closing
	// the answer's stream does not say it already.
	cancel(d *delivery, reason string)
	// renew makes a new session in place of the one that d used, once for all
	// that ask; an upstream without sessions has nothing to renew.
	renew(d *delivery)
	close(ctx context.Context)
}

// A shaker is an upstream that makes a handshake of its own for each profile.
type shaker interface {
	handshakeOf(p *profile) *handshake // nil while there is none
}

// A profile is what an upstream is told about the host: for a legacy host from
// its initialize, for a modern one from the _meta of each request.
type profile struct {
	era          era
	version      string // of the host
	clientInfo   []byte // JSON object
	name         string // in clientInfo
	capabilities []byte // JSON object
	key          string // what makes two profiles the same session and catalogue

	// Where era is legacy, what a modern server may ask of the host, without and
	// with the tasks extension: each request says it.
	questions      []byte
	questionsTasks []byte
}

// A delivery is one message on its way to the upstream.
type delivery struct {
	msg     *jsonrpc.Message // as the host wrote it, or ours
	method  string
	name    string // tool, prompt or URI
	tool    *tool  // of a tools/call, if it is known
	id      int64  // ours
	write   bool   // may have an effect: needs a connection that is surely alive
	profile *profile
	giveUp  time.Time // when this delivery is given up; zero: no limit
	level   string    // log level wanted of a modern upstream; ""
	token   bool      // ask for progress
	own     bool      // a request of the bridge's own
	tasks   bool      // a task may be the answer (2026-07-28 extension)
	task    []byte    // params.task for a 2025-11-25 upstream, nil for none
	trace   string    // traceparent to send when the message has none

	session *session    // the legacy session it went out on
	stream  *sseSession // the same on HTTP+SSE
}

// A sink receives what comes before the reply.
type sink interface {
	// notification gets a notification of the answer's own stream.
	notification(m *jsonrpc.Message)
	// request gets a request of the server; its answer is posted by respond.
	request(m *jsonrpc.Message, respond func(result, rpcError []byte))
}

// A reply is all that came back of one delivery.
type reply struct {
	expect  classify.Expectation
	capture classify.Capture
	verdict classify.Verdict // set by judge

	hops          int // redirects followed, each a further delivery
	contentType   string
	challenge     string // WWW-Authenticate, all of it
	use           auth.Use
	decision      auth.Decision // about the refusal, if the answer is one
	lastEvent     string        // id of the last event; resumable if not empty
	pause         time.Duration
	local         bool // refused here: the request cannot be sent as it is
	moot          bool // had no effect, after a delivery that may have had; set by weigh
	tooLarge      bool
	strays        int64  // replies on its stream to other requests
	taskCancelled bool   // an upstream task reported that it was cancelled
	anyID         bool   // the id that was sent is not known: the one response is the reply
	connecting    string // what failed before the request itself could leave
	spoken        bool   // of a failed session: the server was heard to speak HTTP+SSE
	endedBy       string

	finish func()   // drains and closes; nil when nothing is left to do
	kept   []func() // give back the memory that its bytes take
}

// done gives back what the reply still holds. The verdict stays, without the
// reply's bytes if they took room.
func (r *reply) done() {
	if r.finish != nil {
		r.finish()
		r.finish = nil
	}
	if len(r.kept) > 0 {
		r.letGo()
	}
}

func (r *reply) letGo() {
	if e := r.verdict.RPCError; e != nil {
		own := *e
		own.Data = bytes.Clone(e.Data)
		r.verdict.RPCError = &own
	}
	r.verdict.Reply = jsonrpc.Message{}
	r.capture.Body, r.capture.Replies, r.capture.Broken = nil, nil, nil
	for _, release := range r.kept {
		release()
	}
	r.kept = nil
}

// keep lets done call release, if that is not nil.
func (r *reply) keep(release func()) {
	if release != nil {
		r.kept = append(r.kept, sync.OnceFunc(release)) // a reply may be copied
	}
}

// share returns a release for somebody else who needs the bytes of r: they are
// given back when both are done with them. It is nil where there is nothing to
// give back.
func (r *reply) share() (release func()) {
	if len(r.kept) == 0 {
		return nil
	}
	release = after(2, all(r.kept))
	r.kept = []func(){release}
	return release
}

// judge sets the verdict of a reply.
func (r *reply) judge() {
	r.verdict = classify.Reply(r.expect, r.capture)
	if r.connecting != "" {
		r.neverLeft(r.connecting)
	}
}

// neverLeft makes of r the reply of a request that never left, because of what
// had to come first: that proves that there was no effect.
func (r *reply) neverLeft(what string) {
	r.connecting = what
	v := &r.verdict
	v.Why = what + ": " + v.Why
	v.Layer, v.Outcome, v.Effect = classify.Transport, classify.Unreachable, classify.None
	v.SessionLost, v.Reply = false, jsonrpc.Message{}
}

// expectation says what the answer to d must look like.
func (d *delivery) expectation(version string) classify.Expectation {
	return classify.Expectation{Method: d.method, ID: idJSON(d.id), Protocol: version}
}

func header(pairs ...string) http.Header {
	h := make(http.Header, len(pairs)/2+8)
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = pairs[i+1 : i+2 : i+2] // one allocation for all
	}
	return h
}

func isWrite(c retry.Class) bool {
	return c == retry.Write || c == retry.PresumedRead || c == retry.Idempotent
}
