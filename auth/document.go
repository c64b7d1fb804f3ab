package auth

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxLifetime caps what a server says about a token's life.
const maxLifetime = 10 * 365 * 24 * time.Hour

// decode reads one JSON document, strictly. An error names the document and the
// field, and repeats nothing of the content, which may be secret.
func decode(document string, body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return describeJSON(document, err)
	}
	return nil
}

func describeJSON(document string, err error) error {
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		field := strings.TrimPrefix(string(semantic.JSONPointer), "/")
		if field == "" {
			return fmt.Errorf("%s: not a JSON object", document)
		}
		return fmt.Errorf("%s: field %q has the wrong type", document, clean(field))
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName) {
		return fmt.Errorf("%s: field %q occurs twice", document, clean(strings.TrimPrefix(string(syntactic.JSONPointer), "/")))
	}
	return fmt.Errorf("%s: not valid JSON", document)
}

func present(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

// number reads a JSON number, or a string that holds one: servers send both.
func number(v jsontext.Value) (float64, bool) {
	text := string(v)
	if v.Kind() == '"' {
		if json.Unmarshal(v, &text) != nil {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// expiresIn turns a lifetime in seconds into a time. Zero and less mean that the
// server does not say.
func expiresIn(document string, v jsontext.Value, now time.Time) (time.Time, error) {
	seconds, ok := number(v)
	if !ok {
		return time.Time{}, fmt.Errorf(`%s: field "expires_in" is not a number of seconds`, document)
	}
	if seconds <= 0 {
		return time.Time{}, nil
	}
	if seconds > maxLifetime.Seconds() {
		return now.Add(maxLifetime).Round(0), nil
	}
	return now.Add(time.Duration(seconds * float64(time.Second))).Round(0), nil
}

// checkToken accepts what may stand in a header after "Bearer ". RFC 6749,
// appendix A.12 allows visible characters and the space; the space is refused
// here because no bearer token (RFC 6750, section 2.1) has one.
func checkToken(document, s string) (Secret, error) {
	if scheme, rest, ok := strings.Cut(s, " "); ok && strings.EqualFold(scheme, "Bearer") {
		s = strings.TrimSpace(rest)
	}
	switch {
	case s == "":
		return Secret{}, fmt.Errorf("%s: the token is empty", document)
	case len(s) > maxHeader:
		return Secret{}, fmt.Errorf("%s: the token is longer than %d bytes", document, maxHeader)
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }):
		return Secret{}, fmt.Errorf("%s: the token holds blanks, line breaks or other characters that cannot be sent", document)
	}
	return NewSecret(s), nil
}

// clean makes text of a peer fit to be shown: one short line of printable
// characters.
func clean(s string) string {
	const longest = 200
	s = strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?"))
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > longest {
		return string(runes[:longest]) + "..."
	}
	return s
}
