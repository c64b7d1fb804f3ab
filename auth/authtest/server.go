package authtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Ledger counts what the server was asked.
type Ledger struct {
	Registrations  int
	Authorizations int
	Codes          int // codes redeemed
	Refreshes      int
	ClientGrants   int
	DevicePolls    int
	Reused         int // refresh tokens presented twice: the family is revoked then
	Calls          int // accepted calls of the MCP endpoint
	Refused        int // 401 and 403
	Revoked        int
	TokenRequests  []url.Values  // forms sent to the token endpoint
	TokenHeaders   []http.Header // their headers
	Requested      []url.Values  // queries of the authorization endpoint
	Foreign        []http.Header // headers of requests to anything but the MCP endpoint
	Looked         []string      // paths of documents asked for, in order
}

// A Server is one authorization server with one MCP endpoint at /mcp.
type Server struct {
	URL string // of the MCP endpoint

	base   string
	http   *httptest.Server
	mu     sync.Mutex
	quirks Quirks
	ledger Ledger
	client map[string]string // id -> secret
	codes  map[string]grant
	access map[string]grant
	fresh  map[string]grant // refresh tokens that are good
	spent  map[string]bool
	device map[string]int // device code -> polls so far
	issued []string       // every token that was given out
}

type grant struct {
	client, redirect, challenge, resource string
	scopes                                []string
	expires                               time.Time
}

// Start starts a server that Close stops.
func Start(q Quirks) *Server {
	s := &Server{quirks: q, client: map[string]string{}, codes: map[string]grant{}, access: map[string]grant{},
		fresh: map[string]grant{}, spent: map[string]bool{}, device: map[string]int{}}
	if q.ClientID != "" {
		s.client[q.ClientID] = q.ClientSecret
	}
	s.mu.Lock() // requests of other processes may come before the end
	defer s.mu.Unlock()
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.base = s.http.URL
	s.URL = s.base + "/mcp"
	return s
}

// Close stops the server.
func (s *Server) Close() { s.http.Close() }

// Base is the URL of the origin.
func (s *Server) Base() string { return s.base }

// Issuer is the right issuer.
func (s *Server) Issuer() string { return s.base + s.quirks.IssuerPath }

// Ledger returns a copy of the ledger.
func (s *Server) Ledger() Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledger
	l.TokenRequests = slices.Clone(l.TokenRequests)
	l.Requested = slices.Clone(l.Requested)
	l.Foreign = slices.Clone(l.Foreign)
	l.Looked = slices.Clone(l.Looked)
	return l
}

// Change changes the quirks while the server runs.
func (s *Server) Change(f func(*Quirks)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.quirks)
}

// ExpireAccess makes all access tokens invalid.
func (s *Server) ExpireAccess() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
}

// RevokeRefresh makes all refresh tokens invalid.
func (s *Server) RevokeRefresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.fresh)
}

// ForgetClients makes the server lose its registrations.
func (s *Server) ForgetClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.client)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path != "/mcp" {
		s.ledger.Foreign = append(s.ledger.Foreign, r.Header.Clone())
	}
	switch r.URL.Path {
	case "/mcp":
		s.mcp(w, r)
	case "/register":
		s.register(w, r)
	case "/authorize":
		s.authorize(w, r)
	case "/token":
		s.token(w, r)
	case "/device":
		s.startDevice(w, r)
	case "/revoke":
		s.ledger.Revoked++
	default:
		s.document(w, r)
	}
}

func (s *Server) document(w http.ResponseWriter, r *http.Request) {
	s.ledger.Looked = append(s.ledger.Looked, r.URL.Path)
	switch r.URL.Path {
	case s.resourcePath():
		if s.quirks.ResourceBody != "" {
			raw(w, http.StatusOK, s.quirks.ResourceBody)
			return
		}
		reply(w, http.StatusOK, s.resource())
		return
	case s.serverPath():
		if s.quirks.ServerBody != "" {
			raw(w, http.StatusOK, s.quirks.ServerBody)
			return
		}
		reply(w, http.StatusOK, s.metadata())
		return
	}
	if s.quirks.Pages {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<html><title>app</title></html>")
		return
	}
	http.NotFound(w, r)
}

func (s *Server) resourcePath() string {
	switch s.quirks.ResourceAt {
	case "root":
		return "/.well-known/oauth-protected-resource"
	case "odd":
		return "/odd/resource.json"
	case "none":
		return "-"
	}
	return "/.well-known/oauth-protected-resource/mcp"
}

func (s *Server) serverPath() string {
	switch s.quirks.ServerAt {
	case "oidc":
		return "/.well-known/openid-configuration" + s.quirks.IssuerPath
	case "appended":
		return s.quirks.IssuerPath + "/.well-known/openid-configuration"
	case "none":
		return "-"
	}
	return "/.well-known/oauth-authorization-server" + s.quirks.IssuerPath
}

func (s *Server) resource() map[string]any {
	doc := map[string]any{"resource": either(s.quirks.Resource, s.URL), "authorization_servers": []string{s.Issuer()}}
	if s.quirks.Servers != nil {
		doc["authorization_servers"] = s.quirks.Servers
	}
	if s.quirks.ResourceScope != nil {
		doc["scopes_supported"] = s.quirks.ResourceScope
	}
	return doc
}

func (s *Server) metadata() map[string]any {
	q := s.quirks
	doc := map[string]any{
		"issuer":                 either(q.Issuer, s.Issuer()),
		"authorization_endpoint": either(q.Authorization, s.base+"/authorize"),
		"token_endpoint":         s.base + "/token",
		"revocation_endpoint":    s.base + "/revoke",
		"unknown":                map[string]any{"x": []int{1}},
	}
	if !q.NoRegistration {
		doc["registration_endpoint"] = s.base + "/register"
	}
	if !q.NoPKCE {
		doc["code_challenge_methods_supported"] = []string{"S256"}
	}
	if q.Device {
		doc["device_authorization_endpoint"] = s.base + "/device"
	}
	if q.AuthMethods != nil {
		doc["token_endpoint_auth_methods_supported"] = q.AuthMethods
	}
	if q.ServerScopes != nil {
		doc["scopes_supported"] = q.ServerScopes
	}
	doc["client_id_metadata_document_supported"] = q.Documents
	doc["authorization_response_iss_parameter_supported"] = q.PromiseIss
	return doc
}

func (s *Server) mcp(w http.ResponseWriter, r *http.Request) {
	g, ok := s.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if !ok || !g.expires.IsZero() && time.Now().After(g.expires) {
		s.refuse(w, http.StatusUnauthorized, "", s.quirks.ListScope)
		return
	}
	if need := s.quirks.ToolScope; r.URL.Query().Has("tool") && need != "" && !slices.Contains(g.scopes, need) {
		s.refuse(w, http.StatusForbidden, "insufficient_scope", need)
		return
	}
	if need := s.quirks.ListScope; need != "" && !r.URL.Query().Has("tool") && !slices.Contains(g.scopes, need) {
		s.refuse(w, http.StatusForbidden, "insufficient_scope", need)
		return
	}
	s.ledger.Calls++
	raw(w, http.StatusOK, "{}")
}

func (s *Server) refuse(w http.ResponseWriter, status int, code, scope string) {
	s.ledger.Refused++
	if !s.quirks.NoChallenge {
		c := `Bearer realm="a, b"`
		if code != "" {
			c += `, error="` + code + `"`
		}
		if scope != "" {
			c += `, scope="` + scope + `"`
		}
		switch {
		case s.quirks.Hint != "":
			c += `, resource_metadata="` + s.quirks.Hint + `"`
		case !s.quirks.NoHint && s.resourcePath() != "-":
			c += `, resource_metadata="` + s.base + s.resourcePath() + `"`
		}
		w.Header().Add("WWW-Authenticate", "Negotiate")
		w.Header().Add("WWW-Authenticate", c)
	}
	w.WriteHeader(status)
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	s.ledger.Registrations++
	if s.quirks.RegistrationBody != "" {
		raw(w, http.StatusCreated, s.quirks.RegistrationBody)
		return
	}
	var ask struct {
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
		Type      string   `json:"application_type"`
	}
	if json.NewDecoder(r.Body).Decode(&ask) != nil || len(ask.Redirects) != 1 || ask.Type != "native" {
		reply(w, http.StatusBadRequest, map[string]any{"error": "invalid_client_metadata"})
		return
	}
	id, secret := "client-"+rand.Text()[:8], ""
	doc := map[string]any{"client_id": id, "redirect_uris": ask.Redirects, "token_endpoint_auth_method": ask.Method}
	if ask.Method != "none" {
		secret = "secret-" + rand.Text()
		doc["client_secret"], doc["client_secret_expires_at"] = secret, 0
	}
	s.client[id] = secret
	reply(w, http.StatusCreated, doc)
}

func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.ledger.Authorizations++
	s.ledger.Requested = append(s.ledger.Requested, q)
	id := q.Get("client_id")
	if _, known := s.client[id]; !known && !(s.quirks.Documents && strings.Contains(id, "://")) {
		http.Error(w, "unknown client", http.StatusBadRequest)
		return
	}
	to, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}}
	switch s.quirks.SendIss {
	case "right":
		back.Set("iss", s.Issuer())
	case "wrong":
		back.Set("iss", "https://other.example")
	}
	switch {
	case s.quirks.Deny != "":
		back.Set("error", s.quirks.Deny)
		back.Set("error_description", "<script>no</script>")
	case s.quirks.RefusesResource && q.Has("resource"):
		back.Set("error", "invalid_target")
	default:
		code := "code-" + rand.Text()
		s.codes[code] = grant{client: id, redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"),
			resource: q.Get("resource"), scopes: strings.Fields(q.Get("scope"))}
		back.Set("code", code)
	}
	to.RawQuery = back.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	form := r.PostForm
	s.ledger.TokenRequests = append(s.ledger.TokenRequests, form)
	s.ledger.TokenHeaders = append(s.ledger.TokenHeaders, r.Header.Clone())
	if s.quirks.TokenRedirect {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		return
	}
	if s.quirks.TokenBody != "" {
		raw(w, max(s.quirks.TokenStatus, http.StatusOK), s.quirks.TokenBody)
		return
	}
	id, ok := s.authenticated(r)
	if !ok {
		reply(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	if s.quirks.RefusesResource && form.Has("resource") {
		fail(w, "invalid_target")
		return
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		s.redeem(w, form, id)
	case "refresh_token":
		s.refresh(w, form, id)
	case "client_credentials":
		s.ledger.ClientGrants++
		if !s.quirks.ClientGrant {
			fail(w, "unsupported_grant_type")
			return
		}
		s.issue(w, grant{client: id, scopes: strings.Fields(form.Get("scope"))}, false)
	case "urn:ietf:params:oauth:grant-type:device_code":
		s.poll(w, form, id)
	default:
		fail(w, "unsupported_grant_type")
	}
}

// authenticated accepts Basic, form and assertion credentials; assertions are
// not verified here.
func (s *Server) authenticated(r *http.Request) (string, bool) {
	id, secret := r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	if user, password, ok := r.BasicAuth(); ok {
		id, _ = url.QueryUnescape(user)
		secret, _ = url.QueryUnescape(password)
	}
	if r.PostForm.Get("client_assertion") != "" {
		return id, true
	}
	if s.quirks.Documents && strings.Contains(id, "://") {
		return id, true
	}
	want, known := s.client[id]
	return id, known && want == secret
}

func (s *Server) redeem(w http.ResponseWriter, form url.Values, id string) {
	g, ok := s.codes[form.Get("code")]
	delete(s.codes, form.Get("code"))
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	good := ok && g.client == id && g.redirect == form.Get("redirect_uri") && g.resource == form.Get("resource") &&
		g.challenge == base64.RawURLEncoding.EncodeToString(sum[:])
	if !good {
		fail(w, "invalid_grant")
		return
	}
	s.ledger.Codes++
	s.issue(w, g, true)
}

func (s *Server) refresh(w http.ResponseWriter, form url.Values, id string) {
	token := form.Get("refresh_token")
	s.ledger.Refreshes++
	if s.spent[token] {
		s.ledger.Reused++
		clear(s.fresh)
		clear(s.access)
	}
	g, ok := s.fresh[token]
	if !ok || g.client != id || g.resource != form.Get("resource") {
		fail(w, "invalid_grant")
		return
	}
	if !s.quirks.NoRotation {
		delete(s.fresh, token)
		s.spent[token] = true
	}
	s.issue(w, g, !s.quirks.NoRotation)
}

func (s *Server) issue(w http.ResponseWriter, g grant, refresh bool) {
	g.expires = time.Time{}
	doc := map[string]any{"access_token": "access-" + rand.Text(), "token_type": "bearer", "scope": strings.Join(g.scopes, " ")}
	if s.quirks.Lifetime > 0 {
		g.expires = time.Now().Add(s.quirks.Lifetime)
		doc["expires_in"] = s.quirks.Lifetime.Seconds()
	}
	if s.quirks.OfflineOnly && !slices.Contains(g.scopes, "offline_access") {
		refresh = false
	}
	s.access[doc["access_token"].(string)] = g
	s.issued = append(s.issued, doc["access_token"].(string))
	if refresh && !s.quirks.NoRefresh {
		token := "refresh-" + rand.Text()
		s.fresh[token] = g
		s.issued = append(s.issued, token)
		doc["refresh_token"] = token
	}
	if s.quirks.Subject != "" {
		claims, _ := json.Marshal(map[string]string{"sub": s.quirks.Subject})
		doc["id_token"] = "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".c2ln"
	}
	if s.quirks.TokenForm {
		form := url.Values{}
		for k, v := range doc {
			form.Set(k, fmt.Sprint(v))
		}
		w.Header().Set("Content-Type", "application/x-www-form-urlencoded")
		_, _ = fmt.Fprint(w, form.Encode())
		return
	}
	reply(w, http.StatusOK, doc)
}

func (s *Server) startDevice(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	if s.quirks.DeviceBody != "" {
		raw(w, http.StatusOK, s.quirks.DeviceBody)
		return
	}
	code := "device-" + rand.Text()
	s.device[code] = 0
	reply(w, http.StatusOK, map[string]any{
		"device_code": code, "user_code": "ABCD-EFGH", "verification_uri": s.base + "/activate",
		"verification_uri_complete": s.base + "/activate?user_code=ABCD-EFGH", "expires_in": 600,
		"interval": max(s.quirks.DeviceInterval, 0.02),
	})
}

func (s *Server) poll(w http.ResponseWriter, form url.Values, id string) {
	code := form.Get("device_code")
	polls, ok := s.device[code]
	s.ledger.DevicePolls++
	s.device[code]++
	switch {
	case !ok:
		fail(w, "invalid_grant")
	case s.quirks.Deny != "":
		fail(w, s.quirks.Deny)
	case s.quirks.SlowDown && polls == 0:
		fail(w, "slow_down")
	case polls < s.quirks.Pendings:
		fail(w, "authorization_pending")
	default:
		delete(s.device, code)
		s.issue(w, grant{client: id, resource: form.Get("resource")}, true)
	}
}

func fail(w http.ResponseWriter, code string) {
	reply(w, http.StatusBadRequest, map[string]any{"error": code, "error_description": "says the server"})
}

func reply(w http.ResponseWriter, status int, doc any) {
	body, err := json.Marshal(doc)
	if err != nil {
		status, body = http.StatusInternalServerError, nil
	}
	raw(w, status, string(body))
}

func raw(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprint(w, body)
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
