package bridge

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// Bounds of gathering a list over its pages.
const (
	maxPages     = 1000
	maxListBytes = 64 << 20
	// maxTTL is the longest time for which a modern host may keep a gathered
	// list, in milliseconds.
	maxTTL = 60_000
	// pageTimeout bounds one page in the background.
	pageTimeout = 30 * time.Second
)

// gathered is a list over all its pages.
type gathered struct {
	items [][]byte // as upstream gave them
	more  []byte   // what else the last page says, JSON object; nil for nothing
	hints cacheHints
}

// gather fetches all pages of a list method.
func (l *link) gather(ctx context.Context, up upstream, p *profile, method string, key jsonrpc.Key) (gathered, *reply) {
	g := gathered{hints: cacheHints{ttlMs: maxTTL, scope: "public"}}
	var cursor []byte
	var size int
	seen := map[string]bool{}
	for {
		r := l.page(ctx, up, p, method, cursor)
		items, ok := splitList(&r.verdict.Reply, key)
		if r.verdict.Outcome != classify.Result || !ok {
			if r.verdict.Outcome == classify.Result {
				r.verdict.Outcome, r.verdict.Why = classify.InvalidEnvelope, fmt.Sprintf("the result of %s has no list", method)
			}
			r.done()
			return g, r
		}
		for _, item := range items {
			g.items = append(g.items, bytes.Clone(item))
			size += len(item)
		}
		g.hints = g.hints.narrow(readHints(&r.verdict.Reply))
		cursor = bytes.Clone(r.verdict.Reply.Field(jsonrpc.NextCursor))
		g.more = unknownMembers(r.verdict.Reply.Bytes(r.verdict.Reply.Result), "tools", "nextCursor", "resultType", "ttlMs", "cacheScope")
		r.done()
		if len(cursor) == 0 || cursor[0] != '"' {
			return g, nil
		}
		if bound := pageBound(len(seen)+1, size, seen[string(cursor)]); bound != "" {
			l.cfg.Log.Warn("a list of the server is served without its end", "method", method, "entries", len(g.items), "bound", bound)
			return g, nil
		}
		seen[string(cursor)] = true
	}
}

// pageBound names the bound that keeps the page after these from being fetched,
// "" for none.
func pageBound(pages, size int, repeated bool) string {
	switch {
	case repeated:
		return "the server gave one cursor twice"
	case size > maxListBytes:
		return fmt.Sprintf("%d bytes", maxListBytes)
	case pages >= maxPages:
		return fmt.Sprintf("%d pages", maxPages)
	}
	return ""
}

func splitList(m *jsonrpc.Message, key jsonrpc.Key) ([][]byte, bool) {
	list := m.Field(key)
	if len(list) == 0 || list[0] != '[' {
		return nil, false
	}
	items, err := jsonrpc.Elements(list)
	if err != nil {
		return nil, false
	}
	return slices.DeleteFunc(items, func(item []byte) bool { return len(item) == 0 || item[0] != '{' }), true
}

// page fetches one page in the bridge's own name.
func (l *link) page(ctx context.Context, up upstream, p *profile, method string, cursor []byte) *reply {
	raw := concat(`{"jsonrpc":"2.0","id":0,"method":`, quote(method), `,"params":{}}`)
	if len(cursor) > 0 {
		raw = concat(`{"jsonrpc":"2.0","id":0,"method":`, quote(method), `,"params":{"cursor":`, cursor, `}}`)
	}
	m, err := jsonrpc.Read(raw)
	if err != nil {
		return notConnected(&ending{byBridge, err.Error(), classify.Cut})
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pageTimeout, limitReached("the time for a page of "+method))
	defer cancel()
	own := p
	if up.era() == modernEra {
		own = p.asLegacy()
	}
	d := &delivery{own: true, msg: &m, method: method, id: l.newID(), profile: own, giveUp: time.Now().Add(pageTimeout)}
	r := l.deliverOwn(ctx, up, d, deaf{})
	if r.verdict.SessionLost {
		r.done()
		up.renew(d)
		if failed := up.prepare(ctx, p); failed != nil {
			return failed
		}
		d.id = l.newID()
		r = l.deliverOwn(ctx, up, d, deaf{})
	}
	l.heard(up, &r.verdict)
	return r
}
