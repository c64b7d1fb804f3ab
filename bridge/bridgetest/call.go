package bridgetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// A Call is one JSON-RPC request that is being served. Tools get it to read
// their arguments, to have effects and to speak to the client.
type Call struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	d       *delivery
	up      *Upstream
	session *session // nil on a modern request
	out     *stream
	version string

	id     json.RawMessage
	method string
	params member
	meta   member

	task    *task  // nil: the call is answered when the tool is done
	answers fields // of earlier and of this round of questions (modern)
	acted   bool
	pretty  bool
}

// Context ends when the upstream stops working on the call.
func (c *Call) Context() context.Context { return c.ctx }

// Modern reports whether the call is served without a session.
func (c *Call) Modern() bool { return c.session == nil }

// Version returns the revision that the call is served in.
func (c *Call) Version() string { return c.version }

// Arguments returns the tool's arguments as sent, nil if there are none.
func (c *Call) Arguments() json.RawMessage { return c.params.fields["arguments"] }

// Bind decodes the arguments into v; its error is one for the client.
func (c *Call) Bind(v any) error {
	raw := c.Arguments()
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return rpcErrorf(codeInvalidParams, "arguments: %v", err)
	}
	return nil
}

// Effect records that the tool did what it does, under the key.
func (c *Call) Effect(key string) {
	c.up.ledger.effect(c.d.entry, c.d.replica, c.d.tool, key)
	c.settled()
}

// settled lets faults of the phase after-effect happen, once.
func (c *Call) settled() {
	if !c.acted {
		c.acted = true
		c.d.breaksAt(phaseAfter)
	}
}

// Sleep waits; it fails when the call ends first.
func (c *Call) Sleep(t time.Duration) error { return wait(c.ctx, t) }

// Work waits as a server does that does not notice that nobody waits for it;
// it fails only when the upstream closes or restarts.
func (c *Call) Work(t time.Duration) error {
	return wait(c.up.epochOf(c), t)
}

// WantsProgress reports whether the client gave a progress token.
func (c *Call) WantsProgress() bool { return c.meta.has("progressToken") }

// Progress tells the client how far the call is, if it asked to know.
func (c *Call) Progress(done, total int, text string) {
	if !c.WantsProgress() {
		return
	}
	p := object{"progressToken": c.meta.fields["progressToken"], "progress": done, "total": total}
	if text != "" && c.version >= "2025-03-26" {
		p["message"] = text
	}
	c.notify("notifications/progress", p)
}

// levels are the log levels, lowest first (RFC 5424 as MCP names them).
func levels() []string {
	return []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

// Log sends a log message, if the client asked for the level. A modern client
// asks per request and gets none otherwise; a legacy one gets all until it asks.
func (c *Call) Log(level string, data any) {
	least := c.meta.string(metaLogLevel)
	if c.session != nil {
		least = c.session.level()
	} else if least == "" {
		return
	}
	if slices.Index(levels(), level) >= slices.Index(levels(), least) {
		c.notify("notifications/message", object{"level": level, "logger": "bridgetest", "data": data})
	}
}

func (c *Call) notify(method string, params any) {
	c.out.push(item{data: encodeNotification(method, params), named: "message"})
}

// Ask puts a question to the client and returns the result. name tells the
// questions of one call apart. On a modern call the error is to be returned from
// the tool as it is: it ends the round, and the tool runs again with the answer.
func (c *Call) Ask(name, method string, params any) (json.RawMessage, error) {
	if a, ok := c.answers[name]; ok {
		return a, nil
	}
	if err := c.mayAsk(method); err != nil {
		return nil, err
	}
	if c.task != nil {
		return c.askInTask(question{name, method, params})
	}
	if c.session != nil {
		return c.session.ask(c, method, params)
	}
	return nil, &question{name, method, params}
}

// mayAsk refuses questions that the client did not declare.
func (c *Call) mayAsk(method string) error {
	need := map[string]string{
		"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots",
	}[method]
	caps := c.meta.open(metaCapabilities)
	if c.session != nil {
		caps = c.session.capabilities()
	}
	if need == "" || caps.has(need) {
		return nil
	}
	if c.session != nil {
		return fmt.Errorf("client did not declare %s", need)
	}
	return &RPCError{
		Code: codeMissingCapability, Message: "client did not declare " + need, status: 400,
		Data: object{"requiredCapabilities": object{need: object{}}},
	}
}

// A question ends a round of a modern call.
type question struct {
	name   string
	method string
	params any
}

// Error says what is asked for.
func (q *question) Error() string { return "input required: " + q.method }

// Header returns a header of the HTTP request that carries the call.
func (c *Call) Header(name string) string { return c.d.r.Header.Get(name) }

// run serves the call and puts the reply on its stream.
func (c *Call) run() {
	defer c.cancel(nil)
	result, err := c.dispatch()
	c.settled()
	if c.ctx.Err() != nil && context.Cause(c.ctx) != errClientLeft {
		c.out.lose() // a cancelled request is not answered
		return
	}
	c.out.push(c.reply(result, err))
}

func (c *Call) reply(result any, err error) item {
	it := item{status: 200, final: true, named: "message"}
	if err != nil {
		e := asRPCError(err)
		if c.Modern() && e.status != 0 {
			it.status = e.status
		}
		it.data = c.d.twist(encodeError(c.id, e))
	} else {
		it.data = c.d.twist(encodeResult(c.id, c.decorate(result)))
	}
	if c.pretty {
		it.data = format{split: true}.lines(it.data)
	}
	if s, ok := c.d.strike("status-after-effect"); ok && c.out.id != c.sharedStream() {
		a := s.arg.(statuses)
		it.status = a.at(s.n)
		it.data = encode(object{"error": "the answer was lost on the way"})
	}
	return it
}

// sharedStream is the id of the stream that carries other replies as well.
func (c *Call) sharedStream() string {
	if c.session == nil {
		return ""
	}
	return c.session.get.id
}

func asRPCError(err error) *RPCError {
	if e, ok := err.(*RPCError); ok {
		return e
	}
	return rpcErrorf(codeInternal, "%v", err)
}

// epochOf returns the context that ends with the upstream or its epoch.
func (u *Upstream) epochOf(c *Call) context.Context {
	epoch, _ := c.ctx.Value(epochKey{}).(context.Context)
	if epoch == nil {
		return u.ctx
	}
	return epoch
}

type epochKey struct{}

// call makes a call of the request in d; it lives as long as the epoch.
func (d *delivery) call(s *session, out *stream, version string) *Call {
	epoch := d.up.lifetime()
	ctx, cancel := context.WithCancelCause(context.WithValue(epoch, epochKey{}, epoch))
	params := open(d.msg.Params)
	return &Call{
		ctx: ctx, cancel: cancel, d: d, up: d.up, session: s, out: out, version: version,
		id: d.msg.ID, method: d.msg.Method, params: params, meta: params.open("_meta"),
	}
}
