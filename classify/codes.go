package classify

// Codes of JSON-RPC 2.0, section 5.1, and of MCP 2026-07-28 (basic, "Error
// Codes") that decide what a reply proves.
const (
	ParseError         = -32700
	InvalidRequest     = -32600
	MethodNotFound     = -32601
	InvalidParams      = -32602
	HeaderMismatch     = -32020 // a header contradicts the body
	MissingCapability  = -32021 // a capability that the request did not declare
	UnsupportedVersion = -32022
)
