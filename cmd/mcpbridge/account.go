package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/bridge/wire"
	"github.com/spf13/cobra"
)

// An account is what the commands about one work with: a server and what is
// presented to it.
type account struct {
	*program
	opt         options
	credentials *auth.Credentials
}

// accountCommand makes a command about the account at one server.
func (p *program) accountCommand(use string, run func(context.Context, *account) error) *cobra.Command {
	cmd := &cobra.Command{Use: use + " [flags] <url | name>", Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, words []string) error {
		a, err := p.openAccount(bridgeFlags(cmd), words)
		if err != nil {
			return err
		}
		defer a.credentials.Close()
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		return run(ctx, a)
	}}
	cmd.ValidArgsFunction = p.completeServer
	for _, s := range accountSettings() {
		addSettingFlag(cmd, s)
	}
	return cmd
}

func (p *program) openAccount(flags layer, words []string) (*account, error) {
	opt, err := resolve(flags, words, p.env, defaultConfigPath())
	if err != nil {
		return nil, err
	}
	opt.Version = buildVersion()
	opt.Log = slog.New(screenHandler(opt.log, p.stderr, isTerminal(p.stderr)))
	if opt.Server == "" {
		opt.Server = opt.URL.Scheme + "://" + opt.URL.Host + opt.URL.Path // as the bridge names it
	}
	c, err := p.newCredentials(&opt)
	if err != nil {
		return nil, err
	}
	return &account{program: p, opt: opt, credentials: c}, nil
}

// A signInError ends a command with the exit code for "signing in comes first".
type signInError struct{ err error }

func (e *signInError) Error() string { return e.err.Error() }
func (e *signInError) Unwrap() error { return e.err }

// signInFailed gives an error of a sign-in its exit code.
func signInFailed(err error) error {
	for _, kind := range []error{auth.ErrDenied, auth.ErrTimeout, auth.ErrSignedOut, auth.ErrSignInNeeded} {
		if errors.Is(err, kind) {
			return &signInError{err}
		}
	}
	return err
}

// learnChallenge asks the server without a token, for what it says about signing
// in: a server may name its metadata nowhere else. A server that cannot be asked
// is no reason to stop.
func (a *account) learnChallenge(ctx context.Context) error {
	o := &a.opt
	client, err := wire.New(wire.Config{URL: o.URL, Proxy: o.Proxy, CACertFile: o.CACert, ClientCertFile: o.ClientCert,
		ClientKeyFile: o.ClientKey, ConnectTimeout: o.ConnectTimeout, NoCookies: true, UserAgent: "mcpbridge/" + o.Version})
	if err != nil {
		return configf("%v", err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, connectTimeout(o))
	defer cancel()
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"server/discover"}}
	for _, h := range o.Headers {
		h.SetOn(header)
	}
	resp, err := client.Do(ctx, &wire.Request{Method: http.MethodPost, Header: header, Body: []byte(
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"mcpbridge","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)})
	if err != nil {
		return fmt.Errorf("server %s: %w", o.Server, err)
	}
	resp.Body.Close()
	if resp.Status == http.StatusUnauthorized {
		a.credentials.Challenge(ctx, auth.Use{}, resp.Status, resp.Header)
	}
	return nil
}
