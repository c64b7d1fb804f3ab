package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
)

// Documents are bounded in size, redirects and time.
func TestDocumentLimits(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/hop/"):
			n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/hop/"))
			if err != nil || n == 0 {
				_, _ = fmt.Fprint(w, `{}`)
				return
			}
			http.Redirect(w, r, "/hop/"+strconv.Itoa(n-1), http.StatusFound)
		case r.URL.Path == "/large":
			_, _ = fmt.Fprint(w, "{", strings.Repeat(" ", maxDocument), "}")
		case r.URL.Path == "/away":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		case r.URL.Path == "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case r.URL.Path == "/hang":
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(hang) })
	c := caller{transport: &http.Transport{DisableKeepAlives: true}, rule: addressRule{loopback: true}}
	for path, want := range map[string]string{
		"/hop/0": "", "/hop/3": "", "/hop/4": "redirects", "/loop": "redirects", "/away": "is not https", "/large": "larger than", "/none": "status 404",
	} {
		u, err := url.Parse(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.get(context.Background(), "the document", u)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
		if errors.Is(err, errAbsent) != (path == "/none") {
			t.Errorf("%s: absent: %v", path, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	u, err := url.Parse(s.URL + "/hang")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.get(ctx, "the document", u); err == nil || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("/hang: %v", err)
	}
}

func TestSecondAuthorizationServer(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	b.Change(func(q *authtest.Quirks) { q.Servers = []string{b.Base() + "/gone", b.Base()} })
	b.mustCall(b.bridge(nil), "")
}

// With --token-endpoint a machine client needs no metadata of its server.
func TestTokenEndpointOption(t *testing.T) {
	b := newBench(t, authtest.Quirks{ServerAt: "none", ClientID: "app", ClientSecret: "pssst", ClientGrant: true})
	c := b.bridge(func(c *Config) {
		c.OAuth = &OAuth{Grant: GrantClient, ClientID: "app", ClientSecret: NewSecret("pssst"), TokenEndpoint: b.Base() + "/token"}
	})
	b.mustCall(c, "")
}

func TestStepUpWithoutAPerson(t *testing.T) {
	b := newBench(t, authtest.Quirks{ClientID: "app", ClientSecret: "pssst", ClientGrant: true, ListScope: "read", ToolScope: "write"})
	c := b.bridge(func(c *Config) {
		c.OAuth = &OAuth{Grant: GrantClient, ClientID: "app", ClientSecret: NewSecret("pssst")}
	})
	b.mustCall(c, "")
	if d := b.mustCall(c, "?tool"); d.Action != Again {
		t.Errorf("%v", d)
	}
	b.mustCall(c, "")
	if l := b.Ledger(); l.ClientGrants != 2 || l.TokenRequests[1].Get("scope") != "read write" {
		t.Errorf("%d grants, scope %q", l.ClientGrants, l.TokenRequests[len(l.TokenRequests)-1].Get("scope"))
	}
}

// A registration whose secret has ended is not used again.
func TestExpiredRegistration(t *testing.T) {
	b := newBench(t, authtest.Quirks{AuthMethods: []string{"client_secret_basic"}, NoRefresh: true})
	c := b.bridge(nil)
	b.mustCall(c, "")
	name := c.oauth.clientName(b.Issuer())
	var reg registration
	if found, err := c.cfg.Store.getSealed("clients", name, &reg); !found || err != nil {
		t.Fatal(found, err)
	}
	reg.SecretExpiry = time.Now().Add(-time.Minute)
	if err := c.cfg.Store.putSealed("clients", name, reg); err != nil {
		t.Fatal(err)
	}
	b.ExpireAccess()
	b.mustCall(c, "")
	if got := b.Ledger().Registrations; got != 2 {
		t.Errorf("%d registrations", got)
	}
}

func TestRegistrationAnswers(t *testing.T) {
	t.Parallel()
	ask := registrationRequest{RedirectURIs: []string{"http://127.0.0.1:1/callback"}}
	for body, want := range map[string]struct{ method, err string }{
		`{"client_id":"a"}`:                     {MethodNone, ""},
		`{"client_id":"a","client_secret":"b"}`: {MethodBasic, ""},
		`{"client_id":"a","client_secret":"b","token_endpoint_auth_method":"none"}`:       {MethodBasic, ""},
		`{"client_id":"a","token_endpoint_auth_method":"client_secret_post"}`:             {MethodNone, ""},
		`{"client_id":"a","client_secret":"b","token_endpoint_auth_method":"x"}`:          {MethodBasic, ""},
		`{"client_id":"a","client_secret":"b","client_secret_expires_at":"x"}`:            {"", "client_secret_expires_at"},
		`{"client_id":"a","client_secret":"b","client_secret_expires_at":1.9e9}`:          {MethodBasic, ""},
		`{"client_id":"a","client_id":"b"}`:                                               {"", `"client_id" occurs twice`},
		`{"client_id":"a","client_secret":"b","token_endpoint_auth_method":["none","b"]}`: {"", `"token_endpoint_auth_method" has the wrong type`},
	} {
		r, err := parseRegistration("client registration", []byte(body), authServer{Issuer: "https://as"}, ask)
		if want.err != "" {
			if err == nil || !strings.Contains(err.Error(), want.err) {
				t.Errorf("%s: %v", body, err)
			}
			continue
		}
		if err != nil || r.Method != want.method || r.ClientID != "a" {
			t.Errorf("%s: %q %v", body, r.Method, err)
		}
	}
}

// What is cancelled ends with its children.
func TestCommandIsEnded(t *testing.T) {
	t.Parallel()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	c := Command{argv: []string{os.Args[0], "helper", "block"}}
	ended := make(chan error, 1)
	go func() {
		_, err := c.run(ctx)
		ended <- err
	}()
	cancel(why)
	if err := await(t, ended); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

// Closing while calls sign in neither hangs nor starts anything afterwards.
func TestCloseDuringSignIn(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	c := b.bridge(func(c *Config) { c.Browser = nobody })
	shown, ended := begin(b, c)
	shown.next(t)
	c.Close()
	if err := await(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := c.SignIn(b.context(), SignInOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after closing: %v", err)
	}
	var p pending
	if found, err := c.cfg.Store.getSealed("pending", c.oauth.name, &p); !found || err != nil || !p.open(time.Now()) {
		t.Errorf("the sign-in cannot be taken over: %v %v", found, err)
	}
}
