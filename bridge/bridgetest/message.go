package bridgetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Codes of JSON-RPC errors (JSON-RPC 2.0 section 5.1; MCP 2026-07-28, basic, "Error Codes").
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeServer             = -32000
	codeResourceNotFound   = -32002 // legacy revisions
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

// Keys of _meta that MCP 2026-07-28 reserves.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"
)

// An object is a JSON object under construction or taken apart by one level.
type (
	object = map[string]any
	fields = map[string]json.RawMessage
)

// A message is the envelope of one JSON-RPC message.
type message struct {
	ID     json.RawMessage // nil: no member "id"
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

func (m message) isRequest() bool  { return m.Method != "" && m.ID != nil }
func (m message) isResponse() bool { return m.Method == "" && m.ID != nil }

// parseMessage reads one message. Names are case-sensitive.
func parseMessage(raw []byte) (message, error) {
	var f fields
	if err := json.Unmarshal(raw, &f); err != nil {
		return message{}, fmt.Errorf("parse message: %w", err)
	}
	m := message{ID: f["id"], Params: f["params"], Result: f["result"], Error: f["error"]}
	if string(f["jsonrpc"]) != `"2.0"` {
		return m, errors.New(`member "jsonrpc" is not "2.0"`)
	}
	if raw, ok := f["method"]; ok {
		if err := json.Unmarshal(raw, &m.Method); err != nil || m.Method == "" {
			return m, errors.New(`member "method" is no name`)
		}
	}
	if m.ID != nil && !validID(m.ID) {
		return m, errors.New(`member "id" is neither string nor number`)
	}
	if m.Method == "" && m.ID == nil {
		return m, errors.New("neither request, notification nor response")
	}
	return m, nil
}

func validID(id json.RawMessage) bool {
	return len(id) > 0 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// An RPCError is a JSON-RPC error that a tool or method ends with.
type RPCError struct {
	Code    int
	Message string
	Data    any // nil: no member "data"

	status int // HTTP status on modern transports; 0 is 200
}

// Error returns the message.
func (e *RPCError) Error() string { return e.Message }

func (e *RPCError) object() object {
	o := object{"code": e.Code, "message": e.Message}
	if e.Data != nil {
		o["data"] = e.Data
	}
	return o
}

func rpcErrorf(code int, format string, args ...any) *RPCError {
	return &RPCError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// encode writes v as compact JSON; raw values inside keep their bytes, so that
// U+2028 and large numbers come out as they went in.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return encode(object{"encodingFailed": err.Error()})
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func encodeResult(id json.RawMessage, result any) []byte {
	return encode(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result"`
	}{"2.0", id, result})
}

// encodeError writes an error response; a nil id becomes null.
func encodeError(id json.RawMessage, e *RPCError) []byte {
	return encode(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   object          `json:"error"`
	}{"2.0", id, e.object()})
}

func encodeRequest(id any, method string, params any) []byte {
	return encode(struct {
		JSONRPC string `json:"jsonrpc"`
		ID      any    `json:"id,omitempty"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
	}{"2.0", id, method, params})
}

func encodeNotification(method string, params any) []byte { return encodeRequest(nil, method, params) }

// member returns the string at name, "" if it is none.
func (f member) string(name string) string {
	var s string
	_ = json.Unmarshal(f.fields[name], &s) // no string: ""
	return s
}

type member struct{ fields }

// open takes a JSON object apart by one level; anything else has no members.
func open(raw json.RawMessage) member {
	var f fields
	_ = json.Unmarshal(raw, &f) // no object: no members
	return member{f}
}

func (f member) open(name string) member { return open(f.fields[name]) }

func (f member) has(name string) bool {
	_, ok := f.fields[name]
	return ok
}
