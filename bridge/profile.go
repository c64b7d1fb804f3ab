package bridge

import (
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// legacyProfile is the profile of a host that sent initialize, or nothing that
// says more than that it is old.
func legacyProfile(version string, clientInfo, capabilities []byte) *profile {
	p := &profile{era: legacyEra, version: version}
	p.clientInfo = objectOr(clientInfo, `{"name":"mcpbridge","version":"1"}`)
	p.capabilities = lenient(capabilities)
	p.key = shortHash(legacyEra.String(), version, string(p.capabilities))
	return p
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
	p.clientInfo = objectOr(p.clientInfo, `{"name":"mcpbridge","version":"1"}`)
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
