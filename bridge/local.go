package bridge

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/stdio"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// This file is what the bridge answers by itself.

// Limits of waiting for an upstream that is not known yet: hosts give a server
// little time (Codex 1.0 s for initialize and tools/list together).
const (
	handshakeWait = 600 * time.Millisecond
	listWait      = 4500 * time.Millisecond
)

// answerLocally answers x where no delivery is needed.
func (x *exchange) answerLocally() bool {
	if x.bridge.cfg.Broken != nil && !x.answeredWhenBroken() {
		return x.bridge.broken(x)
	}
	switch x.method {
	case "ping":
		x.ping()
	case "initialize":
		x.initialize()
	case "server/discover":
		x.discover()
	case "tools/list":
		x.listTools()
	case "tools/call":
		return x.callOurs()
	case "subscriptions/listen":
		if x.profile.era != modernEra {
			return false
		}
		x.bridge.listens.serve(x)
	case "tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/list":
		return x.answerTasks()
	case "logging/setLevel":
		return x.setLevel()
	case "resources/subscribe", "resources/unsubscribe":
		return x.subscribe()
	case "prompts/list", "resources/list", "resources/templates/list", "completion/complete":
		return x.answerEmpty()
	default:
		return false
	}
	return true
}

// answeredWhenBroken names what a bridge answers whose configuration cannot
// work: enough to be listed with the tool that explains it.
func (x *exchange) answeredWhenBroken() bool {
	switch x.method {
	case "ping", "initialize", "server/discover", "tools/list", "tools/call":
		return true
	}
	return emptyFor(x.method)
}

// answerResult answers with a result of ours, made to fit the host's era.
func (x *exchange) answerResult(result []byte) {
	if x.profile != nil && x.profile.era == modernEra {
		result = jsonrpc.With(result, "resultType", []byte(`"complete"`))
		if cacheable(x.method) && len(jsonrpc.Get(result, "ttlMs")) == 0 {
			result = jsonrpc.With(result, "ttlMs", []byte("0"))
			result = jsonrpc.With(result, "cacheScope", []byte(`"private"`))
		}
	}
	x.answerText(resultLine(x.id, result))
}

// ping is answered without a word to the upstream: it asks whether the program
// that was started still reads. 2026-07-28 took it out (changelog, major 5).
func (x *exchange) ping() {
	if x.profile.era == modernEra {
		x.rejectGone()
		return
	}
	x.answerResult([]byte("{}"))
}

// initialize answers the handshake of a legacy host: from the catalogue at
// once, else after a short wait for the upstream, else with everything that a
// server could have.
func (x *exchange) initialize() {
	p := x.profile
	h := x.bridge.offers.handshake(x.ctx, p, handshakeWait)
	result := concat(`{"protocolVersion":`, quote(p.version),
		`,"capabilities":`, x.bridge.capabilities(p, h),
		`,"serverInfo":`, x.bridge.serverInfo(h))
	if text := x.bridge.instructions(h); len(text) > 0 {
		result = concat(result, `,"instructions":`, text)
	}
	if h != nil && !isModern(h.Version) { // peers of one era
		result = joinMembers(result, h.More)
	}
	x.answerText(resultLine(x.id, append(result, '}')))
}

// discover answers server/discover of a modern host.
func (x *exchange) discover() {
	h := x.bridge.offers.handshake(x.ctx, x.profile, handshakeWait)
	ttl := int64(maxTTL)
	if h == nil {
		ttl = 0 // provisional: upstream is not known yet
	}
	meta, more := []byte("{}"), []byte(nil)
	if h != nil && isModern(h.Version) { // peers of one era
		meta, more = objectOr(jsonrpc.Get(objectOr(h.More, "{}"), "_meta"), "{}"), unknownMembers(h.More, "_meta")
	}
	meta = jsonrpc.With(meta, metaServerInfo, x.bridge.serverInfo(h))
	result := concat(`{"resultType":"complete","supportedVersions":`, supportedVersionsJSON(),
		`,"capabilities":`, x.bridge.capabilities(x.profile, h), `,"_meta":`, meta)
	result = joinMembers(result, more)
	if text := x.bridge.instructions(h); len(text) > 0 {
		result = concat(result, `,"instructions":`, text)
	}
	result = concat(result, `,"ttlMs":`, strconv.FormatInt(ttl, 10), `,"cacheScope":"private"}`)
	x.answerText(resultLine(x.id, result))
}

// shakeHands notes what initialize said.
func (h *host) shakeHands(p *profile) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handshake, h.initialized = p, false
}

func (h *host) wantedLevel() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.level
}

// listTools answers tools/list with one page, or with pages of our own where
// one would be longer than half a line of the host's.
func (x *exchange) listTools() {
	cursor, _ := jsonrpc.String(x.msg.Field(jsonrpc.Cursor))
	from := 0
	if cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n < 0 {
			x.reject(codeInvalidParams, "this cursor is not from this server", nil)
			return
		}
		from = n
	}
	c := x.bridge.offers.catalogue(x.ctx, x.profile, listWait)
	if c == nil {
		c = x.signInForList()
	}
	list, next := x.bridge.listing(x.profile, c, from)
	result := concat(`{"tools":`, list)
	if next > 0 {
		result = concat(result, `,"nextCursor":"`, strconv.Itoa(next), `"`)
	}
	if x.profile.era == modernEra {
		hints := cacheHints{scope: "private"}
		if c != nil && c.fresh && c.era == modernEra {
			hints = cacheHints{min(c.hints.ttlMs, maxTTL), c.hints.scope}
		}
		result = concat(result, `,"resultType":"complete","ttlMs":`, strconv.FormatInt(hints.ttlMs, 10), `,"cacheScope":"`, hints.orPrivate(), `"`)
	}
	if c != nil && c.era == x.profile.era {
		result = joinMembers(result, c.more)
	}
	x.answerText(resultLine(x.id, append(result, '}')))
}

// listing is the tools from the given index on, as JSON, and the index at which
// the next page begins (0: none).
func (b *Bridge) listing(p *profile, c *catalogue, from int) (list []byte, next int) {
	list = []byte{'['}
	own := b.ownTools()
	if c == nil {
		if len(own) == 0 || b.cfg.Broken != nil {
			own = [][]byte{b.statusTool()}
		}
		return append(append(list, bytes.Join(own, []byte(","))...), ']'), 0
	}
	pr := pair{p.era, c.era, p.version, c.handshake.Version}
	taken := int64(len("[]"))
	for i := from; i < len(c.tools)+len(own); i++ {
		var one []byte
		if i < len(c.tools) {
			one = c.tools[i].listing(pr, b.keeper != nil)
		} else {
			one = own[i-len(c.tools)] // listed last
		}
		size := int64(stdio.LineSize(one))
		if i < len(c.tools) && size > b.cfg.HostLineLimit/2 {
			b.cfg.Log.Warn("a tool is not listed: its description and schema are longer than half a line of the host", "tool", c.tools[i].name, "bytes", size)
			continue
		}
		if taken += size + 1; len(list) > 1 && taken > b.cfg.HostLineLimit/2 {
			return append(list, ']'), i
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, one...)
	}
	return append(list, ']'), 0
}

// setLevel remembers the level of a legacy host; upstream is told by a request
// of its own if it is legacy, and with each request if it is modern.
func (x *exchange) setLevel() bool {
	if x.profile.era == modernEra {
		return x.goneIn2026()
	}
	name, _ := jsonrpc.String(x.msg.Field(jsonrpc.Level))
	if _, ok := levelRank(name); !ok {
		x.reject(codeInvalidParams, "params.level is no logging level", nil)
		return true
	}
	x.host.mu.Lock()
	x.host.level = name
	x.host.mu.Unlock()
	if up := x.bridge.link.known(); up != nil && up.era() == legacyEra {
		if h := x.bridge.offers.knownHandshake(x.profile); h == nil || len(jsonrpc.Get(h.Capabilities, "logging")) > 0 {
			return false
		}
	}
	x.answerResult([]byte("{}"))
	return true
}

// subscribe takes a legacy host's interest in a resource. A legacy upstream is
// asked itself; on a modern one it rides on subscriptions/listen.
func (x *exchange) subscribe() bool {
	if x.profile.era == modernEra {
		return x.goneIn2026()
	}
	uri, ok := jsonrpc.String(x.msg.Field(jsonrpc.URI))
	if !ok {
		x.reject(codeInvalidParams, x.method+" needs params.uri", nil)
		return true
	}
	if !x.bridge.listens.subscribe(uri, x.method == "resources/subscribe") {
		x.reject(codeOverloaded, fmt.Sprintf("%d resources are subscribed already: unsubscribe from some of them first", maxURIs), nil)
		return true
	}
	if up := x.bridge.link.known(); up != nil && up.era() == legacyEra {
		return false
	}
	ctx, cancel := context.WithTimeout(x.ctx, handshakeWait)
	defer cancel()
	x.bridge.listens.awaitMet(ctx, x.bridge.listens.changed())
	x.answerResult([]byte("{}"))
	return true
}

// goneIn2026 refuses a method that 2026-07-28 took out, where a legacy server
// would answer it; a modern server may have a say of its own.
func (x *exchange) goneIn2026() bool {
	if up := x.bridge.link.known(); up != nil && up.era() == modernEra {
		return false
	}
	x.rejectGone()
	return true
}

func (x *exchange) rejectGone() {
	x.reject(codeMethodNotFound, x.method+" does not exist in protocol version "+x.profile.version, nil)
}

// answerEmpty answers a list that the upstream does not have with an empty
// one; hosts ask for lists that were never declared.
func (x *exchange) answerEmpty() bool {
	h := x.bridge.offers.handshake(x.ctx, x.profile, handshakeWait)
	if h != nil && x.has(h) {
		return false
	}
	if h == nil && x.bridge.cfg.Broken == nil && x.method != "completion/complete" {
		return false // a completion is wanted while somebody types: no values rather than late ones
	}
	x.answerResult(emptyResult(x.method))
	return true
}

// has reports whether a handshake declares what x's method needs.
func (x *exchange) has(h *handshake) bool {
	capability := "resources"
	switch x.method {
	case "prompts/list":
		capability = "prompts"
	case "completion/complete":
		if h.Version == rev2024_11_05 { // has no completions capability
			return true
		}
		capability = "completions"
	}
	return truthy(jsonrpc.Get(h.Capabilities, capability))
}

func emptyResult(method string) []byte {
	switch method {
	case "prompts/list":
		return []byte(`{"prompts":[]}`)
	case "resources/templates/list":
		return []byte(`{"resourceTemplates":[]}`)
	case "completion/complete":
		return []byte(`{"completion":{"values":[]}}`)
	}
	return []byte(`{"resources":[]}`)
}

// capabilities are the upstream's, less what does not cross, plus what the
// bridge adds; the full set where the upstream is not known.
func (b *Bridge) capabilities(p *profile, h *handshake) []byte {
	if b.cfg.Broken != nil {
		return []byte(`{"tools":{}}`)
	}
	if h == nil {
		return []byte(`{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}`)
	}
	c := jsonrpc.Without(h.Capabilities, "tasks")
	if p.era == legacyEra && isModern(h.Version) {
		c = jsonrpc.Without(c, "extensions")
	}
	c = b.taskCapabilities(p, c)
	tools := objectOr(jsonrpc.Get(c, "tools"), "{}")
	c = jsonrpc.With(c, "tools", jsonrpc.With(tools, "listChanged", []byte("true")))
	if h.Version == rev2024_11_05 && (truthy(jsonrpc.Get(c, "prompts")) || truthy(jsonrpc.Get(c, "resources"))) {
		c = jsonrpc.With(c, "completions", []byte("{}"))
	}
	return c
}

// taskCapabilities declares the task doors of the bridge.
func (b *Bridge) taskCapabilities(p *profile, c []byte) []byte {
	if b.keeper == nil {
		return c
	}
	switch {
	case p.era == modernEra:
		ext := objectOr(jsonrpc.Get(c, "extensions"), "{}") // merged, not replaced
		return jsonrpc.With(c, "extensions", jsonrpc.With(ext, tasksExtension, []byte("{}")))
	case p.version == rev2025_11_25:
		return jsonrpc.With(c, "tasks", []byte(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`))
	}
	return c
}

// serverInfo is the upstream's, else one that names where the bridge leads.
func (b *Bridge) serverInfo(h *handshake) []byte {
	if h != nil && len(h.ServerInfo) > 0 {
		return h.ServerInfo
	}
	name := "mcpbridge"
	if b.cfg.URL != nil {
		name = "mcpbridge (" + b.cfg.URL.Host + ")"
	}
	return concat(`{"name":`, quote(name), `,"version":`, quote(b.cfg.Version), `}`)
}

// instructions are the upstream's, with a paragraph of the bridge's about
// handles, and a line about calls that need somebody.
func (b *Bridge) instructions(h *handshake) []byte {
	var theirs []byte
	if h != nil {
		theirs = h.Instructions
	}
	ours := b.keeper.instructions()
	if ours == "" {
		return theirs
	}
	text, _ := jsonrpc.String(theirs)
	if text != "" {
		text += "\n\n"
	}
	return quote(text + ours)
}
