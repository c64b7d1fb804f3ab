package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// A Grant is how tokens are got.
type Grant string

const (
	GrantCode   Grant = "authorization_code" // a person signs in in a browser; the default
	GrantDevice Grant = "device_code"        // a person signs in on any device
	GrantClient Grant = "client_credentials" // nobody signs in
)

// defaultSignInTime is how long a sign-in stays open (--auth-timeout).
const defaultSignInTime = 5 * time.Minute

// Config is what is configured about the credentials for one upstream.
type Config struct {
	Server    *url.URL // the upstream's MCP endpoint
	Headers   []Header // sent with every request
	Command   *Command // --token-command
	OAuth     *OAuth   // nil: never sign in
	Principal string   // --principal
	AllowHTTP bool     // --allow-http

	Store     *Store                              // needed always: principal ids are keyed
	Transport http.RoundTripper                   // for discovery, registration and tokens; nil: http.DefaultTransport
	Env       func(string) (string, bool)         // nil: os.LookupEnv
	Browser   func(context.Context, string) error // opens a page; nil: OpenBrowser
	Log       *slog.Logger                        // nil: no log
}

// OAuth is what is configured about signing in. The zero value asks the server
// for everything. Fields left empty are taken from the server's last sign-in.
type OAuth struct {
	Grant             Grant
	ClientID          string // --client-id; empty: metadata document or registration
	ClientSecret      Secret
	SigningKey        *SigningKey // for private_key_jwt
	AuthMethod        string      // --token-auth-method; empty: chosen
	ClientMetadataURL string      // --client-metadata-url
	Scopes            []string    // --scope; empty: chosen
	Resource          string      // --resource; empty: what the server says
	NoResource        bool        // --no-resource
	AuthorizeParams   url.Values  // --authorize-param
	TokenEndpoint     string      // --token-endpoint
	Issuer            string      // --issuer; empty: as the server names it, to the letter
	UseIDToken        bool        // --use-id-token
	CallbackHost      string      // --callback-host; empty: 127.0.0.1
	CallbackPort      int         // --callback-port; 0: any
	CallbackPath      string      // --callback-path; empty: /callback
	Timeout           time.Duration
}

// errOwnParam refuses an authorization parameter that no configuration may set.
var errOwnParam = errors.New("it is set by mcpbridge itself")

func ownParam(name string) bool {
	return slices.Contains([]string{
		"response_type", "client_id", "redirect_uri", "state", "code_challenge", "code_challenge_method", "scope", "resource",
	}, name)
}

func (c Config) check() error {
	if c.Server == nil || c.Server.Host == "" {
		return errors.New("credentials: no server URL")
	}
	if c.Store == nil {
		return errors.New("credentials: no store")
	}
	if c.Command != nil && c.sendsAuthorization() {
		return errors.New("credentials: both a token command and an Authorization header are configured; choose one")
	}
	if (c.Command != nil || len(c.Headers) > 0 || c.OAuth != nil) && c.Server.Scheme != "https" &&
		!IsLoopback(c.Server.Hostname()) && !c.AllowHTTP {
		return fmt.Errorf("credentials: %s is not https; credentials would be readable on the way (--allow-http permits it)", shown(c.Server))
	}
	if c.OAuth == nil {
		return nil
	}
	return c.OAuth.check(rule(c.Server, c.AllowHTTP))
}

func (c Config) sendsAuthorization() bool {
	return slices.ContainsFunc(c.Headers, func(h Header) bool { return h.Name == "Authorization" })
}

func (o *OAuth) check(r addressRule) error {
	switch o.Grant {
	case "", GrantCode, GrantDevice, GrantClient:
	default:
		return fmt.Errorf("grant %q: use authorization_code, device_code or client_credentials", o.Grant)
	}
	switch o.AuthMethod {
	case "", MethodNone, MethodBasic, MethodPost, MethodJWT:
	default:
		return fmt.Errorf("token auth method %q: use none, client_secret_basic, client_secret_post or private_key_jwt", o.AuthMethod)
	}
	for name := range o.AuthorizeParams {
		if ownParam(name) {
			return fmt.Errorf("authorize parameter %q: %w", name, errOwnParam)
		}
	}
	if err := r.optional("configuration", "token endpoint", o.TokenEndpoint); err != nil {
		return err
	}
	if err := r.optional("configuration", "issuer", o.Issuer); err != nil {
		return err
	}
	if o.Resource != "" {
		if u, err := url.Parse(o.Resource); err != nil || u.Scheme == "" || u.Fragment != "" {
			return errors.New("resource: it must be an absolute URI without a fragment")
		}
	}
	return o.checkCallback(r)
}

func (o *OAuth) checkCallback(r addressRule) error {
	if o.CallbackHost != "" && !IsLoopback(o.CallbackHost) {
		return fmt.Errorf("callback host %q: only localhost and loopback addresses are allowed", o.CallbackHost)
	}
	if o.CallbackPort < 0 || o.CallbackPort > 65535 {
		return fmt.Errorf("callback port %d: out of range", o.CallbackPort)
	}
	if p := o.CallbackPath; p != "" && (!strings.HasPrefix(p, "/") || strings.ContainsAny(p, "?#%\\ ")) {
		return fmt.Errorf("callback path %q: it must begin with a slash and hold no ?, #, %% or blank", p)
	}
	if o.ClientMetadataURL == "" {
		return nil
	}
	u, err := r.parse("configuration", "client metadata URL", o.ClientMetadataURL)
	if err == nil && strings.Trim(u.Path, "/") == "" {
		return errors.New("client metadata URL: it needs a path") // 2026-07-28, client ID metadata documents
	}
	return err
}

func (c Config) withDefaults() Config {
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	if c.Env == nil {
		c.Env = os.LookupEnv
	}
	if c.Browser == nil {
		env := c.Env
		c.Browser = func(ctx context.Context, address string) error { return OpenBrowser(ctx, address, env) }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// completed fills what was left empty with what the last sign-in used, so that
// a plain start renews as the same client.
func (o OAuth) completed(s *settings) OAuth {
	if s != nil {
		o = o.like(s)
	}
	if o.Grant == "" {
		o.Grant = GrantCode
	}
	if o.CallbackHost == "" {
		o.CallbackHost = "127.0.0.1"
	}
	if o.CallbackPath == "" {
		o.CallbackPath = "/callback"
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultSignInTime
	}
	return o
}

func (o OAuth) like(s *settings) OAuth {
	o.Grant = either(o.Grant, s.Grant)
	o.ClientID = either(o.ClientID, s.ConfiguredClient)
	o.ClientMetadataURL = either(o.ClientMetadataURL, s.ClientMetadataURL)
	o.TokenEndpoint = either(o.TokenEndpoint, s.TokenEndpoint)
	o.Issuer = either(o.Issuer, s.ConfiguredIssuer)
	o.CallbackHost = either(o.CallbackHost, s.CallbackHost)
	o.CallbackPort = either(o.CallbackPort, s.CallbackPort)
	o.CallbackPath = either(o.CallbackPath, s.CallbackPath)
	if o.AuthMethod == "" && o.ClientID == s.ConfiguredClient && s.ConfiguredClient != "" {
		o.AuthMethod = s.AuthMethod
	}
	if len(o.Scopes) == 0 {
		o.Scopes = s.Scopes
	}
	if o.Resource == "" && !o.NoResource {
		o.Resource, o.NoResource = s.ConfiguredTarget, s.NoResource
	}
	if len(o.AuthorizeParams) == 0 {
		o.AuthorizeParams = s.AuthorizeParams
	}
	o.UseIDToken = o.UseIDToken || s.UseIDToken
	return o
}

func either[T comparable](first, second T) T {
	var zero T
	if first != zero {
		return first
	}
	return second
}
