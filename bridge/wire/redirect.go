package wire

import (
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Limits of redirects.
const (
	maxHops       = 5
	redirectDrain = 100 * time.Millisecond // for the body of a redirect to end
)

// A trail is the way of one request through redirects; the first entry is
// where it began.
type trail []*url.URL

func newTrail(first *url.URL) *trail { return &trail{first} }

func (t *trail) at() *url.URL { return (*t)[len(*t)-1] }

func (t *trail) hops() int { return len(*t) - 1 }

func (t *trail) add(u *url.URL) { *t = append(*t, u) }

func (t *trail) visited(u *url.URL) bool {
	for _, been := range *t {
		if been.String() == u.String() {
			return true
		}
	}
	return false
}

// redirect returns where to deliver next. Where it is nil, why says what keeps
// an answer 3xx from being followed.
//
// 307 and 308 keep method and body (RFC 9110, 15.4.8 and 15.4.9). 301, 302 and
// 303 may turn a POST into a GET, so they are followed for a GET only.
func (c *Client) redirect(method string, resp *Response, t *trail) (next *url.URL, why string) {
	switch resp.Status {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	case http.StatusMovedPermanently, http.StatusFound:
		if method != http.MethodGet {
			return nil, fmt.Sprintf("a %s is not repeated after status %d%s", method, resp.Status, c.pointing(resp, t))
		}
	case http.StatusSeeOther:
		return nil, fmt.Sprintf("status 303 names another resource%s", c.pointing(resp, t))
	default:
		return nil, ""
	}
	next, err := t.at().Parse(resp.Header.Get("Location"))
	switch {
	case resp.Header.Get("Location") == "":
		return nil, "the redirect has no Location"
	case err != nil:
		return nil, "the Location of the redirect is no URL"
	case originOf(next) != c.origin:
		return nil, c.foreign(next)
	case t.hops() >= maxHops:
		return nil, fmt.Sprintf("more than %d redirects", maxHops)
	}
	next.User, next.Fragment, next.RawFragment = nil, "", ""
	if t.visited(next) {
		return nil, "the redirects run in a circle, back to " + shown(next)
	}
	return next, ""
}

// pointing names the target of a redirect that is not followed, for people.
func (c *Client) pointing(resp *Response, t *trail) string {
	next, err := t.at().Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		return ""
	}
	return ": the server points to " + oneLine(shown(next)) + "; if that is the right address, configure it"
}

// foreign says why a redirect to another origin is not followed.
func (c *Client) foreign(next *url.URL) string {
	if c.origin.scheme == "https" && next.Scheme == "http" {
		return "the redirect to " + oneLine(shown(next)) + " would leave TLS"
	}
	return "the redirect leads to another server, " + oneLine(shown(next)) + "; if that is the right address, configure it"
}
