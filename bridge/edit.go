package bridge

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// memberSpan widens the span of an object member's value to the whole member
// and one comma beside it, so that removing it leaves a valid object. raw is
// valid JSON and the member's name needs no escapes to be told from a quote.
func memberSpan(raw []byte, value jsonrpc.Span) jsonrpc.Span {
	start := value.Start - 1
	for raw[start] != ':' {
		start--
	}
	for raw[start] != '"' {
		start--
	}
	start--
	for raw[start] != '"' { // names looked for here hold no quotes
		start--
	}
	s := jsonrpc.Span{Start: start, End: value.End}
	for i := s.Start - 1; i >= 0 && raw[i] != '{'; i-- {
		if raw[i] == ',' {
			s.Start = i
			return s
		}
	}
	for i := s.End; i < len(raw) && raw[i] != '}'; i++ {
		if raw[i] == ',' {
			s.End = i + 1
			break
		}
	}
	return s
}

// settle sorts edits and repairs neighbouring removals: when the first member of
// an object goes together with the ones after it, each takes the comma behind it.
func settle(raw []byte, edits []jsonrpc.Edit) []jsonrpc.Edit {
	sortEdits(edits)
	for i := 1; i < len(edits); i++ {
		prev, next := &edits[i-1], &edits[i]
		if len(prev.New) == 0 && len(next.New) == 0 && next.Start < prev.End {
			// prev ate the comma that next starts with: next takes the one behind it.
			next.Start = prev.End
			for j := next.End; j < len(raw) && raw[j] != '}'; j++ {
				if raw[j] == ',' {
					next.End = j + 1
					break
				}
			}
		}
	}
	return edits
}

// insertFirst adds members (without a trailing comma) at the front of the
// object at s.
func insertFirst(raw []byte, s jsonrpc.Span, members []byte) jsonrpc.Edit {
	at := s.Start
	for raw[at] != '{' {
		at++
	}
	at++
	next := at
	for isSpace(raw[next]) {
		next++
	}
	if raw[next] != '}' {
		members = append(members, ',')
	}
	return jsonrpc.Edit{Span: jsonrpc.Span{Start: at, End: at}, New: members}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// sortEdits puts edits in order; what is put in before a member comes before the
// removal of that member.
func sortEdits(edits []jsonrpc.Edit) {
	slices.SortStableFunc(edits, func(a, b jsonrpc.Edit) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
}

// pieces returns raw with edits applied as parts to be written in order. Parts
// alias raw: nothing is copied.
func pieces(raw []byte, edits []jsonrpc.Edit) [][]byte {
	parts := make([][]byte, 0, 2*len(edits)+1)
	at := 0
	for _, e := range edits {
		parts = append(parts, raw[at:e.Start], e.New)
		at = e.End
	}
	return append(parts, raw[at:])
}

// concat joins JSON text and values.
func concat(parts ...any) []byte {
	var out []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			out = append(out, p...)
		case []byte:
			out = append(out, p...)
		}
	}
	return out
}

// appendString appends s as a JSON string; invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	quoted, _ := jsontext.AppendQuote(dst, s) // the error says only that U+FFFD was needed
	return quoted
}

func quote(s string) []byte { return appendString(nil, s) }
