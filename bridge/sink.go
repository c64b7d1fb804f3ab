package bridge

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strconv"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// This file is the exchange as a sink: what comes before the reply.

// A progressMark remembers the last progress told, since values may neither
// fall nor repeat (2026-07-28, progress, "Behavior Requirements").
type progressMark struct {
	last float64
	told bool
}

// notification passes on what belongs to this request and fits the host's era.
func (x *exchange) notification(m *jsonrpc.Message) {
	switch m.Method {
	case "notifications/progress":
		x.passProgress(m)
	case "notifications/message":
		x.passLog(m)
	case "notifications/cancelled":
		x.bridge.withdrawn(m)
	default:
		x.passOther(m)
	}
}

// passProgress gives upstream's progress to a host that asked for it, under
// the host's own token.
func (x *exchange) passProgress(m *jsonrpc.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	token, ok := jsonrpc.Integer(m.Field(jsonrpc.ProgressToken))
	if !ok || token != x.upstreamID {
		return
	}
	x.reported = true
	value, err := strconv.ParseFloat(string(m.Field(jsonrpc.Progress)), 64)
	if err != nil || math.IsNaN(value) || x.progress.told && value <= x.progress.last {
		return
	}
	x.progress = progressMark{value, true}
	if x.job.handle != "" {
		x.bridge.keeper.journal.Note(x.job.handle, jobs.Note{Progress: readProgress(m, value)})
	}
	if (!x.closed || x.tasked) && len(x.hostToken) > 0 {
		x.host.out.Notify(x.progressKey(), retoken(m, x.hostToken, x.relatedLocked()...)...)
	}
}

// relatedLocked names the task in a notification about a call that was answered
// with one: 2025-11-25, tasks, "Related Task Metadata". x.mu is held.
func (x *exchange) relatedLocked() []member {
	if !x.tasked {
		return nil
	}
	return []member{{metaRelated, concat(`{"taskId":`, quote(string(x.job.handle)), `}`)}}
}

// progressKey lets newer progress of this request take the place of older where
// the host does not read: the bytes of its token.
func (x *exchange) progressKey() string { return string(x.hostToken) }

// readProgress is a progress notification as a job keeps it.
func readProgress(m *jsonrpc.Message, value float64) *jobs.Progress {
	p := &jobs.Progress{Progress: value}
	params := m.Bytes(m.Params)
	if total, err := strconv.ParseFloat(string(jsonrpc.Get(params, "total")), 64); err == nil {
		p.Total = total
	}
	p.Message, _ = jsonrpc.String(m.Field(jsonrpc.Text))
	return p
}

// passLog gives a log message to a host that wants it: a legacy host always
// (the level was set upstream), a modern one if this request asked for it.
func (x *exchange) passLog(m *jsonrpc.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	if x.profile.era == modernEra && !x.atLevel(m) || x.profile.era == legacyEra && !x.host.hears(m) {
		return
	}
	x.host.out.Notify("", m.Raw)
}

// hears reports whether a log message reaches the level that a legacy host set,
// also where its server has not been told of it yet.
func (h *host) hears(m *jsonrpc.Message) bool {
	least, set := levelRank(h.wantedLevel())
	name, _ := jsonrpc.String(m.Field(jsonrpc.Level))
	rank, known := levelRank(name)
	return !set || !known || rank >= least
}

// atLevel reports whether a log message reaches the level of this request. A
// modern upstream has filtered already.
func (x *exchange) atLevel(m *jsonrpc.Message) bool {
	wanted, asked := levelRank(x.level)
	name, _ := jsonrpc.String(m.Field(jsonrpc.Level))
	rank, known := levelRank(name)
	return asked && (x.pair.upstream == modernEra || known && rank >= wanted)
}

// passOther passes what the bridge does not know between peers of one era.
// Across eras it is dropped, and counted.
func (x *exchange) passOther(m *jsonrpc.Message) {
	x.mu.Lock()
	same, closed := x.pair.host == x.pair.upstream, x.closed
	x.mu.Unlock()
	switch {
	case x.pair.upstream == legacyEra && isFeedNotice(m.Method):
		x.bridge.notification(m) // some servers say it on any stream
	case same && !closed:
		x.host.out.Notify("", m.Raw)
	default:
		x.bridge.dropped.Add(1)
	}
}

// isFeedNotice reports whether a notification is about the server, not about a
// request.
func isFeedNotice(method string) bool {
	switch method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated":
		return true
	}
	return false
}

// standing reports whether a question to the host is open: silence then says
// nothing about the network.
func (x *exchange) standing() bool {
	x.mu.Lock()
	c := x.clock
	x.mu.Unlock()
	return c != nil && c.stands()
}

// request takes a question that a legacy server put on the answer's stream.
func (x *exchange) request(m *jsonrpc.Message, respond func(result, rpcError []byte)) {
	if respond == nil {
		// 2026-07-28, Streamable HTTP, "Receiving Messages": a modern server
		// must not send requests; there is no way to answer one.
		x.bridge.cfg.Log.Warn("a request of the server on a modern stream was ignored", "method", m.Method)
		return
	}
	params := x.fitQuestion(m.Method, unrelated(m.Bytes(m.Params)))
	if !x.askable() || !x.profile.accepts(m.Method, params) {
		x.bridge.answerQuestion(x.ctx, x.clock, &x.asking, x.profile, m, respond)
		return
	}
	method, size := m.Method, len(m.Raw)
	if !x.bridge.mayAsk(&x.asking, m) {
		respond(x.bridge.defaultAnswer(method))
		return
	}
	params = bytes.Clone(params) // m is gone when the host answers
	ctx, done := x.bridge.askedUnder(x.ctx, m.Bytes(m.ID))
	asking := x.host.spawn(func() {
		defer x.bridge.asked(&x.asking, size)
		defer done()
		result, rpcError, err := x.askRound(ctx, method, params)
		switch {
		case errors.Is(context.Cause(ctx), errWithdrawn):
			return // the server does not want to know any more
		case err != nil:
			result, rpcError = x.bridge.defaultAnswer(method)
		}
		respond(x.olderAnswer(method, result), rpcError)
	})
	if !asking { // the bridge leaves, and this exchange with it
		done()
		x.bridge.asked(&x.asking, size)
	}
}

// mayAsk reports whether the server may have one more question open where q
// counts them, and whether there is room for it. What is more is answered at
// once, as if nobody could be asked.
func (b *Bridge) mayAsk(q *quota, m *jsonrpc.Message) bool {
	turned := q.take(maxQuestions)
	if turned > 0 {
		if isNews(turned) {
			b.cfg.Log.Warn("the server asks too much at once: not every question is put to the host", "method", m.Method, "open", maxQuestions, "not put", turned)
		}
		return false
	}
	if !b.holds(len(m.Raw)) {
		q.give()
		b.cfg.Log.Warn("a question of the server was not put: there is no room for it; --max-memory sets it", "method", m.Method, "bytes", len(m.Raw))
		return false
	}
	return true
}

// asked ends a question of so many bytes that mayAsk let in.
func (b *Bridge) asked(q *quota, size int) {
	q.give()
	b.lets(size)
}

// askable reports whether a question may come with the answer to this request:
// 2026-07-28, mrtr, "Supported Requests". Older hosts can be asked at any time.
func (x *exchange) askable() bool {
	return x.profile.era == legacyEra || x.method == "tools/call" || x.method == "prompts/get" || x.method == "resources/read"
}

// unrelated takes the server's own task out of the params of a question: the
// host knows it under another id, or not at all.
func unrelated(params []byte) []byte {
	if len(params) == 0 || params[0] != '{' {
		return params
	}
	meta := jsonrpc.Get(params, "_meta")
	if !hasMember(meta, metaRelated) {
		return params
	}
	return jsonrpc.With(params, "_meta", jsonrpc.Without(meta, metaRelated))
}

// answerQuestion answers a request of a legacy server: by a legacy host where
// it declared the kind, or the bridge does not know it, else at once.
func (b *Bridge) answerQuestion(ctx context.Context, c *clock, q *quota, p *profile, m *jsonrpc.Message, respond func(result, rpcError []byte)) {
	method, params, size := m.Method, m.Bytes(m.Params), len(m.Raw)
	if _, known := questionKind(method); method == "ping" || p.era != legacyEra || known && !p.accepts(method, params) || !b.mayAsk(q, m) {
		respond(b.defaultAnswer(method))
		return
	}
	params = bytes.Clone(params)
	ctx, done := b.askedUnder(ctx, m.Bytes(m.ID))
	asking := b.host.spawn(func() {
		defer b.asked(q, size)
		defer done()
		if c != nil {
			c.stand()
			defer c.resume()
		}
		result, rpcError, err := b.host.Ask(ctx, method, params)
		switch {
		case errors.Is(context.Cause(ctx), errWithdrawn):
			return
		case err != nil:
			result, rpcError = b.defaultAnswer(method)
		}
		respond(result, rpcError)
	})
	if !asking {
		done()
		b.asked(q, size)
	}
}

// questionKind is the client capability that a server's request needs; unknown
// methods pass between peers of the same era.
func questionKind(method string) (capability string, known bool) {
	switch method {
	case "elicitation/create":
		return "elicitation", true
	case "sampling/createMessage":
		return "sampling", true
	case "roots/list":
		return "roots", true
	}
	return "", false
}

// defaultAnswer is what a server gets for a question that nobody can be asked:
// for roots, what a host said last.
func (b *Bridge) defaultAnswer(method string) (result, rpcError []byte) {
	if roots := b.desk.lastRoots(); method == "roots/list" && roots != nil {
		return roots, nil
	}
	return defaultAnswer(method)
}

// defaultAnswer is what a server gets for a question that nobody can be asked.
func defaultAnswer(method string) (result, rpcError []byte) {
	switch method {
	case "ping":
		return []byte("{}"), nil
	case "elicitation/create":
		return []byte(`{"action":"cancel"}`), nil
	}
	return nil, []byte(`{"code":-32601,"message":"this client does not answer such requests"}`)
}
