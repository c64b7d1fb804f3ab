package wire

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

// maxTargets bounds how many redirects are remembered.
const maxTargets = 16

// A memory holds what the server told us to remember: cookies, and where it
// redirected. It lives as long as the process.
type memory struct {
	jar     *cookiejar.Jar // nil: cookies are not kept
	cookies atomic.Bool    // one was set

	mu      sync.Mutex
	targets map[string]*url.URL // by the URL that was redirected
}

func newMemory(keepCookies bool) *memory {
	m := &memory{targets: make(map[string]*url.URL)}
	if keepCookies {
		m.jar, _ = cookiejar.New(nil) // never fails without options
	}
	return m
}

// target returns where requests for u go.
func (m *memory) target(u *url.URL) *url.URL {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.targets) == 0 {
		return u
	}
	if to, ok := m.targets[u.String()]; ok {
		return to
	}
	return u
}

// learn remembers where the requests for u were answered, and forgets a target
// that is gone.
func (m *memory) learn(u *url.URL, t *trail, status int) {
	if t.hops() == 0 && status != http.StatusNotFound && status != http.StatusGone {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := u.String()
	switch {
	case status == http.StatusNotFound || status == http.StatusGone:
		delete(m.targets, key)
	case status/100 != 3 && len(m.targets) < maxTargets:
		m.targets[key] = t.at()
	}
}

// addCookies puts the cookies for u beside the configured ones.
func (m *memory) addCookies(u *url.URL, h http.Header, configured []string) {
	if m.jar == nil || !m.cookies.Load() {
		return
	}
	parts := append([]string(nil), configured...)
	for _, cookie := range m.jar.Cookies(u) {
		parts = append(parts, cookie.Name+"="+cookie.Value)
	}
	if len(parts) == 0 {
		delete(h, "Cookie")
		return
	}
	h["Cookie"] = []string{strings.Join(parts, "; ")}
}

// keepCookies keeps the cookies of an answer from u.
func (m *memory) keepCookies(u *url.URL, resp *http.Response) {
	if m.jar == nil || resp.Header["Set-Cookie"] == nil {
		return
	}
	m.jar.SetCookies(u, resp.Cookies())
	m.cookies.Store(true)
}
