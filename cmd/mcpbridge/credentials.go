package main

import (
	"path/filepath"
	"slices"

	"github.com/mcpbridge/mcpbridge/auth"
)

// authDir is where sign-ins are kept below the state directory.
const authDir = "auth"

// openCredentials gives the bridge what it presents to the server. Nothing is
// read or written before the first request. The returned function ends a sign-in
// that is under way; another process may finish it.
func (p *program) openCredentials(o *options) (closeCredentials func(), err error) {
	none := func() {}
	if o.Broken != nil || o.StateDir == "" && !o.wantsSignIn() {
		return none, nil
	}
	c, err := p.newCredentials(o)
	if err != nil && p.hosted() {
		o.Broken = err
		return none, nil
	}
	if err != nil {
		return none, err
	}
	o.Credentials = c
	if o.maySignIn() {
		o.Login = loginCommand(o)
	}
	return c.Close, nil
}

// wantsSignIn reports whether something was said about getting credentials.
func (o *options) wantsSignIn() bool {
	return o.signIn.tokenCommand != nil || o.signIn.oauth.ClientID != "" || o.signIn.oauth.Grant != ""
}

// maySignIn reports whether a person can sign in: nothing else is configured to
// be sent.
func (o *options) maySignIn() bool {
	return o.signIn.tokenCommand == nil && !slices.ContainsFunc(o.Headers, func(h auth.Header) bool { return h.Name == "Authorization" })
}

// newCredentials makes them from the options. Its errors are about the
// configuration.
func (p *program) newCredentials(o *options) (*auth.Credentials, error) {
	if o.StateDir == "" {
		return nil, configf("no state directory is known, and sign-ins are kept in one; name one with --state-dir")
	}
	oauth, err := o.oauth(p.env)
	if err != nil {
		return nil, configf("%v", err)
	}
	transport, err := authTransport(o)
	if err != nil {
		return nil, configf("%v", err)
	}
	warn := func(line string) {
		if o.Log != nil {
			o.Log.Warn(line)
		}
	}
	store, err := auth.OpenStore(filepath.Join(o.StateDir, authDir), o.signIn.store, warn)
	if err != nil {
		return nil, configf("%v", err)
	}
	c, err := auth.New(auth.Config{
		Server: o.URL, Headers: o.Headers, Command: o.signIn.tokenCommand, OAuth: oauth,
		Principal: o.Principal, AllowHTTP: o.allowHTTP,
		Store: store, Transport: transport, Env: p.env, Log: o.Log,
	})
	if err != nil {
		return nil, configf("%v", err)
	}
	return c, nil
}

// oauth completes the sign-in options by the secrets that they name.
func (o *options) oauth(env lookup) (*auth.OAuth, error) {
	oauth := o.signIn.oauth
	var err error
	if oauth.ClientSecret, err = o.clientSecret(env); err != nil {
		return nil, err
	}
	if o.signIn.privateKey != "" {
		oauth.SigningKey, err = auth.ReadSigningKey(o.signIn.privateKey, o.signIn.privateKeyID)
	}
	return &oauth, err
}

func (o *options) clientSecret(env lookup) (auth.Secret, error) {
	if o.signIn.secretFile != "" {
		return auth.ReadSecretFile(o.signIn.secretFile)
	}
	name := o.signIn.secretEnv
	if name == "" {
		name = secretVariable
	}
	text, ok := env(name)
	if o.signIn.secretEnv != "" && (!ok || text == "") {
		return auth.Secret{}, configf("--client-secret-env: environment variable %s is not set; set it where the host starts mcpbridge", name)
	}
	if text == "" {
		return auth.Secret{}, nil
	}
	return auth.NewSecret(text), nil
}
