package auth

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
)

// A provider is a certified OpenID provider in front of an MCP endpoint that
// asks it about every token.
type provider struct {
	*httptest.Server
	storage *storage.Storage
}

func startProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	mux := http.NewServeMux()
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	p.storage = storage.NewStorageWithClients(storage.NewUserStore(p.URL), map[string]*storage.Client{
		"app":    storage.NativeClient("app", "http://127.0.0.1/callback"),
		"device": storage.DeviceClient("device", "pssst"),
	})
	config := &op.Config{
		CryptoKey: [32]byte{1}, CodeMethodS256: true, AuthMethodPost: true, AuthMethodPrivateKeyJWT: true, GrantTypeRefreshToken: true,
		DeviceAuthorization: op.DeviceAuthorizationConfig{Lifetime: 60e9, PollInterval: 1e9, UserFormPath: "/device", UserCode: op.UserCodeBase20},
	}
	provider, err := op.NewProvider(config, p.storage, op.StaticIssuer(p.URL), op.WithAllowInsecure())
	if err != nil {
		t.Fatal(err)
	}
	issuer := op.NewIssuerInterceptor(provider.IssuerFromRequest)
	mux.Handle("/", provider)
	mux.Handle("/login/username", issuer.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Query().Get("authRequestID")
		if err := p.storage.CheckUsernamePassword("test-user2", "verysecure", id); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		http.Redirect(w, r, op.AuthCallbackURL(provider)(r.Context(), id), http.StatusFound)
	}))
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"resource":"%s/mcp","authorization_servers":["%s"],"scopes_supported":["openid"]}`, p.URL, p.URL)
	})
	mux.HandleFunc("/mcp", p.mcp)
	return p
}

// mcp asks the provider whether it knows the token.
func (p *provider) mcp(w http.ResponseWriter, r *http.Request) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, p.URL+"/userinfo", nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	req.Header.Set("Authorization", r.Header.Get("Authorization"))
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = fmt.Fprint(w, "{}")
}

// at makes bridges of a bench talk to the provider.
func (p *provider) at(b *bench) func(*Config) {
	u, err := url.Parse(p.URL + "/mcp")
	if err != nil {
		b.t.Fatal(err)
	}
	b.Server.URL = u.String()
	return func(c *Config) { c.Server = u }
}

func TestRealProvider(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	at := startProvider(t).at(b)
	c := b.bridge(func(c *Config) { at(c); c.OAuth.ClientID = "app" })
	b.mustCall(c, "")
	first := principal(t, c)
	st, err := c.Status()
	if err != nil || !st.SignedIn || !st.Renews {
		t.Errorf("%+v %v (is offline_access asked for?)", st, err)
	}
	before, _, err := c.token(b.context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // rotation
		if _, err := c.oauth.renew(b.context(), c.oauth.record.Serial); err != nil {
			t.Fatal(err)
		}
	}
	after, _, err := c.token(b.context())
	if err != nil || after.Reveal() == before.Reveal() {
		t.Errorf("the token did not change: %v", err)
	}
	b.mustCall(c, "")
	if err := c.SignIn(b.context(), SignInOptions{Again: true}); err != nil {
		t.Fatal(err)
	}
	if got := principal(t, c); got != first || !strings.HasPrefix(got, "oauth-") {
		t.Errorf("principal %q, then %q", first, got)
	}
	if err := c.SignOut(b.context(), false); err != nil || strings.Contains(b.log.String(), "not revoked") {
		t.Errorf("%v, %s", err, b.log)
	}
}

func TestRealProviderByDevice(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	p := startProvider(t)
	at := p.at(b)
	c := b.bridge(func(c *Config) {
		at(c)
		c.OAuth = &OAuth{Grant: GrantDevice, ClientID: "device", ClientSecret: NewSecret("pssst"), Scopes: []string{"openid"}}
	})
	shown, ended := begin(b, c)
	prompt := shown.next(t)
	if !strings.HasPrefix(prompt.URL, p.URL+"/device") {
		t.Errorf("%+v", prompt)
	}
	if err := p.storage.CompleteDeviceAuthorization(context.Background(), prompt.UserCode, "id2"); err != nil {
		t.Fatal(err)
	}
	if err := await(t, ended); err != nil {
		t.Fatal(err)
	}
	b.mustCall(c, "")
}

func TestRealProviderWithoutAPerson(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	at := startProvider(t).at(b)
	c := b.bridge(func(c *Config) {
		at(c)
		c.OAuth = &OAuth{Grant: GrantClient, ClientID: "sid1", ClientSecret: NewSecret("verysecret"), Scopes: []string{"openid"}}
	})
	status, use, h := b.send(c, "")
	if d := c.Challenge(b.context(), use, status, h); d.Action != Again {
		t.Fatalf("%v", d)
	}
	if token, _, err := c.token(b.context()); err != nil || token.IsZero() {
		t.Errorf("no token: %v", err)
	}
}
