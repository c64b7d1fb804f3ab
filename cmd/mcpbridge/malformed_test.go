package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// Whatever document is malformed, a call ends with one line that names document
// and field, for a host as on a terminal. Nothing loops, hangs, is stored or shown.
func TestMalformedDocuments(t *testing.T) {
	for document, c := range map[string]struct {
		field  string
		quirks authtest.Quirks
		args   []string
	}{
		"challenge of the server":              {"resource_metadata", authtest.Quirks{Hint: "file:///hush-hush", ResourceAt: "odd"}, nil},
		"protected resource metadata":          {"authorization_servers", authtest.Quirks{ResourceBody: `{"resource":"$","authorization_servers":"hush-hush"}`}, nil},
		"authorization server metadata":        {"issuer", authtest.Quirks{ServerBody: `{"issuer":{"a":"hush-hush"}}`}, nil},
		"client registration":                  {"client_id", authtest.Quirks{RegistrationBody: `{"client_id":["hush-hush"]}`}, nil},
		"authorization response":               {"iss", authtest.Quirks{SendIss: "wrong"}, nil},
		"token response":                       {"access_token", authtest.Quirks{TokenBody: `{"access_token":{"a":"hush-hush"}}`}, nil},
		"token response of":                    {"expires_in", authtest.Quirks{TokenBody: `{"access_token":"hush-hush","expires_in":[]}`}, nil},
		"device authorization response":        {"verification_uri", authtest.Quirks{Device: true, DeviceBody: `{"device_code":"hush-hush","user_code":"A"}`}, []string{"--oauth-grant=device_code"}},
		"device authorization response of":     {"user_code", authtest.Quirks{Device: true, DeviceBody: `{"device_code":"hush-hush","user_code":{}}`}, []string{"--oauth-grant=device_code"}},
		"authorization server metadata http":   {"device_authorization_endpoint", authtest.Quirks{ServerBody: `{"issuer":"%","token_endpoint":"%/t","device_authorization_endpoint":"smb://hush-hush"}`}, nil},
		"authorization server metadata http: ": {"authorization_endpoint", authtest.Quirks{Authorization: "javascript:hush-hush"}, nil},
	} {
		t.Run(document+" "+c.field, func(t *testing.T) {
			p := protect(t, c.quirks, bridgetest.Options{})
			p.auth.Change(func(q *authtest.Quirks) {
				q.ResourceBody = strings.ReplaceAll(q.ResourceBody, "$", p.up.URL())
				q.ServerBody = strings.ReplaceAll(q.ServerBody, "%", p.auth.Base())
			})
			document, _, _ = strings.Cut(document, " http")
			host := p.bridge(p.env, c.args...)
			for range 2 {
				r := p.call(host, "echo", `{"text":"hello"}`)
				if !r.IsError() || !strings.HasPrefix(r.Text(), "SIGN-IN NEEDED") || strings.Contains(r.Text(), "\n") {
					t.Errorf("%s", r.Raw)
				}
				checkNames(t, "the answer", r.Text(), document, c.field)
			}
			code, out, errs := p.run(p.env, nil, p.account("login", c.args...)...)
			if code == exitOK || out != "" {
				t.Errorf("login: exit code %d, %s", code, out)
			}
			lines := strings.Split(strings.TrimSpace(errs), "\n")
			checkNames(t, "the last line of login", lines[len(lines)-1], document, c.field)
			for _, kind := range []string{"tokens", "servers"} {
				if files := filesBelow(t, filepath.Join(p.dir, "auth", kind)); len(files) > 0 {
					t.Errorf("stored: %q", files)
				}
			}
			if l := p.auth.Ledger(); l.Authorizations > 3 || l.Registrations > 3 || len(l.TokenRequests) > 3 {
				t.Errorf("%d authorizations, %d registrations, %d token requests for three sign-ins", l.Authorizations, l.Registrations, len(l.TokenRequests))
			}
		})
	}
}

func checkNames(t *testing.T, where, text, document, field string) {
	t.Helper()
	if !strings.Contains(text, document) || !strings.Contains(text, `"`+field) || strings.Contains(text, "hush-hush") {
		t.Errorf("%s does not name %s and %s, or shows too much: %s", where, document, field, text)
	}
}
