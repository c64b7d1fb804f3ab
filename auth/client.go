package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A kind says how a client became known to its authorization server.
type kind string

const (
	preRegistered kind = "registered" // by the user
	byDocument    kind = "document"   // by a client ID metadata document
	dynamic       kind = "dynamic"    // by dynamic registration
)

// Client authentication methods at the token endpoint (RFC 8414).
const (
	MethodNone  = "none"
	MethodBasic = "client_secret_basic"
	MethodPost  = "client_secret_post"
	MethodJWT   = "private_key_jwt"
)

// A client is how this program presents itself to one authorization server.
type client struct {
	id     string
	kind   kind
	method string
	secret Secret
	key    *SigningKey
}

// chooseMethod picks how to authenticate: what the user or the registration
// says, else what fits the credentials and is supported. RFC 8414 says that a
// server that lists nothing supports client_secret_basic.
func (c client) chooseMethod(wanted string, supported []string) string {
	switch {
	case wanted != "":
		return wanted
	case c.key != nil:
		return MethodJWT
	case c.secret.IsZero():
		return MethodNone
	case len(supported) == 0 || slices.Contains(supported, MethodBasic):
		return MethodBasic
	case slices.Contains(supported, MethodPost):
		return MethodPost
	}
	return MethodBasic
}

// authenticate adds the client's credentials to a form request. audience is the
// issuer: the only value of aud that current advice (RFC 7523bis) allows.
func (c client) authenticate(h http.Header, form url.Values, audience string) error {
	switch c.method {
	case MethodBasic:
		// RFC 6749, section 2.3.1: both parts are form-encoded first.
		req := http.Request{Header: h}
		req.SetBasicAuth(url.QueryEscape(c.id), url.QueryEscape(c.secret.Reveal()))
		return nil
	case MethodPost:
		form.Set("client_secret", c.secret.Reveal())
	case MethodJWT:
		if c.key == nil {
			return errors.New("client authentication private_key_jwt: no private key is configured")
		}
		assertion, err := c.key.assertion(c.id, audience, time.Now())
		if err != nil {
			return err
		}
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	case MethodNone:
	default:
		return fmt.Errorf("client authentication method %q: unknown; use none, client_secret_basic, client_secret_post or private_key_jwt", c.method)
	}
	form.Set("client_id", c.id)
	return nil
}

// A registration is a dynamic registration (RFC 7591), kept sealed.
type registration struct {
	Issuer       string       `json:"issuer"`
	ClientID     string       `json:"clientId"`
	Secret       storedSecret `json:"secret"`
	Method       string       `json:"method"`
	RedirectURI  string       `json:"redirectUri"`
	SecretExpiry time.Time    `json:"secretExpiry"` // zero: never
}

func (r registration) client() client {
	return client{id: r.ClientID, kind: dynamic, method: r.Method, secret: r.Secret.Secret}
}

// registrationRequest is the client metadata that is registered. It is native
// (2026-07-28, application type and redirect URI constraints).
type registrationRequest struct {
	RedirectURIs    []string `json:"redirect_uris"`
	AuthMethod      string   `json:"token_endpoint_auth_method"`
	Grants          []string `json:"grant_types"`
	Responses       []string `json:"response_types"`
	Name            string   `json:"client_name"`
	ApplicationType string   `json:"application_type"`
}

// register asks for a client at the registration endpoint. It is not left to
// the SDK, whose errors quote the whole response, secrets included.
func (c caller) register(ctx context.Context, server authServer, redirectURI string) (registration, error) {
	u, err := c.rule.parse("authorization server metadata", "registration_endpoint", server.Registration)
	if err != nil {
		return registration{}, err
	}
	document := "client registration at " + shown(u)
	ask := registrationRequest{
		RedirectURIs: []string{redirectURI}, AuthMethod: registerMethod(server.AuthMethods),
		Grants: []string{"authorization_code", "refresh_token"}, Responses: []string{"code"},
		Name: "mcpbridge", ApplicationType: "native",
	}
	if server.Device != "" {
		ask.Grants = append(ask.Grants, deviceGrant)
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return registration{}, fmt.Errorf("%s: %w", document, err)
	}
	got, err := c.post(ctx, document, u, http.Header{"Content-Type": {"application/json"}}, body)
	if err != nil {
		return registration{}, err
	}
	if got.status != http.StatusCreated && got.status != http.StatusOK {
		return registration{}, serverError(document, got)
	}
	return parseRegistration(document, got.body, server, ask)
}

func registerMethod(supported []string) string {
	for _, m := range []string{MethodNone, MethodBasic, MethodPost} {
		if slices.Contains(supported, m) {
			return m
		}
	}
	return MethodNone
}

func parseRegistration(document string, body []byte, server authServer, ask registrationRequest) (registration, error) {
	var doc struct {
		ID     string         `json:"client_id"`
		Secret string         `json:"client_secret"`
		Method string         `json:"token_endpoint_auth_method"`
		Expiry jsontext.Value `json:"client_secret_expires_at"`
	}
	if err := decode(document, body, &doc); err != nil {
		return registration{}, err
	}
	if doc.ID == "" {
		return registration{}, fmt.Errorf("%s: field \"client_id\" is missing", document)
	}
	r := registration{
		Issuer: server.Issuer, ClientID: doc.ID, RedirectURI: ask.RedirectURIs[0],
		Secret: storedSecret{NewSecret(doc.Secret)},
	}
	if present(doc.Expiry) {
		at, ok := number(doc.Expiry)
		if !ok || at < 0 || at > 1e11 {
			return registration{}, fmt.Errorf("%s: field \"client_secret_expires_at\" is not a time in seconds", document)
		}
		if at > 0 {
			r.SecretExpiry = time.Unix(int64(at), 0)
		}
	}
	r.Method = r.client().chooseMethod(registeredMethod(doc.Method, doc.Secret), server.AuthMethods)
	return r, nil
}

// registeredMethod drops a method that does not fit: some servers answer "none"
// and a secret, others a secret method without one.
func registeredMethod(method, secret string) string {
	needsSecret := method == MethodBasic || method == MethodPost
	if needsSecret == (secret != "") && (needsSecret || method == MethodNone) {
		return method
	}
	return ""
}
