package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxCallbackQuery bounds the query of a callback, in bytes.
const maxCallbackQuery = 8 << 10

// An authorizationResponse is what came back from the authorization endpoint.
type authorizationResponse struct {
	code        Secret
	iss         string
	issPresent  bool
	failure     string // error
	description string
}

// A callback listens on this machine for one authorization response.
type callback struct {
	redirectURI string
	path        string
	hosts       []string // accepted Host headers
	state       Secret
	result      chan authorizationResponse // holds the first valid one
	server      *http.Server
	listeners   []net.Listener
	serving     sync.WaitGroup
	once        sync.Once
}

// bindCallback binds before any URL is made that names the address. host is the
// name in the redirect URI and must mean this machine; port 0 takes a free one.
func bindCallback(host string, port int, path string) (*callback, error) {
	if !IsLoopback(host) {
		return nil, fmt.Errorf("callback host %q: only localhost and loopback addresses are allowed", host)
	}
	bind := host
	if net.ParseIP(host) == nil {
		bind = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(bind, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("callback: cannot listen on port %d of this machine (is another program using it?): %w", port, err)
	}
	c := &callback{path: path, result: make(chan authorizationResponse, 1), listeners: []net.Listener{l}}
	number := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if bind != host { // a browser may try the other family first
		if six, err := net.Listen("tcp", net.JoinHostPort("::1", number)); err == nil {
			c.listeners = append(c.listeners, six)
		}
	}
	authority := net.JoinHostPort(host, number)
	c.redirectURI = (&url.URL{Scheme: "http", Host: authority, Path: path}).String()
	c.hosts = []string{authority, net.JoinHostPort("127.0.0.1", number), net.JoinHostPort("localhost", number), net.JoinHostPort("::1", number)}
	return c, nil
}

// serve begins to answer; state is what a response must carry.
func (c *callback) serve(state Secret) {
	c.state = state
	c.server = &http.Server{
		Handler:           c,
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      5 * time.Second,
		IdleTimeout:       5 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // stderr is not for this
	}
	for _, l := range c.listeners {
		c.serving.Go(func() { _ = c.server.Serve(l) })
	}
}

// close ends the listener; an answer under way gets a moment to leave.
func (c *callback) close() {
	if c.server == nil {
		for _, l := range c.listeners {
			_ = l.Close()
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c.server.Shutdown(ctx) != nil {
		_ = c.server.Close()
	}
	c.serving.Wait()
}

// ServeHTTP accepts one response: a GET of the exact path, on a loopback name,
// with the state. Everything else gets a 4xx and changes nothing.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !contains(c.hosts, r.Host):
		page(w, http.StatusForbidden, "This address only answers this computer.")
	case r.URL.Path != c.path:
		page(w, http.StatusNotFound, "There is nothing here.")
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		page(w, http.StatusMethodNotAllowed, "There is nothing here.")
	case len(r.URL.RawQuery) > maxCallbackQuery:
		page(w, http.StatusRequestURITooLong, "The answer is too long.")
	default:
		c.accept(w, r.URL.RawQuery)
	}
}

func (c *callback) accept(w http.ResponseWriter, query string) {
	response, err := parseResponse(query, c.state)
	if err != nil {
		page(w, http.StatusBadRequest, "This is not the answer that is waited for. Start the sign-in again if it does not go on.")
		return
	}
	taken := false
	c.once.Do(func() {
		c.result <- response
		taken = true
	})
	if !taken {
		page(w, http.StatusConflict, "This sign-in is over already.")
		return
	}
	page(w, http.StatusOK, "The answer has arrived. You can close this page and go back to your application.")
}

// parseResponse reads the query of an authorization response. Each parameter
// may occur once (RFC 6749, section 3.1), and the state must match.
func parseResponse(query string, state Secret) (authorizationResponse, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return authorizationResponse{}, errors.New("authorization response: not a valid query")
	}
	for name, values := range q {
		if len(values) > 1 {
			return authorizationResponse{}, fmt.Errorf("authorization response: parameter %q occurs twice", clean(name))
		}
	}
	want := state.Reveal()
	if want == "" || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(want)) != 1 {
		return authorizationResponse{}, errors.New("authorization response: it belongs to another sign-in (the state differs)")
	}
	r := authorizationResponse{
		code: NewSecret(q.Get("code")), iss: q.Get("iss"), issPresent: q.Has("iss"),
		failure: clean(q.Get("error")), description: clean(q.Get("error_description")),
	}
	if r.code.IsZero() == (r.failure == "") {
		return authorizationResponse{}, errors.New("authorization response: it holds neither a code nor an error, or both")
	}
	return r, nil
}

// page writes fixed text: nothing of the request is ever shown.
func page(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Connection", "close")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>mcpbridge</title><p>"+text+"</p></html>\n")
}

func contains(hosts []string, host string) bool {
	for _, h := range hosts {
		if strings.EqualFold(h, host) {
			return true
		}
	}
	return false
}
