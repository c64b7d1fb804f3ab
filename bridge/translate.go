package bridge

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// A pair says which two eras meet in an exchange. All translation between
// them is here.
type pair struct {
	host, upstream  era
	hostVersion     string
	upstreamVersion string
}

// A metaPatch says how params._meta changes on the way to the upstream.
type metaPatch struct {
	drop func(name string) bool
	set  []member // replaced or added, in order
}

type member struct {
	name  string
	value []byte
}

// ours reports whether a member of _meta belongs to the bridge and must never
// reach the upstream.
func ours(name string) bool { return strings.HasPrefix(name, ourPrefix) }

// perRequest reports whether a member of _meta exists only since 2026-07-28.
// Inside a legacy session such a member would switch a dual-era server.
func perRequest(name string) bool {
	switch name {
	case metaVersion, metaClientInfo, metaCapabilities, metaLogLevel:
		return true
	}
	return ours(name)
}

// request builds the message that goes upstream from the host's message m:
// another id, a changed _meta, and everything else as the host wrote it.
func (p pair) request(m *jsonrpc.Message, id int64, patch metaPatch) []byte {
	edits := make([]jsonrpc.Edit, 0, 5)
	if m.ID != (jsonrpc.Span{}) {
		edits = append(edits, jsonrpc.Edit{Span: m.ID, New: strconv.AppendInt(nil, id, 10)})
	}
	edits = append(edits, metaEdit(m, patch)...)
	if p.host == modernEra && p.upstream == legacyEra {
		// design: inputResponses and requestState never enter a legacy session.
		for _, k := range []jsonrpc.Key{jsonrpc.InputResponses, jsonrpc.RequestState} {
			if s := m.FieldSpan(k); s != (jsonrpc.Span{}) {
				edits = append(edits, jsonrpc.Edit{Span: memberSpan(m.Raw, s)})
			}
		}
	}
	edits = settle(m.Raw, edits)
	return jsonrpc.AppendEdited(make([]byte, 0, len(m.Raw)+256), m.Raw, edits...)
}

// metaEdit changes, adds or leaves alone params._meta. Params that are an
// array have no _meta and stay as they are.
func metaEdit(m *jsonrpc.Message, patch metaPatch) []jsonrpc.Edit {
	old := m.Field(jsonrpc.Meta)
	if len(old) > 0 && old[0] == '{' {
		if meta, changed := patchMeta(old, patch); changed {
			return []jsonrpc.Edit{{Span: m.FieldSpan(jsonrpc.Meta), New: meta}}
		}
		return nil
	}
	if len(patch.set) == 0 {
		return nil
	}
	meta, _ := patchMeta([]byte("{}"), patch)
	if len(old) > 0 { // null, or nothing that could be meant
		return []jsonrpc.Edit{{Span: m.FieldSpan(jsonrpc.Meta), New: meta}}
	}
	if m.Params == (jsonrpc.Span{}) {
		at := jsonrpc.Span{Start: m.MethodValue.End, End: m.MethodValue.End}
		return []jsonrpc.Edit{{Span: at, New: concat(`,"params":{"_meta":`, meta, `}`)}}
	}
	if m.Raw[m.Params.Start] != '{' {
		return nil
	}
	return []jsonrpc.Edit{insertFirst(m.Raw, m.Params, concat(`"_meta":`, meta))}
}

// patchMeta applies patch to a _meta object.
func patchMeta(old []byte, patch metaPatch) (meta []byte, changed bool) {
	meta = append(make([]byte, 0, len(old)+256), '{')
	for name, value := range jsonrpc.Members(old) {
		if patch.drop != nil && patch.drop(name) || patch.replaces(name) {
			changed = true
			continue
		}
		meta = appendMember(meta, name, value)
	}
	for _, m := range patch.set {
		meta, changed = appendMember(meta, m.name, m.value), true
	}
	return append(meta, '}'), changed
}

func (p metaPatch) replaces(name string) bool {
	for _, m := range p.set {
		if m.name == name {
			return true
		}
	}
	return false
}

func appendMember(obj []byte, name string, value []byte) []byte {
	if len(obj) > 1 {
		obj = append(obj, ',')
	}
	obj = append(appendString(obj, name), ':')
	return append(obj, value...)
}

// reply edits a response of the upstream into the one that the host gets. The
// parts are written one after the other, so that a large result is not copied.
func (p pair) reply(method string, r *jsonrpc.Message, hostID []byte, hints cacheHints, meta []member) [][]byte {
	edits := make([]jsonrpc.Edit, 0, 6)
	if r.ID != (jsonrpc.Span{}) {
		edits = append(edits, jsonrpc.Edit{Span: r.ID, New: hostID})
	} else {
		edits = append(edits, insertFirst(r.Raw, jsonrpc.Span{End: len(r.Raw)}, concat(`"id":`, hostID)))
	}
	if r.Result != (jsonrpc.Span{}) && len(r.Raw) > r.Result.Start && r.Raw[r.Result.Start] == '{' {
		if p.host == legacyEra && p.upstream == modernEra {
			edits = append(edits, p.oldResult(r)...)
		}
		edits = append(edits, p.resultMeta(r, meta)...)
		if p.host == modernEra {
			edits = append(edits, p.newResult(method, r, hints)...)
		}
		if p.host == legacyEra && method == "tools/call" {
			edits = append(edits, p.youngContent(r)...)
		}
	}
	if p.host == modernEra && p.upstream == legacyEra && bytes.Equal(r.Field(jsonrpc.Code), []byte("-32002")) {
		// 2026-07-28, basic, "Error Codes": -32002 must not be emitted any more.
		edits = append(edits, jsonrpc.Edit{Span: r.FieldSpan(jsonrpc.Code), New: []byte("-32602")})
	}
	return pieces(r.Raw, settle(r.Raw, edits))
}

// oldResult takes out what a legacy host does not know: resultType, the cache
// hints, and the members of _meta that 2026-07-28 added to results.
func (p pair) oldResult(r *jsonrpc.Message) []jsonrpc.Edit {
	var edits []jsonrpc.Edit
	for _, k := range []jsonrpc.Key{jsonrpc.ResultType, jsonrpc.TTLMs, jsonrpc.CacheScope} {
		if s := r.FieldSpan(k); s != (jsonrpc.Span{}) {
			edits = append(edits, jsonrpc.Edit{Span: memberSpan(r.Raw, s)})
		}
	}
	return edits
}

// resultMeta changes result._meta: what a legacy host does not know goes, what
// the bridge has to say about the call comes.
func (p pair) resultMeta(r *jsonrpc.Message, add []member) []jsonrpc.Edit {
	patch := metaPatch{set: add}
	if p.host == legacyEra && p.upstream == modernEra {
		patch.drop = func(name string) bool { return name == metaSubscriptionID || name == metaServerInfo }
	}
	old := r.Field(jsonrpc.Meta)
	if len(old) == 0 || old[0] != '{' {
		if len(add) == 0 || len(old) > 0 {
			return nil
		}
		meta, _ := patchMeta([]byte("{}"), patch)
		return []jsonrpc.Edit{insertFirst(r.Raw, r.Result, concat(`"_meta":`, meta))}
	}
	meta, changed := patchMeta(old, patch)
	switch {
	case !changed:
		return nil
	case len(meta) == 2:
		return []jsonrpc.Edit{{Span: memberSpan(r.Raw, r.FieldSpan(jsonrpc.Meta))}}
	}
	return []jsonrpc.Edit{{Span: r.FieldSpan(jsonrpc.Meta), New: meta}}
}

// cacheHints are ttlMs and cacheScope for a modern host.
type cacheHints struct {
	ttlMs int64
	scope string
}

// cacheable lists the methods whose results carry cache hints (2026-07-28,
// caching, "Cacheable Results").
func cacheable(method string) bool {
	switch method {
	case "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read":
		return true
	}
	return false
}

// newResult adds what a modern host must find and a legacy or half-upgraded
// upstream left out.
func (p pair) newResult(method string, r *jsonrpc.Message, hints cacheHints) []jsonrpc.Edit {
	var add []byte
	resultType := r.Field(jsonrpc.ResultType)
	if len(resultType) == 0 {
		add = append(add, `,"resultType":"complete"`...)
	}
	complete := len(resultType) == 0 || string(resultType) == `"complete"`
	if complete && cacheable(method) {
		if r.FieldSpan(jsonrpc.TTLMs) == (jsonrpc.Span{}) {
			add = strconv.AppendInt(append(add, `,"ttlMs":`...), hints.ttlMs, 10)
		}
		if r.FieldSpan(jsonrpc.CacheScope) == (jsonrpc.Span{}) {
			add = append(append(append(add, `,"cacheScope":"`...), hints.orPrivate()...), '"')
		}
	}
	if len(add) == 0 {
		return nil
	}
	return []jsonrpc.Edit{insertFirst(r.Raw, r.Result, add[1:])}
}

func (h cacheHints) orPrivate() string {
	if h.scope == "public" {
		return h.scope
	}
	return "private"
}

// youngContent makes a tool result fit a host of an older revision: content
// types it cannot know become text, and structuredContent that is no object is
// dropped, its JSON kept as a text block (2025-11-25, tools, "Structured
// Content" allows objects only).
func (p pair) youngContent(r *jsonrpc.Message) []jsonrpc.Edit {
	content := r.FieldSpan(jsonrpc.Content)
	structured := r.FieldSpan(jsonrpc.StructuredContent)
	odd := structured != (jsonrpc.Span{}) && r.Raw[structured.Start] != '{'
	old := p.hostVersion < rev2025_06_18
	if content == (jsonrpc.Span{}) || r.Raw[content.Start] != '[' || !odd && !old {
		return nil
	}
	blocks, err := jsonrpc.Elements(r.Bytes(content))
	if err != nil {
		return nil
	}
	var changed bool
	out := []byte{'['}
	for i, block := range blocks {
		if i > 0 {
			out = append(out, ',')
		}
		as := p.olderBlock(block)
		changed = changed || as != nil
		if as == nil {
			as = block
		}
		out = append(out, as...)
	}
	var edits []jsonrpc.Edit
	if odd {
		value := r.Bytes(structured)
		edits = append(edits, jsonrpc.Edit{Span: memberSpan(r.Raw, structured)})
		if !holdsText(blocks, value) {
			if len(blocks) > 0 {
				out = append(out, ',')
			}
			out, changed = append(out, textBlock(string(value))...), true
		}
	}
	if changed {
		edits = append(edits, jsonrpc.Edit{Span: content, New: append(out, ']')})
	}
	return edits
}

// olderBlock is a content block as text for a host whose revision does not
// have its type; nil if it has.
func (p pair) olderBlock(block []byte) []byte {
	kind, _ := jsonrpc.String(jsonrpc.Get(block, "type"))
	switch {
	case kind == "audio" && p.hostVersion < rev2025_03_26:
		mime, _ := jsonrpc.String(jsonrpc.Get(block, "mimeType"))
		return textBlock("[audio of type " + mime + ", which this client's protocol revision cannot show]")
	case kind == "resource_link" && p.hostVersion < rev2025_06_18:
		name, _ := jsonrpc.String(jsonrpc.Get(block, "name"))
		uri, _ := jsonrpc.String(jsonrpc.Get(block, "uri"))
		return textBlock("Resource link: " + name + " at " + uri)
	}
	return nil
}

func holdsText(blocks [][]byte, value []byte) bool {
	for _, b := range blocks {
		if text, ok := jsonrpc.String(jsonrpc.Get(b, "text")); ok && strings.TrimSpace(text) == string(value) {
			return true
		}
	}
	return false
}

func textBlock(text string) []byte {
	return append(appendString([]byte(`{"type":"text","text":`), text), '}')
}

// retoken puts the host's progress token into a notification for it, and more
// members into its _meta.
func retoken(m *jsonrpc.Message, token []byte, more ...member) [][]byte {
	edits := []jsonrpc.Edit{{Span: m.FieldSpan(jsonrpc.ProgressToken), New: token}}
	edits = append(edits, metaEdit(m, metaPatch{set: more})...)
	return pieces(m.Raw, settle(m.Raw, edits))
}
