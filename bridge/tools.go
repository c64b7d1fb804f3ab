package bridge

import (
	"log/slog"
	"strings"
	"sync"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/retry"
)

// A tool is what the bridge needs to know of one tool of the upstream.
type tool struct {
	name    string // upstream's
	listed  string // the host's: the same, unless it would collide with ours
	raw     []byte // the tool object as upstream gave it
	class   retry.Class
	hints   retry.Hints
	headers []paramHeader
	output  bool // declares an outputSchema

	annotated   bool // has any hint at all
	destructive bool // destructiveHint: true is set
}

// statusTool is the bridge's own tool: it says how the connection is.
const statusTool = "mcpbridge_status"

const ourToolPrefix = "mcpbridge_"

// A toolbox makes tools of what a server lists, as configured.
type toolbox struct {
	rules  retry.Rules
	keyed  func(name string) bool // an idempotency key is configured
	ignore []string
	only   []string
	log    *slog.Logger

	mu   sync.Mutex
	said map[string]bool // warnings given already: a list is read many times
}

// maxSaid bounds the warnings that are remembered.
const maxSaid = 1000

// warn logs what is wrong with a tool, once.
func (b *toolbox) warn(message, tool, reason string) {
	b.mu.Lock()
	key := message + tool + reason
	again := b.said[key]
	if b.said == nil {
		b.said = map[string]bool{}
	}
	if len(b.said) < maxSaid {
		b.said[key] = true
	}
	b.mu.Unlock()
	if !again {
		b.log.Warn(message, "tool", tool, "reason", reason)
	}
}

// hidden reports whether configuration takes the tool out of the list.
func (b *toolbox) hidden(name string) bool {
	for _, glob := range b.ignore {
		if retry.MatchGlob(glob, name) {
			return true
		}
	}
	for _, glob := range b.only {
		if retry.MatchGlob(glob, name) {
			return false
		}
	}
	return len(b.only) > 0
}

// read makes a tool of one object of tools/list; ok is false where it cannot
// be offered.
func (b *toolbox) read(raw []byte, e era) (t *tool, ok bool) {
	name, isString := jsonrpc.String(jsonrpc.Get(raw, "name"))
	if !isString || name == "" {
		b.warn("a tool was left out of the list", "", "it has no name")
		return nil, false
	}
	t = &tool{name: name, listed: name, raw: raw}
	hints := readHintsOf(raw)
	t.hints, t.class = hints, b.class(name, hints)
	t.annotated = hints.Present
	t.destructive = hints.Destructive != nil && *hints.Destructive
	t.output = len(jsonrpc.Get(raw, "outputSchema")) > 0
	if e == modernEra {
		// 2026-07-28, Streamable HTTP, "Schema Extension": a tool with an invalid
		// annotation must be left out, the others must not suffer.
		headers, err := paramHeaders(jsonrpc.Get(raw, "inputSchema"))
		if err != nil {
			b.warn("a tool was left out of the list", name, err.Error())
			return nil, false
		}
		t.headers = headers
	}
	if strings.HasPrefix(name, ourToolPrefix) {
		t.listed = "upstream_" + name
		b.warn("a tool of the server is listed as "+t.listed, name, "the names "+ourToolPrefix+"* are the bridge's own")
	}
	return t, true
}

// class decides what may be done about a call of the tool.
func (b *toolbox) class(name string, hints retry.Hints) retry.Class {
	return b.rules.Tool(name, hints, b.keyed(name))
}

// readHintsOf reads the annotations of a tool object.
func readHintsOf(raw []byte) (hints retry.Hints) {
	if a := jsonrpc.Get(raw, "annotations"); len(a) > 0 && a[0] == '{' {
		hints.ReadOnly = boolHint(a, "readOnlyHint")
		hints.Idempotent = boolHint(a, "idempotentHint")
		hints.Destructive = boolHint(a, "destructiveHint")
		hints.Present = hints.ReadOnly != nil || hints.Idempotent != nil || hints.Destructive != nil
	}
	return hints
}

func boolHint(annotations []byte, name string) *bool {
	switch string(jsonrpc.Get(annotations, name)) {
	case "true":
		return ptr(true)
	case "false":
		return ptr(false)
	}
	return nil
}

func ptr[T any](v T) *T { return &v }

// listing is the tool as a host of the given era and version reads it.
func (t *tool) listing(p pair, tasks bool) []byte {
	raw := t.raw
	if t.listed != t.name {
		raw = jsonrpc.With(raw, "name", quote(t.listed))
	}
	if p.host == legacyEra {
		if schema := jsonrpc.Get(raw, "outputSchema"); len(schema) > 0 && string(jsonrpc.Get(schema, "type")) != `"object"` {
			// One such tool would cost an SDK host its whole list.
			raw = jsonrpc.Without(raw, "outputSchema")
		}
	}
	switch {
	case tasks && p.host == legacyEra && p.hostVersion == rev2025_11_25:
		// The bridge makes a task of any call that asks for one, and needs none.
		raw = jsonrpc.With(raw, "execution", []byte(`{"taskSupport":"optional"}`))
	case tasks || p.host != p.upstream:
		// 2025-11-25 tasks are driven by the bridge, and do not exist elsewhere.
		raw = jsonrpc.Without(raw, "execution")
	}
	return raw
}
