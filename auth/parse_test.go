package auth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseChallenge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lines []string
		want  Challenge
	}{
		{nil, Challenge{}},
		{[]string{"Basic realm=x"}, Challenge{}},
		{[]string{"Bearer"}, Challenge{Bearer: true}},
		{[]string{"bearer"}, Challenge{Bearer: true}},
		{[]string{`BEARER Error="insufficient_scope", SCOPE="a b  a"`}, Challenge{Bearer: true, Error: "insufficient_scope", Scopes: []string{"a", "b"}}},
		{[]string{`Bearer error=invalid_token,scope=a`}, Challenge{Bearer: true, Error: "invalid_token", Scopes: []string{"a"}}},
		{[]string{`Bearer resource_metadata="https://x/y?a=b,c"`}, Challenge{Bearer: true, ResourceMetadata: "https://x/y?a=b,c"}},
		{[]string{`Bearer realm="a \"q\", Basic x=y", error="e"`}, Challenge{Bearer: true, Error: "e"}},
		{[]string{`Basic realm="x", Bearer error="e", scope=""`}, Challenge{Bearer: true, Error: "e"}},
		{[]string{`Bearer error="e", Basic realm="x", scope="not-ours"`}, Challenge{Bearer: true, Error: "e"}},
		{[]string{`Negotiate dGVzdA==, Bearer scope="s"`}, Challenge{Bearer: true, Scopes: []string{"s"}}},
		{[]string{`Negotiate a/b+c==`, `Bearer scope="s"`}, Challenge{Bearer: true, Scopes: []string{"s"}}},
		{[]string{`===,"",`, `Digest "`, `Bearer scope="s`}, Challenge{Bearer: true, Scopes: []string{"s"}}},
		{[]string{`Bearer  error = "e" , scope = "s"`}, Challenge{Bearer: true, Error: "e", Scopes: []string{"s"}}},
		{[]string{`Bearer scope="a", scope="b"`}, Challenge{Bearer: true, Scopes: []string{"a"}}},
		{[]string{strings.Repeat("a", maxChallenge+1), "Bearer"}, Challenge{Bearer: true}},
	} {
		got := ParseChallenge(http.Header{"Www-Authenticate": c.lines})
		if got.Bearer != c.want.Bearer || got.Error != c.want.Error || got.ResourceMetadata != c.want.ResourceMetadata || !slices.Equal(got.Scopes, c.want.Scopes) {
			t.Errorf("%.80q: %+v, want %+v", c.lines, got, c.want)
		}
	}
}

func FuzzParseChallenge(f *testing.F) {
	for _, s := range []string{`Bearer realm="a", error="b"`, `Negotiate x==, Bearer a=b`, `"`, `=`, "Bearer a=\"\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c := ParseChallenge(http.Header{"Www-Authenticate": {line}})
		if !c.Bearer && (c.Error != "" || c.Scopes != nil || c.ResourceMetadata != "") {
			t.Errorf("%q: %+v", line, c)
		}
		if c.Bearer && !strings.Contains(strings.ToLower(line), "bearer") {
			t.Errorf("%q: a bearer challenge", line)
		}
		for _, s := range c.Scopes {
			if s == "" || strings.ContainsAny(s, " \"\\") {
				t.Errorf("%q: scope %q", line, s)
			}
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	for _, s := range []string{"A: b", "A:${X}", "Authorization:", "A: $$", "A: ${", "Mcp-X: y"} {
		f.Add(s, "v")
	}
	f.Fuzz(func(t *testing.T, spec, value string) {
		h, err := ParseHeader(spec, func(string) (string, bool) { return value, true })
		if err != nil {
			return
		}
		text := h.Value.Reveal()
		if text == "" || strings.ContainsAny(text, "\r\n\x00") || !isToken(h.Name) || reserved(h.Name) || h.Name != http.CanonicalHeaderKey(h.Name) {
			t.Errorf("%q with %q: %q: %q", spec, value, h.Name, text)
		}
	})
}

// A browser never gets anything but an http(s) URL, whatever the endpoint is.
func FuzzRebuild(f *testing.F) {
	for _, s := range []string{"https://x/y?a=b", "javascript:1", "https://x/$(id)?`x`", "http://[::1]:2/%2F;x", "-x", "//00", "//localhost/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		got, err := rebuild(address)
		if err != nil {
			return
		}
		if !strings.HasPrefix(got, "https://") && !strings.HasPrefix(got, "http://") || strings.ContainsAny(got, "\"'`$();|<> \n\r\t\\*") {
			t.Errorf("%q became %q", address, got)
		}
		if _, err := url.Parse(got); err != nil {
			t.Errorf("%q became %q: %v", address, got, err)
		}
	})
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://X.Example/":         "https://x.example",
		"https://x.example":          "https://x.example",
		"https://x.example:8443/mcp": "https://x.example:8443/mcp",
		"https://x.example/mcp/":     "https://x.example/mcp/",
		"https://u:p@x.example/a?b#": "https://x.example/a?b",
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := canonical(u); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, prefix string
		want         bool
	}{
		{"/mcp", "", true}, {"/mcp", "/", true}, {"/mcp", "/mcp", true}, {"/mcp", "/mcp/", true}, {"/mcp/a", "/mcp", true},
		{"/mcpx", "/mcp", false}, {"/", "/mcp", false}, {"/a", "/b", false},
	} {
		if got := within(c.path, c.prefix); got != c.want {
			t.Errorf("%q within %q: %v", c.path, c.prefix, got)
		}
	}
}

func TestWhereHTTPIsAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule    addressRule
		address string
		ok      bool
	}{
		{addressRule{}, "https://x/y", true},
		{addressRule{}, "http://localhost/y", false}, // a server elsewhere names this machine
		{addressRule{loopback: true}, "http://localhost:9/y", true},
		{addressRule{loopback: true}, "http://[::1]/y", true},
		{addressRule{loopback: true}, "http://x.localhost/y", true},
		{addressRule{loopback: true}, "http://10.0.0.1/y", false},
		{addressRule{loopback: true}, "http://localhost.evil.example/y", false},
		{addressRule{plain: true}, "http://10.0.0.1/y", true},
		{addressRule{loopback: true}, "//localhost/y", false},
		{addressRule{plain: true}, "ftp://10.0.0.1/y", false},
	} {
		if _, err := c.rule.check(c.address); (err == nil) != c.ok {
			t.Errorf("%+v %s: %v", c.rule, c.address, err)
		}
	}
}

// roundTrip plays the token endpoint under a fake clock.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answerWith(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}

// RFC 8628, section 3.5: the interval, slow_down, and a poll that gets lost.
func TestDevicePace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		replies := []string{`{"error":"authorization_pending"}`, `{"error":"slow_down"}`, "", `{"access_token":"tok","token_type":"Bearer"}`}
		endpoint := tokenEndpoint{url: "https://as/token", client: client{id: "c", method: MethodNone}, caller: caller{transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			reply := replies[len(at)]
			at = append(at, time.Since(began))
			if reply == "" {
				return nil, errors.New("connection reset")
			}
			if strings.Contains(reply, "error") {
				return answerWith(400, reply), nil
			}
			return answerWith(200, reply), nil
		})}}
		got, err := endpoint.await(context.Background(), deviceAnswer{code: NewSecret("d"), interval: 5 * time.Second}, "")
		want := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second}
		if err != nil || got.access.Reveal() != "tok" || !slices.Equal(at, want) {
			t.Errorf("%v, polls at %v", err, at)
		}
	})
}

func TestDeviceExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		endpoint := tokenEndpoint{url: "https://as/token", client: client{id: "c", method: MethodNone}, caller: caller{transport: roundTrip(func(*http.Request) (*http.Response, error) {
			return answerWith(400, `{"error":"authorization_pending"}`), nil
		})}}
		began := time.Now()
		_, err := endpoint.await(context.Background(), deviceAnswer{code: NewSecret("d"), interval: 5 * time.Second, expiry: began.Add(time.Minute)}, "")
		if !errors.Is(err, ErrTimeout) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestDeviceAnswers(t *testing.T) {
	t.Parallel()
	for want, body := range map[string]string{
		"":                              `{"device_code":"d","user_code":"U","verification_url":"https://x/y"}`,
		"\"verification_uri\"":          `{"device_code":"d","user_code":"U"}`,
		"\"verification_uri\": the URL": `{"device_code":"d","user_code":"U","verification_uri":"javascript:1"}`,
		"_complete":                     `{"device_code":"d","user_code":"U","verification_uri":"https://x","verification_uri_complete":"file:///x"}`,
		"\"device_code\"":               `{"user_code":"U","verification_uri":"https://x"}`,
		"\"expires_in\"":                `{"device_code":"d","user_code":"U","verification_uri":"https://x","expires_in":"x"}`,
	} {
		d, err := tokenEndpoint{}.parseDevice("device authorization response", []byte(body), time.Now())
		if want == "" {
			if err != nil || d.interval != 5*time.Second || d.page != "https://x/y" {
				t.Errorf("%+v %v", d, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "device authorization response") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A server's description that repeats a secret is not shown.
func TestDescriptionsWithSecrets(t *testing.T) {
	t.Parallel()
	endpoint := tokenEndpoint{url: "https://as/token", client: client{id: "c", method: MethodPost, secret: NewSecret("client-pssst")}, caller: caller{transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return answerWith(400, `{"error":"invalid_grant","error_description":"token refresh-pssst of client-pssst is unknown"}`), nil
	})}}
	_, err := endpoint.refresh(context.Background(), NewSecret("refresh-pssst"), "")
	if err == nil || !strings.Contains(err.Error(), "invalid_grant") || strings.Contains(err.Error(), "pssst") {
		t.Errorf("%v", err)
	}
}

// One request on the wire: net/http must not be able to repeat it.
func TestPostsCannotBeRepeated(t *testing.T) {
	t.Parallel()
	sent := 0
	c := caller{transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		sent++
		if r.GetBody != nil || r.Header.Get("Idempotency-Key") != "" {
			t.Error("the request can be repeated")
		}
		return nil, errors.New("connection reset")
	})}
	u, err := url.Parse("https://as/token?x=pssst")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.post(context.Background(), "token response", u, http.Header{}, []byte("a"))
	if !errors.Is(err, ErrUnavailable) || sent != 1 || strings.Contains(err.Error(), "pssst") {
		t.Errorf("%v, sent %d times", err, sent)
	}
}

func TestActions(t *testing.T) {
	t.Parallel()
	for a, want := range map[Action]string{Stop: "stop", Again: "again", SignIn: "sign in"} {
		if a.String() != want {
			t.Errorf("%d: %q", a, a)
		}
	}
}
