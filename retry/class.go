package retry

import "fmt"

// A Class says what sending a call twice may do. It is fixed when a call
// begins and does not change with what happens to it.
type Class uint8

const (
	Write        Class = iota // the zero value: what is not known may have an effect
	PresumedRead              // its name says that it reads; read for the journal, write for re-delivery
	Idempotent                // sent twice it has one effect
	Read                      // no effect
)

// String returns the class as texts and records name it.
func (c Class) String() string {
	switch c {
	case Write:
		return "write"
	case PresumedRead:
		return "presumed read"
	case Idempotent:
		return "idempotent"
	case Read:
		return "read"
	}
	return "unknown"
}

// ParseClass reads a class as configuration spells it: read, idempotent or
// write. A presumption is not to be had by configuration.
func ParseClass(text string) (Class, error) {
	switch text {
	case "read":
		return Read, nil
	case "idempotent":
		return Idempotent, nil
	case "write":
		return Write, nil
	}
	return Write, fmt.Errorf("class %q: want read, idempotent or write", text)
}

// repeatable reports whether a call of the class may be sent again although the
// first delivery may have had its effect.
func (c Class) repeatable() bool { return c == Read || c == Idempotent }

// Method returns the class of a request that is no tools/call: the methods of
// MCP's revisions read, or do no harm twice; unknown ones may write. Of
// tools/call itself only Rules know more than Write.
func Method(method string) Class {
	switch method {
	case "initialize", "ping", "server/discover",
		"tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get",
		"resources/subscribe", "resources/unsubscribe", "subscriptions/listen",
		"completion/complete", "logging/setLevel",
		"tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update",
		"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed":
		return Read
	}
	return Write
}
