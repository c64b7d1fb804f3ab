package jsonrpc

import "github.com/go-json-experiment/json/jsontext"

// rescueID looks for the id of a message that is not correct JSON, so that the
// peer can be told which of its requests it was. The id found before the damage
// stands; otherwise the whole text is searched, and an id counts only if all
// brackets match and there is exactly one.
func (m *Message) rescueID(damage *Error) {
	if m.ID != (Span{}) && damage.Class != DuplicateName {
		return
	}
	m.ID = Span{}
	s := scanner{raw: m.Raw}
	if ids := s.topLevelIDs(); len(ids) == 1 && validID(m.Raw[ids[0].Start:ids[0].End]) {
		m.ID = ids[0]
	}
}

func validID(id []byte) bool {
	v := jsontext.Value(id)
	return v.IsValid() && badID(id) == ""
}

// A scanner walks over text that is JSON apart from its damage. It knows
// brackets and strings only.
type scanner struct {
	raw   []byte
	pos   int
	depth int
}

// topLevelIDs returns where the values of members named "id" of the outermost
// object are, nothing if the brackets do not match up to the end.
func (s *scanner) topLevelIDs() (ids []Span) {
	for s.pos < len(s.raw) {
		switch s.raw[s.pos] {
		case '{', '[':
			s.depth++
		case '}', ']':
			s.depth--
		case '"':
			quoted, ok := s.quoted()
			if !ok {
				return nil
			}
			if s.depth == 1 && quoted == `"id"` && s.colon() {
				ids = append(ids, s.scalar())
			}
			continue
		}
		s.pos++
	}
	if s.depth != 0 {
		return nil
	}
	return ids
}

// quoted steps over the string that begins here.
func (s *scanner) quoted() (text string, ok bool) {
	start := s.pos
	for s.pos++; s.pos < len(s.raw); s.pos++ {
		switch s.raw[s.pos] {
		case '\\':
			s.pos++
		case '"':
			s.pos++
			const longest = len(`"id"`)
			return string(s.raw[start:min(s.pos, start+longest+1)]), true
		}
	}
	return "", false
}

// colon steps over a colon and the white space around it.
func (s *scanner) colon() bool {
	s.space()
	if s.pos == len(s.raw) || s.raw[s.pos] != ':' {
		return false
	}
	s.pos++
	s.space()
	return true
}

func (s *scanner) space() {
	for s.pos < len(s.raw) && (s.raw[s.pos] == ' ' || s.raw[s.pos] == '\t' || s.raw[s.pos] == '\r' || s.raw[s.pos] == '\n') {
		s.pos++
	}
}

// scalar steps over a string or whatever else ends at a delimiter.
func (s *scanner) scalar() Span {
	start := s.pos
	if s.pos < len(s.raw) && s.raw[s.pos] == '"' {
		s.quoted()
		return Span{start, min(s.pos, len(s.raw))}
	}
	for ; s.pos < len(s.raw); s.pos++ {
		switch s.raw[s.pos] {
		case ',', '}', ']', '{', '[', ' ', '\t', '\r', '\n':
			return Span{start, s.pos}
		}
	}
	return Span{start, s.pos}
}
