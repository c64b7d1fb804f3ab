package authtest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// ServeHTTP serves everything that the server has, so that it can also stand at
// the origin of another endpoint.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r) }

// Allow decides about a request to an endpoint that stands elsewhere, as /mcp
// does: it reports whether the token of r is good and was asked for with the
// scope need ("" for none). Otherwise it has written the refusal.
func (s *Server) Allow(w http.ResponseWriter, r *http.Request, need string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	switch {
	case !ok || !g.expires.IsZero() && time.Now().After(g.expires):
		s.refuse(w, http.StatusUnauthorized, "", s.quirks.ListScope)
		return false
	case need != "" && !slices.Contains(g.scopes, need):
		s.refuse(w, http.StatusForbidden, "insufficient_scope", need)
		return false
	}
	s.ledger.Calls++
	return true
}

// Secrets returns every secret that was given out or shown so far.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.issued)
	for _, form := range s.ledger.TokenRequests {
		all = append(all, secretsIn(form)...)
	}
	for _, secret := range s.client {
		all = append(all, secret)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(one string) bool { return one == "" })
}

func secretsIn(form url.Values) []string {
	var found []string
	for _, name := range []string{"code", "code_verifier", "refresh_token", "client_secret", "client_assertion", "device_code"} {
		found = append(found, form[name]...)
	}
	return found
}
