package bridge

import (
	"context"
	"maps"
	"slices"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// levels lowers the log level of legacy sessions to what a modern host's
// requests ask for one by one. A level is never raised again: what nobody asked
// for is dropped on its way to the host.
type levels struct {
	turn chan struct{}  // holds one token: one logging/setLevel at a time
	set  map[string]int // rank by profile key; for whoever holds the token
}

func newLevels() *levels {
	l := &levels{turn: make(chan struct{}, 1), set: map[string]int{}}
	l.turn <- struct{}{}
	return l
}

// lowerLevel sees to it that up sends what this request wants to hear of. A
// failure costs log messages and nothing else.
func (x *exchange) lowerLevel(up upstream) {
	wanted, asked := levelRank(x.level)
	if !asked || x.profile.era != modernEra || up.era() != legacyEra || !x.mayLog() {
		return
	}
	levels := x.bridge.levels
	select {
	case <-levels.turn:
	case <-x.ctx.Done():
		return
	}
	defer func() { levels.turn <- struct{}{} }()
	if rank, is := levels.set[x.profile.key]; is && rank <= wanted {
		return
	}
	if x.setUpstreamLevel(up) {
		levels.set[x.profile.key] = wanted
	}
}

// mayLog reports whether the server declares logging, as far as is known.
func (x *exchange) mayLog() bool {
	h := x.bridge.offers.knownHandshake(x.profile)
	return h == nil || len(jsonrpc.Get(h.Capabilities, "logging")) > 0
}

// setUpstreamLevel reports whether the server has answered, be it by an error.
func (x *exchange) setUpstreamLevel(up upstream) bool {
	m, err := jsonrpc.Read(concat(`{"jsonrpc":"2.0","id":0,"method":"logging/setLevel","params":{"level":`, quote(x.level), `}}`))
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(x.ctx, noticeTimeout)
	defer cancel()
	r := up.deliver(ctx, &delivery{own: true, msg: &m, method: m.Method, id: x.bridge.link.newID(), profile: x.profile}, deaf{})
	r.judge()
	defer r.done()
	if r.verdict.Outcome != classify.Result {
		x.bridge.cfg.Log.Warn("the log level could not be set", "level", x.level, "error", r.verdict.Why)
	}
	return r.verdict.Outcome == classify.Result || r.verdict.Outcome == classify.JSONRPCError
}

// passLog passes a log message that came outside the answer to a request: to a
// legacy host, and once to a modern one if an open request of it asked.
func (b *Bridge) passLog(m *jsonrpc.Message) {
	if b.wantsLog(m) {
		b.host.out.Notify("", m.Raw)
		return
	}
	if b.host.hears(m) {
		b.host.tell(m.Raw)
	}
}

// wantsLog reports whether an open request of a modern host asked for m.
func (b *Bridge) wantsLog(m *jsonrpc.Message) bool {
	b.mu.Lock()
	open := slices.Collect(maps.Values(b.active))
	b.mu.Unlock()
	return slices.ContainsFunc(open, func(x *exchange) bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return !x.closed && x.profile.era == modernEra && x.atLevel(m)
	})
}
