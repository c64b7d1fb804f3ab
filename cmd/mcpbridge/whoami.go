package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/spf13/cobra"
)

// A whoamiReport is what "whoami --json" prints.
type whoamiReport struct {
	Server    string     `json:"server"`
	Principal string     `json:"principal"` // that recorded calls belong to
	Kind      string     `json:"kind"`      // oauth, command, headers or none
	SignedIn  bool       `json:"signedIn"`
	Renews    bool       `json:"renews"`
	Issuer    string     `json:"issuer,omitempty"`
	ClientID  string     `json:"clientId,omitempty"`
	Resource  string     `json:"resource,omitempty"`
	Scopes    []string   `json:"scopes,omitempty"`
	Expires   *time.Time `json:"expires,omitempty"` // of the present token
}

func (p *program) whoamiCommand() *cobra.Command {
	var asJSON bool
	cmd := p.accountCommand("whoami", func(_ context.Context, a *account) error { return a.whoami(asJSON) })
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}

// whoami prints what is known here of the account. It asks nobody.
func (a *account) whoami(asJSON bool) error {
	status, err := a.credentials.Status()
	if err != nil {
		return err
	}
	who, err := a.credentials.Principal()
	if err != nil {
		return err
	}
	r := newWhoamiReport(a.opt.Server, who, status)
	if asJSON {
		err = json.NewEncoder(a.stdout).Encode(r)
	} else {
		err = r.print(a.stdout)
	}
	if err == nil && status.Kind == "oauth" && !status.SignedIn {
		return &signInError{errors.New("not signed in; sign in with: " + loginCommand(&a.opt))}
	}
	return err
}

func newWhoamiReport(server, who string, s auth.Status) whoamiReport {
	r := whoamiReport{Server: server, Principal: who, Kind: s.Kind, SignedIn: s.SignedIn, Renews: s.Renews,
		Issuer: s.Issuer, ClientID: s.ClientID, Resource: s.Resource, Scopes: s.Scopes}
	if !s.Expiry.IsZero() {
		r.Expires = &s.Expiry
	}
	return r
}

func (r *whoamiReport) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, text)
		}
	}
	line("server", r.Server)
	line("account", r.Principal)
	line("credentials", r.credentials())
	line("issuer", r.Issuer)
	line("client", r.ClientID)
	line("resource", r.Resource)
	line("scopes", strings.Join(r.Scopes, " "))
	if r.Expires != nil {
		line("expires", r.Expires.Local().Format(time.DateTime)+r.renewal())
	}
	return table.Flush()
}

func (r *whoamiReport) credentials() string {
	switch {
	case r.Kind == "oauth" && r.SignedIn:
		return "signed in"
	case r.Kind == "oauth":
		return "not signed in"
	case r.Kind == "command":
		return "token command"
	}
	return r.Kind
}

func (r *whoamiReport) renewal() string {
	if r.Renews {
		return " (renewed by itself)"
	}
	return " (then you have to sign in again)"
}
