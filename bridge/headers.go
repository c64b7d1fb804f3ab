package bridge

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// Headers of a modern upstream: MCP 2026-07-28, transports, Streamable HTTP,
// "Request Metadata".

// A paramHeader says which argument of a tool goes into which header.
type paramHeader struct {
	header string   // canonical Mcp-Param-NAME
	path   []string // of properties, from the root of the arguments
	kind   string   // string, integer or boolean
}

const (
	sentinelStart = "=?base64?"
	sentinelEnd   = "?="
	maxSafe       = 1<<53 - 1 // largest integer that a header value may carry
)

// headerValue encodes a value as the specification's "Value Encoding" says:
// Base64 for what is no plain header text or looks like the sentinel itself.
func headerValue(s string) string {
	if plainHeader(s) && !(strings.HasPrefix(s, sentinelStart) && strings.HasSuffix(s, sentinelEnd)) {
		return s
	}
	return sentinelStart + base64.StdEncoding.EncodeToString([]byte(s)) + sentinelEnd
}

func plainHeader(s string) bool {
	if s == "" {
		return true
	}
	if s[0] == ' ' || s[0] == '\t' || s[len(s)-1] == ' ' || s[len(s)-1] == '\t' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '\t' && (c < ' ' || c > '~') {
			return false
		}
	}
	return true
}

// paramHeaders lists the x-mcp-header annotations of an input schema, or says
// which of them makes the tool unusable.
func paramHeaders(schema []byte) ([]paramHeader, error) {
	if len(schema) == 0 || !strings.Contains(string(schema), `"x-mcp-header"`) {
		return nil, nil
	}
	w := headerWalk{seen: map[string]bool{}, left: maxSchemaWork}
	if err := w.object(schema, nil, true); err != nil {
		return nil, err
	}
	return w.found, nil
}

// Bounds of looking for annotations: each level of a schema is read once more
// for every level above it.
const (
	maxSchemaDepth = 64
	maxSchemaWork  = 32 << 20 // bytes read, all levels together
)

type headerWalk struct {
	found []paramHeader
	seen  map[string]bool
	depth int
	left  int // of maxSchemaWork
}

// enter goes one level deeper, to value; leave is to be called in any case.
func (w *headerWalk) enter(value []byte) error {
	w.depth++
	w.left -= len(value)
	switch {
	case w.depth > maxSchemaDepth:
		return fmt.Errorf("its schema has an x-mcp-header and is nested deeper than %d levels", maxSchemaDepth)
	case w.left < 0:
		return errors.New("its schema has an x-mcp-header and is too large to be looked through for more")
	}
	return nil
}

func (w *headerWalk) leave() { w.depth-- }

// object looks at one schema. reachable says that only "properties" keys led
// here from the root.
func (w *headerWalk) object(schema []byte, path []string, reachable bool) error {
	if len(schema) == 0 || schema[0] != '{' {
		return nil
	}
	defer w.leave()
	if err := w.enter(schema); err != nil {
		return err
	}
	for name, value := range jsonrpc.Members(schema) {
		var err error
		switch {
		case name == "x-mcp-header":
			err = w.annotation(schema, value, path, reachable)
		case name == "properties":
			err = w.properties(value, path, reachable)
		case notASchema(name):
		default:
			err = w.elsewhere(value, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// notASchema names keywords whose values are data, not schemas.
func notASchema(keyword string) bool {
	switch keyword {
	case "const", "enum", "default", "examples", "description", "title":
		return true
	}
	return false
}

func (w *headerWalk) properties(value []byte, path []string, reachable bool) error {
	if len(value) == 0 || value[0] != '{' {
		return nil
	}
	for name, schema := range jsonrpc.Members(value) {
		if err := w.object(schema, append(path[:len(path):len(path)], name), reachable); err != nil {
			return err
		}
	}
	return nil
}

// elsewhere walks what is not reachable by properties alone: an annotation
// there makes the tool definition invalid.
func (w *headerWalk) elsewhere(value []byte, path []string) error {
	if len(value) == 0 || value[0] != '{' && value[0] != '[' {
		return nil
	}
	defer w.leave()
	if err := w.enter(value); err != nil {
		return err
	}
	switch {
	case value[0] == '{':
		// A schema, or a map of schemas such as $defs or patternProperties.
		for name, v := range jsonrpc.Members(value) {
			if name == "x-mcp-header" && len(v) > 0 && v[0] == '"' {
				return fmt.Errorf("x-mcp-header at a place that properties alone do not lead to (below %s)", at(path))
			}
			if !notASchema(name) {
				if err := w.elsewhere(v, path); err != nil {
					return err
				}
			}
		}
	case value[0] == '[':
		items, err := jsonrpc.Elements(value)
		if err != nil {
			return nil
		}
		for _, item := range items {
			if err := w.elsewhere(item, path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *headerWalk) annotation(schema, value []byte, path []string, reachable bool) error {
	name, ok := jsonrpc.String(value)
	kind, _ := jsonrpc.String(jsonrpc.Get(schema, "type"))
	key := strings.ToLower(name)
	switch {
	case !ok:
		return fmt.Errorf("x-mcp-header of %s is no string", at(path))
	case !reachable || len(path) == 0:
		return fmt.Errorf("x-mcp-header at a place that properties alone do not lead to (%s)", at(path))
	case !isToken(name):
		return fmt.Errorf("x-mcp-header %q of %s is no header name", name, at(path))
	case kind != "string" && kind != "integer" && kind != "boolean":
		return fmt.Errorf("x-mcp-header %q of %s: a parameter of type %q cannot go into a header", name, at(path), kind)
	case w.seen[key]:
		return fmt.Errorf("x-mcp-header %q is used twice", name)
	}
	w.seen[key] = true
	w.found = append(w.found, paramHeader{http.CanonicalHeaderKey("Mcp-Param-" + name), path, kind})
	return nil
}

func at(path []string) string {
	if len(path) == 0 {
		return "the schema's root"
	}
	return "parameter " + strings.Join(path, ".")
}

// isToken reports whether s is 1*tchar (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// setParamHeaders mirrors arguments into h. An integer that a header may not
// carry is an error: the upstream would have to refuse it.
func setParamHeaders(h http.Header, headers []paramHeader, arguments []byte) error {
	for _, p := range headers {
		value := arguments
		for _, name := range p.path {
			if len(value) == 0 || value[0] != '{' {
				value = nil
				break
			}
			value = jsonrpc.Get(value, name)
		}
		text, ok, err := paramText(value, p)
		if err != nil {
			return err
		}
		if ok {
			h[p.header] = []string{headerValue(text)}
		}
	}
	return nil
}

// paramText is an argument as header text; ok is false where the header is to
// be left out.
func paramText(value []byte, p paramHeader) (text string, ok bool, err error) {
	if len(value) == 0 || string(value) == "null" {
		return "", false, nil
	}
	switch value[0] {
	case '"':
		text, ok = jsonrpc.String(value)
		return text, ok, nil
	case 't', 'f':
		return string(value), true, nil
	case '{', '[':
		return "", false, nil
	}
	n, whole := jsonrpc.Integer(value)
	if p.kind == "integer" && (!whole || n > maxSafe || n < -maxSafe) {
		return "", false, fmt.Errorf("argument %s does not fit into header %s: integers there go from -(2^53-1) to 2^53-1",
			strings.Join(p.path, "."), p.header)
	}
	if whole {
		return strconv.FormatInt(n, 10), true, nil
	}
	return string(value), true, nil
}

// idJSON is an id of ours as JSON.
func idJSON(id int64) []byte {
	if id == 0 {
		return nil
	}
	return strconv.AppendInt(nil, id, 10)
}
