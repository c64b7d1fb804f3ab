package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
)

// SignInOptions say how to get credentials for a server: by a command, or by
// signing in.
type signInOptions struct {
	oauth        auth.OAuth // without its secrets
	tokenCommand *auth.Command

	secretEnv    string // variable that holds the client secret
	secretFile   string
	privateKey   string // file
	privateKeyID string
	store        auth.KeyPlace
}

// secretVariable holds the client secret unless --client-secret-env names
// another one.
const secretVariable = variablePrefix + "CLIENT_SECRET"

// signInSettings are the settings of a bridge that are about signing in.
func signInSettings() []setting {
	oauth := func(field func(*auth.OAuth) *string) func(*options, []string) error {
		return text(func(o *options) *string { return field(&o.signIn.oauth) })
	}
	return []setting{
		{"token-command", single, parseTokenCommand},
		{"oauth-grant", single, oneOf(func(o *options, v string) { o.signIn.oauth.Grant = auth.Grant(v) },
			string(auth.GrantCode), string(auth.GrantDevice), string(auth.GrantClient))},
		{"client-id", single, oauth(func(o *auth.OAuth) *string { return &o.ClientID })},
		{"client-secret-env", single, parseSecretEnv},
		{"client-secret-file", single, file(func(o *options) *string { return &o.signIn.secretFile })},
		{"private-key", single, file(func(o *options) *string { return &o.signIn.privateKey })},
		{"private-key-id", single, text(func(o *options) *string { return &o.signIn.privateKeyID })},
		{"token-auth-method", single, oneOf(func(o *options, v string) { o.signIn.oauth.AuthMethod = v },
			auth.MethodNone, auth.MethodBasic, auth.MethodPost, auth.MethodJWT)},
		{"client-metadata-url", single, oauth(func(o *auth.OAuth) *string { return &o.ClientMetadataURL })},
		{"scope", lines, parseScopes},
		{"resource", single, oauth(func(o *auth.OAuth) *string { return &o.Resource })},
		{"no-resource", toggle, boolean(func(o *options) *bool { return &o.signIn.oauth.NoResource })},
		{"authorize-param", lines, parseAuthorizeParams},
		{"token-endpoint", single, oauth(func(o *auth.OAuth) *string { return &o.TokenEndpoint })},
		{"issuer", single, oauth(func(o *auth.OAuth) *string { return &o.Issuer })},
		{"use-id-token", toggle, boolean(func(o *options) *bool { return &o.signIn.oauth.UseIDToken })},
		{"callback-host", single, oauth(func(o *auth.OAuth) *string { return &o.CallbackHost })},
		{"callback-port", single, parseCallbackPort},
		{"callback-path", single, oauth(func(o *auth.OAuth) *string { return &o.CallbackPath })},
		{"auth-timeout", single, span(func(o *options) *time.Duration { return &o.signIn.oauth.Timeout })},
		{"token-store", single, oneOf(func(o *options, v string) { o.signIn.store = auth.KeyPlace(v) },
			string(auth.KeyInKeyring), string(auth.KeyInFile))},
	}
}

func parseTokenCommand(o *options, v []string) error {
	c, err := auth.ParseCommand(v[0])
	if err != nil {
		return err
	}
	o.signIn.tokenCommand = &c
	return nil
}

func parseSecretEnv(o *options, v []string) error {
	if !isVariable(v[0]) { // it may be the secret itself
		return errors.New("wants the name of an environment variable that holds the client secret, not the secret itself")
	}
	o.signIn.secretEnv = v[0]
	return nil
}

// parseScopes takes scopes one by one, or several separated by blanks.
func parseScopes(o *options, v []string) error {
	var scopes []string
	for _, one := range v {
		scopes = append(scopes, strings.Fields(one)...)
	}
	for _, scope := range scopes {
		if strings.ContainsFunc(scope, func(r rune) bool { return r < '!' || r > '~' || r == '"' || r == '\\' }) {
			return errors.New("a scope is printable ASCII without quotes and backslashes (RFC 6749, section 3.3)")
		}
	}
	o.signIn.oauth.Scopes = scopes
	return nil
}

func parseAuthorizeParams(o *options, v []string) error {
	params := url.Values{}
	for _, one := range v {
		name, val, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return errors.New("wants name=value")
		}
		params.Add(name, val)
	}
	o.signIn.oauth.AuthorizeParams = params
	return nil
}

func parseCallbackPort(o *options, v []string) error {
	port, err := strconv.ParseUint(v[0], 10, 16)
	if err != nil {
		return fmt.Errorf("wants a port, or 0 for any")
	}
	o.signIn.oauth.CallbackPort = int(port)
	return nil
}
