package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// A site answers by path and keeps what it got.
type site struct {
	*httptest.Server
	mu   sync.Mutex
	hits []string // method, path, body, Authorization
}

func newSite(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.hits = append(s.hits, fmt.Sprintf("%s %s %s %s", r.Method, r.URL.Path, text, r.Header.Get("Authorization")))
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) got(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Join(s.hits, "\n") != strings.Join(want, "\n") {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(s.hits, "\n"), strings.Join(want, "\n"))
	}
}

func token(cfg *Config) { cfg.Headers = http.Header{"authorization": {"Bearer " + secret}} }

// 307 and 308 within the origin keep method, body and headers, and the target
// is remembered.
func TestRedirectWithinOrigin(t *testing.T) {
	t.Parallel()
	for _, status := range []int{307, 308} {
		for _, absolute := range []bool{false, true} {
			var s *site
			s = newSite(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/mcp/" {
					io.WriteString(w, "{}")
					return
				}
				to := "/mcp/"
				if absolute {
					to = s.URL + to
				}
				w.Header().Set("Location", to)
				w.WriteHeader(status)
				io.WriteString(w, "moved")
			})
			c := client(t, s.URL+"/mcp", token)
			resp, _ := must(t, c, post("one"))
			if resp.Status != 200 || resp.Hops != 1 || resp.Redirect != "" {
				t.Errorf("status %d, hops %d, %q", resp.Status, resp.Hops, resp.Redirect)
			}
			if !resp.Reused {
				t.Error("the redirect cost a connection")
			}
			if resp, _ := must(t, c, post("two")); resp.Hops != 0 {
				t.Errorf("hops %d once the target is known", resp.Hops)
			}
			s.got(t, "POST /mcp one Bearer "+secret, "POST /mcp/ one Bearer "+secret, "POST /mcp/ two Bearer "+secret)
		}
	}
}

// A remembered target that is gone is forgotten.
func TestRedirectIsForgotten(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	to := "/a"
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/mcp" {
			w.Header().Set("Location", to)
			w.WriteHeader(307)
		} else if r.URL.Path != to {
			w.WriteHeader(404)
		}
	})
	c := client(t, s.URL+"/mcp")
	must(t, c, post(""))
	mu.Lock()
	to = "/b"
	mu.Unlock()
	if resp, _ := must(t, c, post("")); resp.Status != 404 {
		t.Errorf("status %d", resp.Status)
	}
	if resp, _ := must(t, c, post("")); resp.Status != 200 {
		t.Errorf("status %d", resp.Status)
	}
	s.got(t, "POST /mcp  ", "POST /a  ", "POST /a  ", "POST /mcp  ", "POST /b  ")
}

func TestRedirectsNotFollowed(t *testing.T) {
	t.Parallel()
	other := newSite(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "stolen") })
	for _, test := range []struct {
		name, method, location string
		status, requests       int
		words                  string
	}{
		{"other origin", "POST", other.URL + "/x?token=" + secret, 307, 1, "another server"},
		{"other origin GET", "GET", other.URL + "/x", 302, 1, "another server"},
		{"other scheme", "POST", "https://127.0.0.1/mcp", 308, 1, "another server"},
		{"strange scheme", "POST", "file:///etc/passwd", 307, 1, "another server"},
		{"to itself", "POST", "/mcp", 307, 1, "circle"},
		{"endless", "POST", "", 307, maxHops + 1, "more than 5"},
		{"301", "POST", "/mcp/", 301, 1, "not repeated"},
		{"302", "POST", "/mcp/", 302, 1, "not repeated"},
		{"303", "POST", "/mcp/", 303, 1, "another resource"},
		{"302 DELETE", "DELETE", "/mcp/", 302, 1, "not repeated"},
		{"no location", "POST", "-", 308, 1, "no Location"},
		{"broken location", "POST", "http://[::1/%zz", 308, 1, "no URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			n := 0
			s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				n++
				switch test.location {
				case "":
					w.Header().Set("Location", fmt.Sprintf("/%d", n))
				case "-":
				default:
					w.Header().Set("Location", test.location)
				}
				w.WriteHeader(test.status)
			})
			r := post("{}")
			if r.Method = test.method; test.method != "POST" {
				r.Body = nil
			}
			resp, _ := must(t, client(t, s.URL+"/mcp", token), r)
			if resp.Status != test.status || !strings.Contains(resp.Redirect, test.words) {
				t.Errorf("status %d, %q; want %d, %q", resp.Status, resp.Redirect, test.status, test.words)
			}
			if strings.Contains(resp.Redirect, secret) {
				t.Errorf("%q holds the query", resp.Redirect)
			}
			mu.Lock()
			defer mu.Unlock()
			if n != test.requests {
				t.Errorf("%d requests, want %d", n, test.requests)
			}
		})
	}
	t.Cleanup(func() { other.got(t) })
}

func TestRedirectLeavesTLS(t *testing.T) {
	t.Parallel()
	c := &Client{origin: origin{"https", "a.example", "443"}}
	if why := c.foreign(parse(t, "http://a.example/mcp")); !strings.Contains(why, "leave TLS") {
		t.Errorf("%q", why)
	}
}

func TestGETFollowsFound(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 307, 308} {
		s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/sse" {
				w.Header().Set("Location", "/events")
				w.WriteHeader(status)
			}
		})
		if resp, _ := must(t, client(t, s.URL+"/sse"), get()); resp.Status != 200 || resp.Hops != 1 {
			t.Errorf("%d: status %d, hops %d", status, resp.Status, resp.Hops)
		}
		s.got(t, "GET /sse  ", "GET /events  ")
	}
}

// The second delivery of a redirected request fails.
func TestFailureAfterRedirect(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, func(s *raw, conn net.Conn) {
		r := bufio.NewReader(conn)
		s.read(r)
		io.WriteString(conn, "HTTP/1.1 307 Temporary Redirect\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n")
		s.read(r)
	})
	if f := fails(t, client(t, s.url), post("{}")); f.Hops != 1 {
		t.Errorf("hops %d, want 1", f.Hops)
	}
	s.got(t, 2)
}

// Whatever a Location says, nothing is asked of another origin, and no text
// holds its query or breaks a line.
func FuzzRedirect(f *testing.F) {
	for _, location := range []string{
		"/mcp/", "//evil.example/", "http://a.example:80/x", "http://user:pw@a.example/", "HTTP://A.EXAMPLE/",
		"http://a.example.evil/", "?q=" + secret, "http://a.example:81/", "\\evil.example", "http:x", "%zz", "",
	} {
		f.Add(location, 307, false)
		f.Add(location, 302, true)
	}
	first := &url.URL{Scheme: "http", Host: "a.example", Path: "/mcp"}
	c := &Client{origin: originOf(first)}
	f.Fuzz(func(t *testing.T, location string, status int, get bool) {
		method := "POST"
		if get {
			method = "GET"
		}
		resp := &Response{Status: status, Header: http.Header{"Location": {location}}}
		next, why := c.redirect(method, resp, newTrail(first))
		if next != nil && (originOf(next) != c.origin || next.User != nil || next.Fragment != "" || why != "") {
			t.Errorf("%q leads to %v (%s)", location, next, why)
		}
		if strings.ContainsAny(why, "\r\n") || strings.Contains(why, secret) && strings.Contains(location, "?") && !strings.Contains(strings.SplitN(location, "?", 2)[0], secret) {
			t.Errorf("%q is explained with %q", location, why)
		}
	})
}

func TestCookies(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{true, false} {
		var got []string
		s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
			got = append(got, r.Header.Get("Cookie"))
			http.SetCookie(w, &http.Cookie{Name: "node", Value: "7", Path: "/"})
			http.SetCookie(w, &http.Cookie{Name: "old", Value: "x", MaxAge: -1})
		})
		c := client(t, s.URL+"/mcp", func(cfg *Config) {
			cfg.NoCookies = !keep
			cfg.Headers = http.Header{"Cookie": {"mine=1"}}
		})
		for range 3 {
			must(t, c, post("{}"))
		}
		want := "[mine=1 mine=1 mine=1]"
		if keep {
			want = "[mine=1 mine=1; node=7 mine=1; node=7]"
		}
		if fmt.Sprint(got) != want {
			t.Errorf("keep %v: cookies %v, want %v", keep, got, want)
		}
	}
}

func TestOtherURLs(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	c := client(t, s.URL+"/sse", token)
	r := post("{}")
	r.URL = parse(t, s.URL+"/messages?session=1")
	must(t, c, r)
	s.got(t, "POST /messages {} Bearer "+secret)
	r = post("{}")
	r.URL = parse(t, "http://127.0.0.1:1/messages?token="+secret)
	f := fails(t, c, r)
	if !strings.Contains(f.Detail, "not on the configured server") || strings.Contains(f.Detail, secret) {
		t.Errorf("detail %q", f.Detail)
	}
}
