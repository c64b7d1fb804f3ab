package retry

// Hints are the annotations of a tool that say what a call does (MCP, tools,
// ToolAnnotations). A nil hint was not given.
type Hints struct {
	Present                           bool // the tool has annotations, whichever
	ReadOnly, Idempotent, Destructive *bool
}

// A Rule gives the tools that a glob matches a class.
type Rule struct {
	Glob  string
	Class Class
}

// Rules are what configuration says of tools' classes.
type Rules struct {
	Overrides           []Rule // the first that matches wins
	DistrustAnnotations bool   // neither annotations nor names make a tool anything but a write
}

// Tool returns the class of a tool. Keyed says that an idempotency key is
// configured for it.
func (r Rules) Tool(name string, h Hints, keyed bool) Class {
	for _, rule := range r.Overrides {
		if MatchGlob(rule.Glob, name) {
			return rule.Class
		}
	}
	switch {
	case !r.DistrustAnnotations && isTrue(h.ReadOnly):
		return Read
	case keyed || !r.DistrustAnnotations && isTrue(h.Idempotent):
		return Idempotent
	case !r.DistrustAnnotations && !h.Present && namesReading(name):
		return PresumedRead
	}
	return Write
}

// Configured reports whether configuration, and not an annotation, decides the
// class of a tool.
func (r Rules) Configured(name string) bool {
	for _, rule := range r.Overrides {
		if MatchGlob(rule.Glob, name) {
			return true
		}
	}
	return false
}

func isTrue(b *bool) bool { return b != nil && *b }
