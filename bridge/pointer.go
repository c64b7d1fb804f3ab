package bridge

import (
	"strings"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// This file is RFC 6901, JSON pointers, as far as configuration uses them.

// setPointer returns obj with value at pointer; missing objects on the way are
// made. A pointer into something that is no object leaves obj as it is.
func setPointer(obj []byte, pointer string, value []byte) []byte {
	name, rest, ok := pointerStep(pointer)
	if !ok || len(obj) == 0 || obj[0] != '{' {
		return obj
	}
	if rest == "" {
		return jsonrpc.With(obj, name, value)
	}
	inner := jsonrpc.Get(obj, name)
	if len(inner) == 0 {
		inner = []byte("{}")
	}
	return jsonrpc.With(obj, name, setPointer(inner, rest, value))
}

// fitsPointer reports whether setPointer could put a value into obj: everything
// on the way is an object, or not there.
func fitsPointer(obj []byte, pointer string) bool {
	for {
		name, rest, ok := pointerStep(pointer)
		if !ok || len(obj) == 0 || obj[0] != '{' {
			return false
		}
		if rest == "" {
			return true
		}
		inner := jsonrpc.Get(obj, name)
		if len(inner) == 0 {
			return true
		}
		obj, pointer = inner, rest
	}
}

// getPointer is the value at pointer, nil if there is none.
func getPointer(value []byte, pointer string) []byte {
	for pointer != "" {
		name, rest, ok := pointerStep(pointer)
		if !ok || len(value) == 0 {
			return nil
		}
		switch value[0] {
		case '{':
			value = jsonrpc.Get(value, name)
		case '[':
			items, err := jsonrpc.Split(value)
			i, whole := jsonrpc.Integer([]byte(name))
			if err != nil || !whole || i < 0 || i >= int64(len(items)) {
				return nil
			}
			value = items[i]
		default:
			return nil
		}
		pointer = rest
	}
	return value
}

// pointerStep splits the first reference token off a pointer.
func pointerStep(pointer string) (name, rest string, ok bool) {
	after, ok := strings.CutPrefix(pointer, "/")
	if !ok {
		return "", "", false
	}
	name, rest, more := strings.Cut(after, "/")
	if more {
		rest = "/" + rest
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(name), rest, true
}
