package bridgetest

import "strings"

func prompts() []any {
	return []any{
		object{"name": "greet", "description": "Greets somebody.", "arguments": []any{
			object{"name": "name", "description": "whom", "required": true},
			object{"name": "style", "description": "how"},
		}},
		object{"name": "plain", "description": "Takes no arguments."},
	}
}

func (c *Call) getPrompt() (any, error) {
	args := c.params.open("arguments")
	var text string
	switch name := c.params.string("name"); {
	case name == "plain":
		text = "Say something plain."
	case name != "greet":
		return nil, rpcErrorf(codeInvalidParams, "prompt %q is not known", name)
	case !args.has("name"):
		return nil, rpcErrorf(codeInvalidParams, `argument "name" is missing`)
	default:
		text = strings.TrimSpace("Greet " + args.string("name") + ". " + args.string("style"))
	}
	message := object{"role": "user", "content": object{"type": "text", "text": text}}
	return object{"description": "a prompt", "messages": []any{message}}, nil
}

// complete completes the argument style of greet, and names of notes.
func (c *Call) complete() (any, error) {
	begun := c.params.open("argument").string("value")
	values := []string{}
	for _, v := range []string{"formal", "friendly", "funny"} {
		if strings.HasPrefix(v, begun) {
			values = append(values, v)
		}
	}
	return object{"completion": object{"values": values, "total": len(values), "hasMore": false}}, nil
}
