package bridge

import (
	"slices"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// legacyProfile is the profile of a host that sent initialize, or nothing that
// says more than that it is old.
func legacyProfile(version string, clientInfo, capabilities []byte) *profile {
	p := &profile{era: legacyEra, version: version}
	p.introduce(clientInfo)
	p.capabilities = lenient(capabilities)
	p.key = shortHash(legacyEra.String(), version, string(p.capabilities))
	p.noteQuestions()
	return p
}

// noteQuestions writes down what a modern server may ask, once for all requests.
func (p *profile) noteQuestions() {
	p.questions = jsonrpc.Without(p.capabilities, "tasks")
	p.questionsTasks = withTasks(p.questions)
}

// introduce says who the host is.
func (p *profile) introduce(clientInfo []byte) {
	p.clientInfo = objectOr(clientInfo, `{"name":"mcpbridge","version":"1"}`)
	p.name, _ = jsonrpc.String(jsonrpc.Get(p.clientInfo, "name"))
}

// modernProfile is the profile in the _meta of a modern request, or nil if the
// message has none.
func modernProfile(m *jsonrpc.Message) *profile {
	meta := m.Field(jsonrpc.Meta)
	if len(meta) == 0 || meta[0] != '{' {
		return nil
	}
	p := &profile{era: modernEra}
	var modern bool
	for name, value := range jsonrpc.Members(meta) {
		switch name {
		case metaVersion:
			p.version, modern = jsonrpc.String(value)
		case metaClientInfo:
			p.clientInfo = value
		case metaCapabilities:
			p.capabilities = value
		}
	}
	if !modern {
		return nil
	}
	p.introduce(p.clientInfo)
	// What a legacy session declares: questions as this request does, but no
	// tasks of 2025-11-25 and no notices about roots, which such a host never
	// sends.
	p.capabilities = jsonrpc.Without(lenient(p.capabilities), "tasks")
	if p.declares("roots") {
		p.capabilities = jsonrpc.With(p.capabilities, "roots", []byte("{}"))
	}
	p.key = shortHash(modernEra.String(), string(p.capabilities))
	return p
}

// lenient reads capabilities as hosts write them: true declares (Cursor writes
// booleans where objects belong), false and null do not.
func lenient(capabilities []byte) []byte {
	out := []byte{'{'}
	if len(capabilities) == 0 || capabilities[0] != '{' {
		return append(out, '}')
	}
	for name, value := range jsonrpc.Members(capabilities) {
		switch string(value) {
		case "false", "null":
			continue
		case "true":
			value = []byte("{}")
		}
		out = appendMember(out, name, value)
	}
	return append(out, '}')
}

// declares reports whether a host said that it can answer a kind of question.
func (p *profile) declares(capability string) bool {
	return truthy(jsonrpc.Get(p.capabilities, capability))
}

// accepts reports whether a host can be asked a question of a known kind: the
// kind was declared, and so was what this question needs of it.
func (p *profile) accepts(method string, params []byte) bool {
	kind, known := questionKind(method)
	c := jsonrpc.Get(p.capabilities, kind)
	if !known || !truthy(c) {
		return false
	}
	declared := func(what string) bool { return c[0] == '{' && truthy(jsonrpc.Get(c, what)) }
	switch method {
	case "elicitation/create":
		// 2025-11-25 and 2026-07-28, elicitation, "Capabilities": an empty
		// object stands for form mode alone.
		if isURLQuestion(params) {
			return declared("url")
		}
		return declared("form") || !declared("url")
	case "sampling/createMessage":
		// 2025-11-25 and 2026-07-28, sampling, "Capabilities": tools only for a
		// client that declared sampling.tools.
		asksTools := hasMember(params, "tools") || hasMember(params, "toolChoice")
		return !asksTools || declared("tools")
	}
	return true
}

func hasMember(object []byte, name string) bool {
	return len(object) > 0 && object[0] == '{' && len(jsonrpc.Get(object, name)) > 0
}

// unknownMembers is an object without the members named, as a copy; nil if
// nothing is left.
func unknownMembers(object []byte, known ...string) []byte {
	if len(object) == 0 || object[0] != '{' {
		return nil
	}
	out := []byte{'{'}
	for name, value := range jsonrpc.Members(object) {
		if !slices.Contains(known, name) {
			out = appendMember(out, name, value)
		}
	}
	if len(out) == 1 {
		return nil
	}
	return append(out, '}')
}

// joinMembers adds the members of an object, which may be nil, to an object that
// has no end yet.
func joinMembers(open, object []byte) []byte {
	if len(object) <= len("{}") {
		return open
	}
	return append(append(open, ','), object[1:len(object)-1]...)
}
