// Package jsonrpc reads the envelope of one JSON-RPC 2.0 message as MCP uses it
// and leaves every other byte alone.
//
// A message is read once, strictly (RFC 8259 syntax, valid UTF-8, no duplicate
// names at any depth), and never decoded into Go values: a Message is a view of
// the bytes it was read from, so that numbers, escapes, unknown members and
// their order pass through a bridge unchanged.
package jsonrpc

// A Kind says what a message is by the members it has.
type Kind uint8

const (
	Invalid      Kind = iota // none of the others, or more than one
	Request                  // method and id
	Notification             // method, no id
	Response                 // result or error, with or without an id
)

// A Span is a half-open range of bytes in the message it belongs to. The zero
// Span means that the member is absent.
type Span struct{ Start, End int }

// A Key names a member of params, result or error that a bridge looks at.
type Key uint8

const (
	Meta Key = iota // _meta
	Name
	URI
	Arguments
	ProtocolVersion
	Capabilities
	ClientInfo
	Cursor
	Level
	RequestID // requestId, in notifications/cancelled
	Reason
	ProgressToken
	Progress
	InputResponses
	RequestState
	Task
	TaskID
	Notifications // subscriptions/listen
	ResultType
	IsError
	Content
	StructuredContent
	InputRequests
	NextCursor
	Tools
	Resources
	ResourceTemplates
	Prompts
	TTLMs
	CacheScope
	SupportedVersions
	ServerInfo
	Instructions
	Code
	Text // message, in error and in progress: the member named "message"
	Data
	numKeys
)

// A Message is a view of one JSON-RPC message. Raw is what gets forwarded; the
// other fields say where in Raw things are. Spans of id, params, result and
// error cover exactly the JSON value.
type Message struct {
	Raw    []byte
	Kind   Kind
	Method string // empty in a response

	ID          Span // the id's JSON value; zero if there is no member "id"
	Params      Span
	Result      Span
	Error       Span
	Version     Span // the value of "jsonrpc"
	MethodValue Span // the value of "method"

	fields [numKeys]Span
}

// Bytes returns the part of the message that s covers, nil if s is zero.
func (m *Message) Bytes(s Span) []byte {
	if s == (Span{}) {
		return nil
	}
	return m.Raw[s.Start:s.End:s.End]
}

// FieldSpan returns where the member k of params, result or error is, whichever
// of the three the message has. It is zero if there is no such member.
func (m *Message) FieldSpan(k Key) Span {
	if k >= numKeys {
		return Span{}
	}
	return m.fields[k]
}

// Field returns the JSON value of the member k of params, result or error,
// nil if it is absent.
func (m *Message) Field(k Key) []byte { return m.Bytes(m.FieldSpan(k)) }

// ReplyID returns what an answer to the message carries as its id: the id as it
// was spelt if it is a string or a number, else null.
func (m *Message) ReplyID() []byte {
	id := m.Bytes(m.ID)
	switch kindOf(id) {
	case '"', '0':
		return id
	}
	return []byte("null")
}
