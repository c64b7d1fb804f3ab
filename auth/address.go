package auth

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
)

// An addressRule says which URLs may be used.
type addressRule struct {
	plain    bool // http to any host (--allow-http)
	loopback bool // http to this machine, because the server is on it
}

// rule returns the rule for URLs that the server at u names. A server elsewhere
// has no business with http on this machine: it would make the user's own
// services the target.
func rule(server *url.URL, allowHTTP bool) addressRule {
	return addressRule{plain: allowHTTP, loopback: IsLoopback(server.Hostname())}
}

// IsLoopback reports whether host is a name or address of this machine.
func IsLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// parse reads an absolute URL of a document's field and checks that it may be
// used. The communication security of the 2026-07-28 revision asks for https;
// http is for this machine alone.
func (r addressRule) parse(document, field, raw string) (*url.URL, error) {
	u, err := r.check(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: field %q: %w", document, field, err)
	}
	return u, nil
}

func (r addressRule) check(raw string) (*url.URL, error) {
	if strings.ContainsFunc(raw, func(c rune) bool { return isControl(c) || c == '\t' || c == ' ' || c == '\\' || c == '`' }) {
		return nil, errors.New("not a valid URL")
	}
	u, err := url.Parse(raw)
	if err == nil && u.Scheme != "" && u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("the URL has the scheme %q; only https is allowed", clean(u.Scheme))
	}
	switch {
	case err != nil || u.Scheme == "" || u.Opaque != "" || u.Host == "" || u.Hostname() == "":
		return nil, errors.New("not an absolute URL")
	case u.User != nil:
		return nil, errors.New("the URL holds a user name or password")
	case strings.ContainsFunc(u.Hostname(), isNoHost):
		return nil, errors.New("the host is not a valid name or address")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return nil, errors.New("the URL holds a fragment")
	case u.Scheme == "https":
		return u, nil
	case r.plain, r.loopback && IsLoopback(u.Hostname()):
		return u, nil
	}
	return nil, fmt.Errorf("%s is not https", shown(u))
}

func isNoHost(r rune) bool {
	return !isAlphanumeric(r) && !unicode.IsLetter(r) && !strings.ContainsRune("-._:", r)
}

// optional is parse for a field that may be missing.
func (r addressRule) optional(document, field, raw string) error {
	if raw == "" {
		return nil
	}
	_, err := r.parse(document, field, raw)
	return err
}

// shown is u for people: without user, query and fragment.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func shownText(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "an invalid URL"
	}
	return shown(u)
}

// sameOrigin compares scheme, host and port as RFC 6454 does.
func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if strings.EqualFold(u.Scheme, "https") {
		return "443"
	}
	return "80"
}
