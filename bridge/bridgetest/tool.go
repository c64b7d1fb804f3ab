package bridgetest

import "encoding/json"

// A Tool is one tool of the upstream. Run returns the result as a JSON object
// (see Text, Failure, Structured); an *RPCError becomes a JSON-RPC error, any
// other error a result with isError.
type Tool struct {
	Name        string
	Title       string
	Description string
	Annotations json.RawMessage // nil: none
	Input       json.RawMessage // properties of the input schema; ignored if InputSchema is set
	InputSchema json.RawMessage
	Output      json.RawMessage // nil: none
	ModernOnly  bool            // not listed to handshake revisions
	Tasks       string          // "", "optional" or "required": whether a call becomes a task
	Run         func(*Call) (any, error)
}

// normal fills what a Tool left out.
func (t Tool) normal() Tool {
	if t.InputSchema == nil {
		props := t.Input
		if props == nil {
			props = json.RawMessage(`{}`)
		}
		t.InputSchema = encode(object{"type": "object", "properties": props})
	}
	return t
}

// definition is the tool as tools/list has it in the revision.
func (t Tool) definition(version string) json.RawMessage {
	def := struct {
		Name         string          `json:"name"`
		Title        string          `json:"title,omitempty"`
		Description  string          `json:"description,omitempty"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
		Annotations  json.RawMessage `json:"annotations,omitempty"`
		Execution    object          `json:"execution,omitempty"`
	}{t.Name, t.Title, t.Description, t.InputSchema, t.Output, t.Annotations, nil}
	if t.Tasks != "" && version == "2025-11-25" {
		def.Execution = object{"taskSupport": t.Tasks}
	}
	if version < "2025-06-18" {
		def.Title, def.OutputSchema = "", nil // not in that revision
	}
	if version < "2025-03-26" {
		def.Annotations = nil
	}
	return encode(def)
}

// Text is a tool result of one text block.
func Text(s string) map[string]any {
	return object{"content": []any{object{"type": "text", "text": s}}}
}

// Failure is a tool result that says that the tool failed.
func Failure(s string) map[string]any {
	r := Text(s)
	r["isError"] = true
	return r
}

// Structured is a tool result with structured content and its text.
func Structured(v any) map[string]any {
	r := Text(string(encode(v)))
	r["structuredContent"] = v
	return r
}
