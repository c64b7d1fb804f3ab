package auth

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
)

// Every place in which metadata may be found leads to a sign-in.
func TestDiscoveryVariants(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]authtest.Quirks{
		"challenge":           {ResourceAt: "odd"},
		"path":                {NoHint: true},
		"root":                {NoHint: true, ResourceAt: "root"},
		"no challenge":        {NoChallenge: true},
		"pages":               {NoHint: true, ResourceAt: "root", Pages: true, ServerAt: "oidc"},
		"oidc":                {ServerAt: "oidc"},
		"issuer path":         {IssuerPath: "/tenant"},
		"issuer path oidc":    {IssuerPath: "/tenant", ServerAt: "oidc"},
		"issuer path append":  {IssuerPath: "/tenant/a", ServerAt: "appended"},
		"2025-03-26 metadata": {ResourceAt: "none"},
		"2025-03-26 defaults": {ResourceAt: "none", ServerAt: "none"},
		"iss promised":        {PromiseIss: true, SendIss: "right"},
		"iss not promised":    {SendIss: "right"},
		"basic":               {AuthMethods: []string{"client_secret_basic"}},
		"post":                {AuthMethods: []string{"client_secret_post"}},
		"form tokens":         {TokenForm: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, q)
			c := b.bridge(nil)
			if d := b.mustCall(c, ""); d.Action != SignIn {
				t.Errorf("action %v, want sign in", d.Action)
			}
			b.mustCall(c, "")
			l := b.Ledger()
			if l.Registrations != 1 || l.Authorizations != 1 || l.Codes != 1 || l.Calls != 2 || l.Refused != 1 {
				t.Errorf("ledger %d registrations, %d authorizations, %d codes, %d calls, %d refused",
					l.Registrations, l.Authorizations, l.Codes, l.Calls, l.Refused)
			}
			if len(b.browser.Opened()) != 1 {
				t.Errorf("opened %v", b.browser.Opened())
			}
			checkRequest(t, b, l)
		})
	}
}

// The authorization request, redemption and redirect URI agree.
func checkRequest(t *testing.T, b *bench, l authtest.Ledger) {
	t.Helper()
	q, form := l.Requested[0], l.TokenRequests[0]
	if q.Get("resource") != b.URL || form.Get("resource") != b.URL {
		t.Errorf("resource %q and %q, want %q", q.Get("resource"), form.Get("resource"), b.URL)
	}
	if q.Get("redirect_uri") != form.Get("redirect_uri") || !strings.HasPrefix(q.Get("redirect_uri"), "http://127.0.0.1:") {
		t.Errorf("redirect URI %q", q.Get("redirect_uri"))
	}
	if len(q.Get("state")) < 22 || len(form.Get("code_verifier")) < 43 {
		t.Error("state or verifier is too short")
	}
}

func TestDiscoveryOrder(t *testing.T) {
	b := newBench(t, authtest.Quirks{NoHint: true, ResourceAt: "root", IssuerPath: "/tenant", ServerAt: "appended"})
	b.mustCall(b.bridge(nil), "")
	want := []string{
		"/.well-known/oauth-protected-resource/mcp",
		"/.well-known/oauth-protected-resource",
		"/.well-known/oauth-authorization-server/tenant",
		"/.well-known/openid-configuration/tenant",
		"/tenant/.well-known/openid-configuration",
	}
	if got := b.Ledger().Looked; !slices.Equal(got, want) {
		t.Errorf("looked at %v", got)
	}
}

// What is malformed gets one clear line that names document and field; nothing
// is stored and nothing loops.
func TestMalformed(t *testing.T) {
	t.Parallel()
	for want, q := range map[string]authtest.Quirks{
		"protected resource metadata|\"authorization_servers\" is missing": {ResourceBody: `{"resource":"$/mcp"}`},
		"protected resource metadata|\"authorization_servers\" has":        {ResourceBody: `{"resource":"$/mcp","authorization_servers":"$"}`},
		"protected resource metadata|\"resource\" is missing":              {ResourceBody: `{"authorization_servers":["$"]}`},
		"protected resource metadata|not valid JSON":                       {ResourceBody: `{"resource"`},
		"protected resource metadata|\"resource\" occurs twice":            {ResourceBody: `{"resource":"$/mcp","resource":"$/mcp"}`},
		"protected resource metadata|\"resource\" is \"https://x.example":  {Resource: "https://x.example/mcp"},
		"protected resource metadata|\"resource\" is |/other":              {Resource: "$/other"},
		"authorization server|only https is allowed":                       {Servers: []string{"file:///etc/passwd"}},
		"authorization server|is not https":                                {Servers: []string{"http://10.0.0.1"}},
		"metadata|\"issuer\" is missing":                                   {ServerBody: `{"token_endpoint":"$/token"}`},
		"metadata|\"issuer\" is \"https://x.example\"|expected":            {Issuer: "https://x.example"},
		"metadata|\"token_endpoint\" is missing":                           {ServerBody: `{"issuer":"$","authorization_endpoint":"$/authorize"}`},
		"metadata|\"token_endpoint\" has the wrong type":                   {ServerBody: `{"issuer":"$","token_endpoint":7}`},
		"metadata|\"token_endpoint\": the URL has the scheme \"smb\"":      {ServerBody: `{"issuer":"$","token_endpoint":"smb://x/y"}`},
		"metadata|\"authorization_endpoint\"|only https":                   {Authorization: "javascript:1"},
		"metadata|\"authorization_endpoint\": the URL holds a fragment":    {Authorization: "https://x.example/a#b"},
		"metadata|\"authorization_endpoint\": the URL holds a user":        {Authorization: "https://u:p@x.example/a"},
		"metadata|\"authorization_endpoint\": not a valid URL":             {Authorization: "https://x.example/a\nb"},
		"metadata|\"authorization_endpoint\": the host":                    {Authorization: "https://$(touch)/a"},
		"metadata|\"authorization_endpoint\": |is not https":               {Authorization: "http://10.0.0.1/a"},
		"metadata|\"code_challenge_methods_supported\" lacks S256":         {NoPKCE: true},
		"client registration|\"client_id\" is missing":                     {RegistrationBody: `{}`},
		"client registration|\"client_id\" has the wrong type":             {RegistrationBody: `{"client_id":["a"],"client_secret":"hush-hush"}`},
		"client registration|not valid JSON":                               {RegistrationBody: `client_secret=hush-hush`},
		"does not register clients|--client-id":                            {NoRegistration: true},
		"token response|\"access_token\" is missing":                       {TokenBody: `{"refresh_token":"hush-hush"}`},
		"token response|\"access_token\" has the wrong type":               {TokenBody: `{"access_token":{"a":"hush-hush"}}`},
		"token response|\"access_token\": the token holds":                 {TokenBody: `{"access_token":"hush-hush\nX: y"}`},
		"token response|\"token_type\" is \"mac\"":                         {TokenBody: `{"access_token":"hush-hush","token_type":"mac"}`},
		"token response|\"expires_in\" is not a number":                    {TokenBody: `{"access_token":"hush-hush","expires_in":"soon"}`},
		"token response|not valid JSON":                                    {TokenBody: `<html>hush-hush</html>`},
		"token response|redirect":                                          {TokenRedirect: true},
		"token response|server_error":                                      {TokenBody: `{"error":"server_error","error_description":"hm"}`},
		"\"iss\" is \"https://other.example\"|refused":                     {SendIss: "wrong"},
		"\"iss\" is missing":                                               {PromiseIss: true},
		"\"iss\" is \"https://other.example\"|refused ":                    {SendIss: "wrong", Deny: "access_denied"},
		"invalid_target|--no-resource":                                     {RefusesResource: true},
		"sign-in refused|access_denied":                                    {Deny: "access_denied"},
	} {
		t.Run(want, func(t *testing.T) {
			b := newBench(t, q)
			b.Change(func(q *authtest.Quirks) { fillBase(q, b.Base()) })
			_, d, err := b.call(b.bridge(nil), "")
			if err == nil {
				t.Fatalf("no error; %v %s", d.Action, d.Why)
			}
			for part := range strings.SplitSeq(want, "|") {
				if !strings.Contains(err.Error(), strings.TrimSpace(part)) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "hush") || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error %q", err)
			}
			l := b.Ledger()
			if l.Authorizations > 1 || len(l.TokenRequests) > 1 || l.Registrations > 1 {
				t.Errorf("a loop: %d authorizations, %d token requests, %d registrations", l.Authorizations, len(l.TokenRequests), l.Registrations)
			}
			if strings.HasPrefix(want, `"iss"`) && len(l.TokenRequests) != 0 {
				t.Error("the code was sent although the issuer is wrong")
			}
			checkNothingStored(t, b.dir)
		})
	}
}

// A challenge that names a place which may not be asked is said to be wrong; what
// is at the well-known places counts all the same.
func TestMisleadingChallenge(t *testing.T) {
	for name, hint := range map[string]string{"scheme": "file:///etc/passwd", "relative": "/metadata", "plain": "http://10.0.0.1/x", "user": "https://u:p@x.example/"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, authtest.Quirks{Hint: hint})
			b.mustCall(b.bridge(nil), "")
			if !strings.Contains(b.log.String(), `challenge of the server: field \"resource_metadata\"`) {
				t.Errorf("the log says:\n%s", b.log)
			}
			b = &bench{Server: b.Server, t: t, dir: t.TempDir(), browser: b.browser, log: b.log}
			b.Change(func(q *authtest.Quirks) { q.ResourceAt = "odd" })
			_, _, err := b.call(b.bridge(nil), "")
			if err == nil || !strings.Contains(err.Error(), `challenge of the server: field "resource_metadata"`) {
				t.Errorf("got %v", err)
			}
			checkNothingStored(t, b.dir)
		})
	}
}

func fillBase(q *authtest.Quirks, base string) {
	for _, s := range []*string{&q.ResourceBody, &q.ServerBody, &q.Resource} {
		*s = strings.ReplaceAll(*s, "$/", base+"/")
		*s = strings.ReplaceAll(*s, `"$"`, `"`+base+`"`)
	}
}

func checkNothingStored(t *testing.T, dir string) {
	t.Helper()
	for _, kind := range []string{"tokens", "servers"} {
		entries, err := os.ReadDir(filepath.Join(dir, kind))
		if err == nil && len(entries) > 0 {
			t.Errorf("%s holds %d entries", kind, len(entries))
		}
	}
}

// The issuer is compared to the letter (2026-07-28, authorization server metadata
// discovery). A slash more or less is named, with the flag that allows it; that is
// kept with the sign-in.
func TestIssuersThatDifferByASlash(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	b.Change(func(q *authtest.Quirks) { q.Issuer = b.Base() + "/" })
	_, _, err := b.call(b.bridge(nil), "")
	for _, part := range []string{`"` + b.Base() + `"`, `"` + b.Base() + `/"`, "differ by a slash", "--issuer " + b.Base() + "/"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v lacks %q", err, part)
		}
	}
	checkNothingStored(t, b.dir)
	b.mustCall(b.bridge(func(c *Config) { c.OAuth.Issuer = b.Base() + "/" }), "")
	b.ExpireAccess()
	b.RevokeRefresh()
	b.mustCall(b.bridge(nil), "") // signs in again as configured before
	_, _, err = b.call(b.bridge(func(c *Config) { c.OAuth.Issuer = "https://x.example"; c.Principal = "other" }), "")
	if err == nil || !strings.Contains(err.Error(), "was expected") {
		t.Errorf("another issuer than the configured one: %v", err)
	}
}

// Where no protected resource metadata names an issuer, both ways to write that of
// the server's own origin are right.
func TestIssuerOfTheOrigin(t *testing.T) {
	for _, slash := range []string{"", "/"} {
		t.Run("origin"+slash, func(t *testing.T) {
			b := newBench(t, authtest.Quirks{ResourceAt: "none"})
			b.Change(func(q *authtest.Quirks) { q.Issuer = b.Base() + slash })
			b.mustCall(b.bridge(nil), "")
		})
	}
}

func TestResourceOfTheWholeOrigin(t *testing.T) {
	b := newBench(t, authtest.Quirks{ResourceAt: "root"})
	b.Change(func(q *authtest.Quirks) { q.Resource = b.Base() + "/" })
	b.mustCall(b.bridge(nil), "")
	if got := b.Ledger().Requested[0].Get("resource"); got != b.Base()+"/" {
		t.Errorf("resource %q", got)
	}
}

func TestResourceOptions(t *testing.T) {
	t.Parallel()
	t.Run("none", func(t *testing.T) {
		b := newBench(t, authtest.Quirks{RefusesResource: true})
		c := b.bridge(func(c *Config) { c.OAuth.NoResource = true })
		b.mustCall(c, "")
		b.ExpireAccess()
		b.mustCall(c, "")
		for _, form := range b.Ledger().TokenRequests {
			if form.Has("resource") {
				t.Errorf("resource sent: %v", form.Get("grant_type"))
			}
		}
	})
	t.Run("another", func(t *testing.T) {
		b := newBench(t, authtest.Quirks{Resource: "urn:x:y"})
		b.mustCall(b.bridge(func(c *Config) { c.OAuth.Resource = "urn:x:y" }), "")
		if got := b.Ledger().Requested[0].Get("resource"); got != "urn:x:y" {
			t.Errorf("resource %q", got)
		}
	})
}

// B77, B78: an expired token is renewed without anybody noticing, also in a
// process that begins with it; a revoked one leads to one sign-in.
func TestRenewal(t *testing.T) {
	b := newBench(t, authtest.Quirks{Lifetime: time.Hour})
	first := b.bridge(nil)
	b.mustCall(first, "")
	for range 3 {
		b.ExpireAccess()
		if d := b.mustCall(first, ""); d.Action != Again {
			t.Errorf("action %v, want again", d.Action)
		}
	}
	second := b.bridge(func(c *Config) {
		c.Browser = func(context.Context, string) error { t.Error("browser opened"); return nil }
	})
	b.ExpireAccess()
	b.mustCall(second, "")
	l := b.Ledger()
	if l.Authorizations != 1 || l.Refreshes != 4 || l.Reused != 0 {
		t.Errorf("%d authorizations, %d refreshes, %d reused", l.Authorizations, l.Refreshes, l.Reused)
	}
	b.ExpireAccess()
	b.RevokeRefresh()
	status, use, h := b.send(second, "")
	if d := second.Challenge(b.context(), use, status, h); d.Action != SignIn {
		t.Errorf("after revocation: %v %s", d.Action, d.Why)
	}
	if got := b.Ledger().Authorizations; got != 1 {
		t.Errorf("a refusal in the background opened a page: %d authorizations", got)
	}
	b.mustCall(first, "")
	if l := b.Ledger(); l.Registrations != 1 || l.Authorizations != 2 {
		t.Errorf("%d registrations, %d authorizations", l.Registrations, l.Authorizations)
	}
}

func TestRenewalBeforeTheEnd(t *testing.T) {
	b := newBench(t, authtest.Quirks{Lifetime: time.Hour})
	c := b.bridge(nil)
	b.mustCall(c, "")
	c.oauth.mu.Lock()
	s := *c.oauth.settings
	r := *c.oauth.record
	c.oauth.record = nil
	c.oauth.mu.Unlock()
	r.Obtained = time.Now().Add(-time.Hour)
	r.Expiry = time.Now().Add(10 * time.Second) // within the last 30 s
	if err := c.cfg.Store.putSealed("tokens", s.Record, &r); err != nil {
		t.Fatal(err)
	}
	if d := b.mustCall(c, ""); d.Action != Stop || d.Why != "" {
		t.Errorf("the token was refused first: %v", d)
	}
	if got := b.Ledger().Refreshes; got != 1 {
		t.Errorf("%d refreshes", got)
	}
}

// B79: ten calls and two processes at once need one renewal.
func TestRenewalAtTheSameTime(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	bridges := []*Credentials{b.bridge(nil), b.bridge(nil)}
	b.mustCall(bridges[0], "")
	b.mustCall(bridges[1], "")
	b.ExpireAccess()
	var calls sync.WaitGroup
	for i := range 10 {
		calls.Go(func() {
			if status, d, err := b.call(bridges[i%2], ""); status != http.StatusOK || err != nil {
				t.Errorf("status %d, %v, %v", status, d, err)
			}
		})
	}
	calls.Wait()
	if l := b.Ledger(); l.Refreshes != 1 || l.Reused != 0 || l.Authorizations != 1 || l.Calls != 12 {
		t.Errorf("%d refreshes, %d reused, %d authorizations, %d calls", l.Refreshes, l.Reused, l.Authorizations, l.Calls)
	}
}

// B81: only a registration of ours is dropped, once, and one sign-in follows.
func TestForgottenRegistration(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	c := b.bridge(nil)
	b.mustCall(c, "")
	b.ForgetClients()
	b.ExpireAccess()
	if d := b.mustCall(c, ""); d.Action != SignIn {
		t.Errorf("action %v (%s)", d.Action, d.Why)
	}
	if l := b.Ledger(); l.Registrations != 2 || l.Authorizations != 2 || l.Codes != 2 {
		t.Errorf("%d registrations, %d authorizations, %d codes", l.Registrations, l.Authorizations, l.Codes)
	}
}

func TestForgottenStaticClient(t *testing.T) {
	b := newBench(t, authtest.Quirks{ClientID: "app", ClientSecret: "pssst"})
	c := b.bridge(func(c *Config) { c.OAuth.ClientID, c.OAuth.ClientSecret = "app", NewSecret("pssst") })
	b.mustCall(c, "")
	b.ForgetClients()
	b.ExpireAccess()
	for range 5 {
		status, d, err := b.call(c, "")
		if status != 401 || d.Action != Stop || err != nil || !strings.Contains(d.Why, "invalid_client") {
			t.Fatalf("status %d, %v, %v", status, d, err)
		}
	}
	if l := b.Ledger(); l.Registrations != 0 || l.Refreshes > 0 || len(l.TokenRequests) != 2 {
		t.Errorf("%d registrations, %d token requests", l.Registrations, len(l.TokenRequests))
	}
}

// B89: a scope challenge is met by the union, once.
func TestStepUp(t *testing.T) {
	b := newBench(t, authtest.Quirks{ListScope: "read", ToolScope: "write"})
	c := b.bridge(nil)
	b.mustCall(c, "")
	if d := b.mustCall(c, "?tool"); d.Action != SignIn {
		t.Errorf("action %v", d.Action)
	}
	b.mustCall(c, "")
	b.mustCall(c, "?tool")
	l := b.Ledger()
	if l.Authorizations != 2 || l.Refreshes != 0 {
		t.Errorf("%d authorizations, %d refreshes", l.Authorizations, l.Refreshes)
	}
	if first, second := l.Requested[0].Get("scope"), l.Requested[1].Get("scope"); first != "read" || second != "read write" {
		t.Errorf("scopes %q, then %q", first, second)
	}
}

func TestStepUpThatCannotHelp(t *testing.T) {
	b := newBench(t, authtest.Quirks{ListScope: "read"})
	c := b.bridge(func(c *Config) { c.OAuth.Scopes = []string{"read", "write"} })
	b.mustCall(c, "")
	h := http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="write"`}}
	_, use, _ := b.send(c, "")
	if d := c.Challenge(b.context(), use, 403, h); d.Action != Stop || !strings.Contains(d.Why, "asked for") {
		t.Errorf("%v", d)
	}
	if d := c.Challenge(b.context(), use, 403, http.Header{}); d.Action != Stop {
		t.Errorf("403 without a challenge: %v", d)
	}
}

// B87: offline_access where it is offered; a warning where no refresh token came.
func TestScopeChoice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		quirks authtest.Quirks
		fixed  []string
		want   string
		warned bool
	}{
		"challenge first": {authtest.Quirks{ListScope: "a", ResourceScope: []string{"b"}}, nil, "a", false},
		"then resource":   {authtest.Quirks{ResourceScope: []string{"b", "c"}}, nil, "b c", false},
		"else none":       {authtest.Quirks{}, nil, "", false},
		"offline":         {authtest.Quirks{ListScope: "a", ServerScopes: []string{"offline_access"}, OfflineOnly: true}, nil, "a offline_access", false},
		"configured":      {authtest.Quirks{ServerScopes: []string{"offline_access"}, OfflineOnly: true}, []string{"z"}, "z", true},
		"no refresh":      {authtest.Quirks{NoRefresh: true}, nil, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.quirks)
			b.mustCall(b.bridge(func(cfg *Config) { cfg.OAuth.Scopes = c.fixed }), "")
			q := b.Ledger().Requested[0]
			if got := q.Get("scope"); got != c.want {
				t.Errorf("scope %q, want %q", got, c.want)
			}
			if offline := strings.Contains(c.want, "offline"); (q.Get("prompt") == "consent") != offline {
				t.Errorf("prompt %q", q.Get("prompt"))
			}
			if got := strings.Contains(b.log.String(), "no refresh token"); got != c.warned {
				t.Errorf("warned %v, want %v", got, c.warned)
			}
		})
	}
}

func TestClients(t *testing.T) {
	t.Parallel()
	t.Run("registered by hand", func(t *testing.T) {
		b := newBench(t, authtest.Quirks{ClientID: "app id", ClientSecret: "s/e cret", Documents: true})
		b.mustCall(b.bridge(func(c *Config) {
			c.OAuth.ClientID, c.OAuth.ClientSecret = "app id", NewSecret("s/e cret")
			c.OAuth.ClientMetadataURL = "https://app.example/client.json"
		}), "")
		l := b.Ledger()
		if l.Registrations != 0 || l.Requested[0].Get("client_id") != "app id" || l.TokenRequests[0].Has("client_secret") {
			t.Errorf("client %q", l.Requested[0].Get("client_id"))
		}
	})
	t.Run("document", func(t *testing.T) {
		b := newBench(t, authtest.Quirks{Documents: true})
		b.mustCall(b.bridge(func(c *Config) { c.OAuth.ClientMetadataURL = "https://app.example/client.json" }), "")
		l := b.Ledger()
		if l.Registrations != 0 || l.TokenRequests[0].Get("client_id") != "https://app.example/client.json" {
			t.Errorf("%d registrations, client %q", l.Registrations, l.TokenRequests[0].Get("client_id"))
		}
	})
	t.Run("document not read", func(t *testing.T) {
		b := newBench(t, authtest.Quirks{})
		b.mustCall(b.bridge(func(c *Config) { c.OAuth.ClientMetadataURL = "https://app.example/client.json" }), "")
		if l := b.Ledger(); l.Registrations != 1 {
			t.Errorf("%d registrations", l.Registrations)
		}
	})
	t.Run("issuer changed", func(t *testing.T) {
		b := newBench(t, authtest.Quirks{ClientID: "app", NoRefresh: true})
		c := b.bridge(func(c *Config) { c.OAuth.ClientID = "app" })
		b.mustCall(c, "")
		other := authtest.Start(authtest.Quirks{ClientID: "app"})
		t.Cleanup(other.Close)
		b.Change(func(q *authtest.Quirks) { q.Servers = []string{other.Issuer()} })
		b.ExpireAccess()
		_, _, err := b.call(c, "")
		if err == nil || !strings.Contains(err.Error(), other.Issuer()) || other.Ledger().Authorizations != 0 {
			t.Errorf("error %v", err)
		}
	})
}

// A later start without options signs in as the same client.
func TestSettingsAreKept(t *testing.T) {
	b := newBench(t, authtest.Quirks{ClientID: "app", NoRefresh: true})
	b.mustCall(b.bridge(func(c *Config) {
		c.OAuth = &OAuth{ClientID: "app", Scopes: []string{"x"}, AuthorizeParams: url.Values{"tenant": {"t1"}}, CallbackHost: "localhost", CallbackPath: "/cb"}
	}), "")
	b.ExpireAccess()
	b.mustCall(b.bridge(nil), "")
	l := b.Ledger()
	if len(l.Requested) != 2 {
		t.Fatalf("%d sign-ins", len(l.Requested))
	}
	again := l.Requested[1]
	if again.Get("client_id") != "app" || again.Get("scope") != "x" || again.Get("tenant") != "t1" || !strings.HasPrefix(again.Get("redirect_uri"), "http://localhost:") {
		t.Errorf("second sign-in with %v", again)
	}
}

// B95.
func TestClientCredentials(t *testing.T) {
	t.Parallel()
	key := testKey(t)
	for name, o := range map[string]OAuth{
		MethodBasic: {ClientSecret: NewSecret("pssst")},
		MethodPost:  {ClientSecret: NewSecret("pssst"), AuthMethod: MethodPost},
		MethodJWT:   {SigningKey: key},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, authtest.Quirks{ClientID: "app", ClientSecret: "pssst", ClientGrant: true, ListScope: "s", Lifetime: time.Hour})
			c := b.bridge(func(c *Config) {
				o.Grant, o.ClientID = GrantClient, "app"
				c.OAuth = &o
			})
			if d := b.mustCall(c, ""); d.Action != Again {
				t.Errorf("action %v", d.Action)
			}
			b.ExpireAccess()
			b.mustCall(c, "")
			l := b.Ledger()
			if l.ClientGrants != 2 || l.Authorizations != 0 || l.TokenRequests[0].Get("scope") != "s" {
				t.Errorf("%d grants, scope %q", l.ClientGrants, l.TokenRequests[0].Get("scope"))
			}
			form, basic := l.TokenRequests[0], l.TokenHeaders[0].Get("Authorization")
			got := map[string]bool{MethodBasic: basic != "", MethodPost: form.Has("client_secret"), MethodJWT: form.Has("client_assertion")}
			for method, used := range got {
				if used != (method == name) {
					t.Errorf("%s used: %v", method, used)
				}
			}
		})
	}
	t.Run("wrong secret", func(t *testing.T) {
		b := newBench(t, authtest.Quirks{ClientID: "app", ClientSecret: "pssst", ClientGrant: true})
		c := b.bridge(func(c *Config) {
			c.OAuth = &OAuth{Grant: GrantClient, ClientID: "app", ClientSecret: NewSecret("wrong")}
		})
		for range 10 {
			if _, d, err := b.call(c, ""); d.Action != Stop || !strings.Contains(d.Why, "invalid_client") || err != nil {
				t.Fatalf("%v %v", d, err)
			}
		}
		if got := len(b.Ledger().TokenRequests); got != 1 {
			t.Errorf("%d token requests", got)
		}
	})
}

func TestUnavailable(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	c := b.bridge(nil)
	b.mustCall(c, "")
	b.ExpireAccess()
	b.Change(func(q *authtest.Quirks) { q.TokenBody, q.TokenStatus = "down", 503 })
	status, use, h := b.send(c, "")
	if d := c.Challenge(b.context(), use, status, h); d.Action != Stop || !strings.Contains(d.Why, "503") {
		t.Errorf("%v", d)
	}
	b.Change(func(q *authtest.Quirks) { q.TokenBody = "" })
	c.oauth.pause(nil, 0) // the pause is over
	b.mustCall(c, "")
	if l := b.Ledger(); l.Authorizations != 1 {
		t.Errorf("%d authorizations", l.Authorizations)
	}
}

func TestMalformedRenewalKeepsTheSignIn(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	c := b.bridge(nil)
	b.mustCall(c, "")
	b.ExpireAccess()
	b.Change(func(q *authtest.Quirks) { q.TokenBody = `{"access_token":3}` })
	for range 5 {
		if _, d, err := b.call(c, ""); d.Action != Stop || !strings.Contains(d.Why, `field "access_token"`) || err != nil {
			t.Fatalf("%v %v", d, err)
		}
	}
	if got := len(b.Ledger().TokenRequests); got != 2 {
		t.Errorf("%d token requests", got)
	}
	b.Change(func(q *authtest.Quirks) { q.TokenBody = "" })
	b.mustCall(b.bridge(nil), "")
}

func TestUseIDToken(t *testing.T) {
	b := newBench(t, authtest.Quirks{Subject: "u1"})
	c := b.bridge(func(c *Config) { c.OAuth.UseIDToken = true })
	if _, _, err := b.call(c, ""); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodGet, b.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(b.context(), req); err != nil || !strings.HasPrefix(req.Header.Get("Authorization"), "Bearer e30.") {
		t.Errorf("%q, %v", req.Header.Get("Authorization"), err)
	}
}

func TestUseIDTokenWithoutOne(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	_, _, err := b.call(b.bridge(func(c *Config) { c.OAuth.UseIDToken = true }), "")
	if err == nil || !strings.Contains(err.Error(), `field "id_token" is missing`) {
		t.Errorf("%v", err)
	}
	checkNothingStored(t, b.dir)
}

// B131: configured headers go to the configured origin only.
func TestHeadersStayAtHome(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	c := b.bridge(func(c *Config) { c.Headers = []Header{{Name: "X-Api-Key", Value: NewSecret("pssst-key")}} })
	b.mustCall(c, "")
	for _, h := range b.Ledger().Foreign {
		if h.Get("X-Api-Key") != "" || strings.HasPrefix(h.Get("Authorization"), "Bearer") {
			t.Errorf("sent elsewhere: %v", h)
		}
	}
	for _, address := range []string{"https://127.0.0.1/mcp", "http://127.0.0.1:1/mcp", "http://other.example/mcp"} {
		req, err := http.NewRequest(http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Apply(b.context(), req); err != nil || len(req.Header) != 0 {
			t.Errorf("%s: %v %v", address, req.Header, err)
		}
	}
}

// B130: nothing that is secret reaches the log or the plain files.
func TestNothingSecretIsWritten(t *testing.T) {
	b := newBench(t, authtest.Quirks{ListScope: "read", ToolScope: "write", AuthMethods: []string{"client_secret_post"}, Subject: "u"})
	c := b.bridge(nil)
	b.mustCall(c, "")
	b.mustCall(c, "?tool")
	b.ExpireAccess()
	b.mustCall(c, "")
	var written strings.Builder
	written.WriteString(b.log.String())
	err := filepath.WalkDir(b.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		written.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range b.Ledger().TokenRequests {
		for _, name := range []string{"code", "code_verifier", "refresh_token", "client_secret"} {
			if v := form.Get(name); v != "" && strings.Contains(written.String(), v[:12]) {
				t.Errorf("%s is in a file or in the log", name)
			}
		}
	}
	for _, word := range []string{"access-", "refresh-", "secret-"} {
		if strings.Contains(written.String(), word) {
			t.Errorf("%q is in a file or in the log", word)
		}
	}
}

func TestPrincipal(t *testing.T) {
	b := newBench(t, authtest.Quirks{Subject: "u1"})
	c := b.bridge(nil)
	if id := principal(t, c); id != Anonymous {
		t.Errorf("before: %q", id)
	}
	b.mustCall(c, "")
	first := principal(t, c)
	if first == Anonymous {
		t.Fatal("still anonymous")
	}
	b.ExpireAccess()
	b.mustCall(c, "") // renewal
	b.ExpireAccess()
	b.RevokeRefresh()
	b.mustCall(c, "") // the same subject again
	if got := principal(t, b.bridge(nil)); got != first {
		t.Errorf("same subject: %q, then %q", first, got)
	}
	b.Change(func(q *authtest.Quirks) { q.Subject = "u2" })
	b.ExpireAccess()
	b.RevokeRefresh()
	b.mustCall(c, "")
	second := principal(t, c)
	if second == first {
		t.Error("another subject has the same id")
	}
	if err := c.SignOut(b.context(), false); err != nil {
		t.Fatal(err)
	}
	if b.Ledger().Revoked != 1 || principal(t, c) != Anonymous {
		t.Errorf("after signing out: %d revoked, %q", b.Ledger().Revoked, principal(t, c))
	}
	b.Change(func(q *authtest.Quirks) { q.Subject = "u1" })
	b.mustCall(c, "")
	if got := principal(t, c); got != first {
		t.Errorf("u1 came back as %q, was %q", got, first)
	}
	if got := principal(t, b.bridge(func(c *Config) { c.Principal = "work" })); got != "work" {
		t.Errorf("configured: %q", got)
	}
}

func principal(t *testing.T, c *Credentials) string {
	t.Helper()
	id, err := c.Principal()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A sign-out or another sign-in in one process counts in all at once.
func TestOtherProcessesCount(t *testing.T) {
	b := newBench(t, authtest.Quirks{Subject: "u1"})
	c, other := b.bridge(nil), b.bridge(nil)
	b.mustCall(c, "")
	b.Change(func(q *authtest.Quirks) { q.Subject = "u2" })
	if err := other.SignIn(b.context(), SignInOptions{Again: true}); err != nil {
		t.Fatal(err)
	}
	mine, _, err := c.token(b.context())
	if err != nil {
		t.Fatal(err)
	}
	theirs, _, err := other.token(b.context())
	if err != nil || mine.Reveal() != theirs.Reveal() || principal(t, c) != principal(t, other) {
		t.Errorf("the token of one account goes with the id of another: %v", err)
	}
	if err := other.SignOut(b.context(), false); err != nil {
		t.Fatal(err)
	}
	if token, _, err := c.token(b.context()); err != nil || !token.IsZero() {
		t.Errorf("a token after signing out: %v", err)
	}
}

func TestPrincipalsAreApart(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	work := b.bridge(func(c *Config) { c.Principal = "work" })
	home := b.bridge(func(c *Config) { c.Principal = "home" })
	b.mustCall(work, "")
	if d := b.mustCall(home, ""); d.Action != SignIn {
		t.Errorf("home uses the tokens of work: %v", d)
	}
	if l := b.Ledger(); l.Authorizations != 2 {
		t.Errorf("%d authorizations", l.Authorizations)
	}
}

func TestStaticPrincipal(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	with := func(spec, token string) string {
		h, err := ParseHeader(spec, func(string) (string, bool) { return token, true })
		if err != nil {
			t.Fatal(err)
		}
		return principal(t, b.bridge(func(c *Config) { c.OAuth = nil; c.Headers = []Header{h} }))
	}
	one := with("Authorization: Bearer ${A}", "t1")
	if one != with("Authorization: Bearer ${A}", "t2") {
		t.Error("the id depends on the value")
	}
	if one == with("Authorization: Bearer ${B}", "t1") || one == Anonymous {
		t.Error("the id does not depend on the variable")
	}
	if got := principal(t, b.bridge(func(c *Config) { c.OAuth = nil })); got != Anonymous {
		t.Errorf("nothing configured: %q", got)
	}
}

func TestStaticRefusal(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	h, err := ParseHeader("Authorization: Bearer pssst", environment)
	if err != nil {
		t.Fatal(err)
	}
	c := b.bridge(func(c *Config) { c.Headers = []Header{h} })
	_, d, err := b.call(c, "")
	if d.Action != Stop || !strings.Contains(d.Why, "header Authorization") || strings.Contains(d.Why, "pssst") || err != nil {
		t.Errorf("%v %v", d, err)
	}
	if err := c.SignIn(b.context(), SignInOptions{}); err == nil {
		t.Error("signed in with fixed credentials")
	}
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	store, err := OpenStore(t.TempDir(), KeyInFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	parse := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	header := Header{Name: "Authorization", Value: NewSecret("x")}
	for want, c := range map[string]Config{
		"not https":              {Server: parse("http://10.0.0.5/mcp"), OAuth: &OAuth{}},
		"not https ":             {Server: parse("http://service.internal/mcp"), Headers: []Header{header}},
		"choose one":             {Server: parse("https://x/mcp"), Headers: []Header{header}, Command: &Command{argv: []string{"x"}}},
		"grant":                  {Server: parse("https://x/mcp"), OAuth: &OAuth{Grant: "password"}},
		"token auth method":      {Server: parse("https://x/mcp"), OAuth: &OAuth{AuthMethod: "x"}},
		"set by mcpbridge":       {Server: parse("https://x/mcp"), OAuth: &OAuth{AuthorizeParams: url.Values{"state": {"x"}}}},
		"callback host":          {Server: parse("https://x/mcp"), OAuth: &OAuth{CallbackHost: "0.0.0.0"}},
		"callback port":          {Server: parse("https://x/mcp"), OAuth: &OAuth{CallbackPort: 70000}},
		"callback path":          {Server: parse("https://x/mcp"), OAuth: &OAuth{CallbackPath: "x"}},
		"needs a path":           {Server: parse("https://x/mcp"), OAuth: &OAuth{ClientMetadataURL: "https://x/"}},
		"is not https":           {Server: parse("https://x/mcp"), OAuth: &OAuth{ClientMetadataURL: "http://x/a"}},
		"token endpoint":         {Server: parse("https://x/mcp"), OAuth: &OAuth{TokenEndpoint: "http://localhost/token"}},
		"resource":               {Server: parse("https://x/mcp"), OAuth: &OAuth{Resource: "x#y"}},
		"credentials: no server": {},
	} {
		c.Store = store
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%q: got %v", want, err)
		}
	}
	for _, ok := range []string{"http://127.0.0.1/mcp", "http://localhost:3/mcp", "http://[::1]/mcp", "https://x/mcp"} {
		if _, err := New(Config{Server: parse(ok), OAuth: &OAuth{}, Store: store}); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	if _, err := New(Config{Server: parse("http://10.0.0.5/"), OAuth: &OAuth{}, Store: store, AllowHTTP: true}); err != nil {
		t.Error(err)
	}
}

func TestStatus(t *testing.T) {
	b := newBench(t, authtest.Quirks{ListScope: "s"})
	c := b.bridge(nil)
	st, err := c.Status()
	if err != nil || st.SignedIn || st.Kind != "oauth" {
		t.Errorf("before: %+v %v", st, err)
	}
	b.mustCall(c, "")
	st, err = b.bridge(nil).Status()
	if err != nil || !st.SignedIn || !st.Renews || st.Issuer != b.Issuer() || !slices.Equal(st.Scopes, []string{"s"}) {
		t.Errorf("after: %+v %v", st, err)
	}
	if err := c.SignOut(b.context(), true); err != nil {
		t.Fatal(err)
	}
	checkNothingStored(t, b.dir)
	if _, err := c.cfg.Store.principalKey(); err != nil {
		t.Error(err)
	}
}

// The upstream moves to another authorization server: no token and no client of
// the old one is used there, nor is the old one asked again.
func TestAuthorizationServerMoves(t *testing.T) {
	b := newBench(t, authtest.Quirks{Subject: "u1"})
	c := b.bridge(nil)
	b.mustCall(c, "")
	account := principal(t, c)
	other := authtest.Start(authtest.Quirks{Subject: "u1"})
	t.Cleanup(other.Close)
	b.Change(func(q *authtest.Quirks) { q.Servers = []string{other.Issuer()} })
	b.ExpireAccess()
	_, d, err := b.call(c, "")
	if d.Action != SignIn || err != nil {
		t.Errorf("%v %v", d, err)
	}
	l, o := b.Ledger(), other.Ledger()
	if l.Refreshes != 0 || l.Authorizations != 1 || o.Registrations != 1 || o.Codes != 1 {
		t.Errorf("old: %d refreshes, %d authorizations; new: %d registrations, %d codes", l.Refreshes, l.Authorizations, o.Registrations, o.Codes)
	}
	if got := principal(t, c); got == account {
		t.Error("the subject of another issuer has the same id")
	}
	if entries, err := os.ReadDir(filepath.Join(b.dir, "tokens")); err != nil || len(entries) != 1 {
		t.Errorf("%d token records, %v", len(entries), err)
	}
}

// A token that is renewed and refused at once is not renewed for ever.
func TestRenewalThatDoesNotHelp(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	c := b.bridge(nil)
	b.mustCall(c, "")
	var actions []Action
	for range 4 {
		b.ExpireAccess()
		status, use, h := b.send(c, "")
		actions = append(actions, c.Challenge(b.context(), use, status, h).Action)
	}
	if !slices.Equal(actions, []Action{Again, SignIn, SignIn, SignIn}) {
		t.Errorf("actions %v", actions)
	}
	if got := b.Ledger().Refreshes; got != 1 {
		t.Errorf("%d refreshes", got)
	}
}
