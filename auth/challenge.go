package auth

import (
	"net/http"
	"slices"
	"strings"
)

// maxChallenge bounds the WWW-Authenticate text that is read, in bytes.
const maxChallenge = 16 << 10

// A Challenge is what a 401 or 403 asks for, as far as bearer tokens go.
type Challenge struct {
	Bearer           bool     // the response offers the Bearer scheme
	Error            string   // such as invalid_token or insufficient_scope
	Scopes           []string // nil if the server names none
	ResourceMetadata string   // URL of the protected resource metadata, not checked yet
}

// ParseChallenge reads the WWW-Authenticate headers of a response. Schemes and
// parameter names are read in any case, and several challenges may share a line
// (RFC 9110, section 11.6.1). What cannot be read is skipped, so that the odd
// challenge of some proxy does not hide the one that matters; this is also why
// it is not left to the SDK's parser, which refuses the whole response then.
func ParseChallenge(h http.Header) Challenge {
	for _, line := range h.Values("WWW-Authenticate") {
		if len(line) > maxChallenge {
			continue
		}
		for _, c := range challenges(line) {
			if strings.EqualFold(c.scheme, "Bearer") {
				return c.bearer()
			}
		}
	}
	return Challenge{}
}

type rawChallenge struct {
	scheme string
	params map[string]string
}

func (c rawChallenge) bearer() Challenge {
	return Challenge{
		Bearer:           true,
		Error:            clean(c.params["error"]),
		Scopes:           scopeList(c.params["scope"]),
		ResourceMetadata: c.params["resource_metadata"],
	}
}

// challenges splits one header line. A word that is followed by "=" is a
// parameter of the challenge before it; any other word begins a challenge.
func challenges(line string) []rawChallenge {
	var found []rawChallenge
	s := &challengeScanner{rest: line}
	for s.skip(" \t,"); s.rest != ""; s.skip(" \t,") {
		word := s.word()
		if word == "" {
			s.rest = s.rest[1:] // no token begins here
			continue
		}
		value, isParam := s.value()
		switch {
		case !isParam:
			found = append(found, rawChallenge{scheme: word, params: map[string]string{}})
		case len(found) > 0:
			if name := strings.ToLower(word); found[len(found)-1].params[name] == "" {
				found[len(found)-1].params[name] = value
			}
		}
	}
	return found
}

type challengeScanner struct{ rest string }

func (s *challengeScanner) skip(set string) { s.rest = strings.TrimLeft(s.rest, set) }

// word takes a token, or a token68 with its slashes.
func (s *challengeScanner) word() string {
	end := strings.IndexFunc(s.rest, func(r rune) bool { return r != '/' && !isToken(string(r)) })
	if end < 0 {
		end = len(s.rest)
	}
	word := s.rest[:end]
	s.rest = s.rest[end:]
	return word
}

// value takes "= value" if it comes next.
func (s *challengeScanner) value() (string, bool) {
	after, ok := strings.CutPrefix(strings.TrimLeft(s.rest, " \t"), "=")
	if !ok {
		return "", false
	}
	s.rest = strings.TrimLeft(after, " \t")
	if strings.HasPrefix(s.rest, `"`) {
		return s.quoted(), true
	}
	end := strings.IndexAny(s.rest, ", \t")
	if end < 0 {
		end = len(s.rest)
	}
	value := s.rest[:end]
	s.rest = s.rest[end:]
	return value, true
}

// quoted takes a quoted string; one without its end goes to the end of the line.
func (s *challengeScanner) quoted() string {
	var b strings.Builder
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '\\' && i+1 < len(s.rest):
			i++
			b.WriteByte(s.rest[i])
		case c == '"':
			s.rest = s.rest[i+1:]
			return b.String()
		default:
			b.WriteByte(c)
		}
	}
	s.rest = ""
	return b.String()
}

// scopeList splits a scope value (RFC 6749, section 3.3). Repeated scopes and
// characters that no scope has are left out.
func scopeList(s string) []string {
	var list []string
	for scope := range strings.FieldsSeq(s) {
		bad := strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
		if !bad && !slices.Contains(list, scope) {
			list = append(list, scope)
		}
	}
	return list
}

// union returns the scopes of both lists, those of a first, each once.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// covers reports whether all of part is in whole.
func covers(whole, part []string) bool {
	return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(whole, s) })
}
