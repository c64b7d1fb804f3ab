package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// A provider is an OpenID provider whose login page is a form with a script that
// fills it in and submits it, as a password manager would.
type provider struct {
	*httptest.Server
	storage *storage.Storage

	mu     sync.Mutex
	agents []string // User-Agent of whoever sent the form
}

const loginPage = `<!doctype html><title>Sign in</title>
<form method="post" action="/login/username"><input name="id" type="hidden" value="%s"><input name="user"><input name="password" type="password"></form>
<script>
const f = document.forms[0];
f.user.value = "test-user2";
f.password.value = "verysecure";
f.submit();
</script>`

func startProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	mux := http.NewServeMux()
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	p.storage = storage.NewStorageWithClients(storage.NewUserStore(p.URL), map[string]*storage.Client{
		"app": storage.NativeClient("app", "http://127.0.0.1/callback"),
	})
	config := &op.Config{CryptoKey: [32]byte{1}, CodeMethodS256: true, GrantTypeRefreshToken: true}
	issuer, err := op.NewProvider(config, p.storage, op.StaticIssuer(p.URL), op.WithAllowInsecure())
	if err != nil {
		t.Fatal(err)
	}
	named := op.NewIssuerInterceptor(issuer.IssuerFromRequest)
	mux.Handle("/", issuer)
	mux.HandleFunc("GET /login/username", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, loginPage, r.URL.Query().Get("authRequestID"))
	})
	mux.Handle("POST /login/username", named.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.PostFormValue("id")
		if err := p.storage.CheckUsernamePassword(r.PostFormValue("user"), r.PostFormValue("password"), id); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		p.mu.Lock()
		p.agents = append(p.agents, r.UserAgent())
		p.mu.Unlock()
		http.Redirect(w, r, op.AuthCallbackURL(issuer)(r.Context(), id), http.StatusFound)
	}))
	return p
}

func (p *provider) visitors() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.agents...)
}

// knows asks the provider whether a token is good.
func (p *provider) knows(authorization string) bool {
	req, err := http.NewRequest(http.MethodGet, p.URL+"/userinfo", nil)
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", authorization)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
