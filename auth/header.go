package auth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// maxHeader bounds the value of one configured header, in bytes.
const maxHeader = 16 << 10

// A Header is one HTTP header to send with each request to the upstream.
type Header struct {
	Name  string // canonical form
	Value Secret

	variables string // names of the variables that the value came from, for Principal
}

// SetOn sets the header on h. A later header of the same name replaces an
// earlier one.
func (h Header) SetOn(to http.Header) { to.Set(h.Name, h.Value.Reveal()) }

// ParseHeader reads "Name: value" (the space is optional). In the value ${NAME}
// stands for what env says of NAME and $$ for one dollar sign; a variable that
// is not set is an error that names it. Refused are control characters, names
// that are no HTTP token, and names that belong to the protocol. No error
// contains the value.
func ParseHeader(s string, env func(string) (string, bool)) (Header, error) {
	name, value, err := splitHeader(s)
	if err != nil {
		return Header{}, err
	}
	value, variables, err := expand(value, env)
	if err != nil {
		return Header{}, fmt.Errorf("header %s: %w", name, err)
	}
	h, err := newHeader(name, value)
	h.variables = variables
	return h, err
}

// BearerEnv returns the header "Authorization: Bearer ..." with the token that
// the environment variable name holds. A value that already begins with
// "Bearer " is taken as it is.
func BearerEnv(name string, env func(string) (string, bool)) (Header, error) {
	value, ok := env(name)
	value = strings.TrimSpace(value)
	if !ok || value == "" {
		return Header{}, fmt.Errorf("bearer token: environment variable %q is not set; set it where the host starts this command", name)
	}
	if scheme, rest, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "Bearer") {
		value = strings.TrimSpace(rest)
	}
	h, err := newHeader("Authorization", "Bearer "+value)
	h.variables = name
	return h, err
}

func splitHeader(s string) (name, value string, err error) {
	name, value, ok := strings.Cut(s, ":")
	name = strings.TrimRight(name, " \t")
	if !ok {
		// What has no colon may be half a secret: it is not repeated.
		return "", "", errors.New(`header: no colon found; write it as "Name: value" in one argument`)
	}
	if !isToken(name) {
		return "", "", fmt.Errorf("header: the name before the colon is not a valid HTTP header name")
	}
	return name, value, nil
}

func newHeader(name, value string) (Header, error) {
	name = http.CanonicalHeaderKey(name)
	value = strings.Trim(value, " \t")
	switch {
	case reserved(name):
		return Header{}, fmt.Errorf("header %s: this header belongs to the protocol and cannot be set", name)
	case value == "" && name == "Authorization":
		return Header{}, fmt.Errorf(`header %s: the value is empty; some hosts split arguments at spaces: write "Authorization:${NAME}" without a space and keep "Bearer ..." in an environment variable`, name)
	case value == "":
		return Header{}, fmt.Errorf("header %s: the value is empty", name)
	case len(value) > maxHeader:
		return Header{}, fmt.Errorf("header %s: the value is longer than %d bytes", name, maxHeader)
	case strings.ContainsFunc(value, isControl):
		return Header{}, fmt.Errorf("header %s: the value holds a line break or another control character", name)
	}
	return Header{Name: name, Value: NewSecret(value)}, nil
}

// expand replaces ${NAME} and $$ in value. Other dollar signs stay. It also
// returns the names of the variables, separated by blanks.
func expand(value string, env func(string) (string, bool)) (expanded, variables string, err error) {
	var out strings.Builder
	var names []string
	if err := checkPlaceholder(value); err != nil {
		return "", "", err
	}
	for {
		before, rest, found := strings.Cut(value, "$")
		out.WriteString(before)
		if !found {
			return out.String(), strings.Join(names, " "), nil
		}
		switch {
		case strings.HasPrefix(rest, "$"):
			out.WriteByte('$')
			value = rest[1:]
		case strings.HasPrefix(rest, "{"):
			name, after, err := variable(rest[1:])
			if err != nil {
				return "", "", err
			}
			text, ok := env(name)
			if !ok {
				return "", "", fmt.Errorf("environment variable %q is not set; set it where the host starts this command", name)
			}
			// A variable read from a file often ends with a line break.
			out.WriteString(strings.TrimRight(text, "\r\n"))
			value = after
			names = append(names, name)
		default:
			out.WriteByte('$')
			value = rest
		}
	}
}

func variable(s string) (name, after string, err error) {
	name, after, ok := strings.Cut(s, "}")
	if !ok || !isVariable(name) {
		return "", "", errors.New("after ${ comes no variable name and closing brace; write $${ for the text itself")
	}
	return name, after, nil
}

// checkPlaceholder refuses what a host should have replaced and did not.
func checkPlaceholder(value string) error {
	_, rest, found := strings.Cut(value, "{env:")
	if !found {
		return nil
	}
	name, _, _ := strings.Cut(rest, "}")
	if !isVariable(name) {
		return nil
	}
	return fmt.Errorf("the value still holds {env:%s}, which the host did not replace; write ${%s}", name, name)
}

// reserved reports whether a header (in canonical form) is set by the protocol
// or decides how a message is framed. Idempotency-Key is among them because
// net/http re-sends requests that carry it.
func reserved(name string) bool {
	if strings.HasPrefix(name, "Mcp-") {
		return true
	}
	switch name {
	case "Accept", "Accept-Encoding", "Content-Type", "Content-Length", "Content-Encoding",
		"Host", "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Expect", "Last-Event-Id",
		"Idempotency-Key", "X-Idempotency-Key":
		return true
	}
	return false
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	const extra = "!#$%&'*+-.^_`|~"
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !isAlphanumeric(r) && !strings.ContainsRune(extra, r)
	})
}

func isVariable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !isAlphanumeric(r) && r != '_' })
}

func isAlphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
