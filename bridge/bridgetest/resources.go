package bridgetest

import (
	"encoding/base64"
	"slices"
	"strings"
)

const (
	staticURI = "test://static/readme"
	binaryURI = "test://static/logo"
	itemsURI  = "test://items/" // subscribable: updated by put_item
	noteURI   = "test://notes/" // a template
)

func itemURI(key string) string { return itemsURI + key }

func noteTemplate() object {
	return object{"uriTemplate": noteURI + "{name}", "name": "note", "description": "A note by its name.", "mimeType": "text/plain"}
}

func (s *state) resourceList() []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]string, 0, len(s.items))
	for k := range s.items {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := []any{
		object{"uri": staticURI, "name": "readme", "mimeType": "text/plain"},
		object{"uri": binaryURI, "name": "logo", "mimeType": "application/octet-stream"},
	}
	for _, k := range keys {
		out = append(out, object{"uri": itemURI(k), "name": k, "mimeType": "text/plain"})
	}
	return out
}

func (c *Call) readResource() (any, error) {
	uri := c.params.string("uri")
	content := object{"uri": uri, "mimeType": "text/plain"}
	if uri == binaryURI {
		content["mimeType"] = "application/octet-stream"
		content["blob"] = base64.StdEncoding.EncodeToString([]byte{0, 1, 2, 253, 254, 255})
	} else {
		text, ok := c.up.state.resource(uri)
		if !ok {
			return nil, c.noResource(uri)
		}
		content["text"] = text
	}
	return object{"contents": []any{content}}, nil
}

func (s *state) resource(uri string) (string, bool) {
	if uri == staticURI {
		return "this text never changes", true
	}
	if name, ok := strings.CutPrefix(uri, noteURI); ok {
		return "note " + name, name != ""
	}
	key, ok := strings.CutPrefix(uri, itemsURI)
	s.mu.Lock()
	defer s.mu.Unlock()
	v, there := s.items[key]
	return v, ok && there
}

// noResource: -32602 since 2026-07-28, -32002 before (changelog).
func (c *Call) noResource(uri string) error {
	code := codeResourceNotFound
	if c.Modern() {
		code = codeInvalidParams
	}
	e := rpcErrorf(code, "resource not found")
	e.Data = object{"uri": uri}
	return e
}

// SetItem sets an item and tells its subscribers.
func (u *Upstream) SetItem(key, value string) {
	u.state.mu.Lock()
	u.state.items[key] = value
	u.state.mu.Unlock()
	u.Notify("notifications/resources/updated", object{"uri": itemURI(key)})
}
