package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
	"github.com/spf13/cobra"
)

func (p *program) logoutCommand() *cobra.Command {
	var forget bool
	cmd := p.accountCommand("logout", func(ctx context.Context, a *account) error { return a.logout(ctx, forget) })
	cmd.Flags().BoolVar(&forget, "forget", false, "")
	return cmd
}

// logout removes the tokens of the account, and with forget everything that is
// kept of it.
func (a *account) logout(ctx context.Context, forget bool) error {
	who, err := a.credentials.Principal()
	if err != nil {
		return err
	}
	if forget {
		if who, err = a.whoWas(who); err != nil {
			return err
		}
	}
	if err := a.credentials.SignOut(ctx, forget); err != nil {
		return fmt.Errorf("sign out of %s: %w", a.opt.Server, err)
	}
	if !forget {
		_, err = fmt.Fprintf(a.stdout, "Signed out of %s (account %s).\n", a.opt.Server, who)
		return err
	}
	calls, err := a.forget(ctx, who)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "Signed out of %s; everything of account %s is removed, %d recorded calls among it.\n", a.opt.Server, who, calls)
	return err
}

// whoWas is the account to forget: the last one, if nobody is signed in now.
func (a *account) whoWas(who string) (string, error) {
	last, err := a.credentials.LastAccount()
	if last != "" {
		who = last
	}
	return who, err
}

// forget removes the jobs and the catalogues of an account.
func (a *account) forget(ctx context.Context, who string) (calls int, err error) {
	if err := bridge.ForgetCatalogues(a.opt.StateDir, a.opt.URL, who); err != nil {
		return 0, fmt.Errorf("remove the list of tools: %w", err)
	}
	j, err := stateJournal(&a.opt, func(boltstore.Damage) {}) // set aside files are told of by jobs
	if err != nil {
		return 0, err
	}
	f, err := j.Forget(ctx, jobs.Account{Server: a.opt.Server, Principal: who}, true)
	calls = f.Removed
	if err = errors.Join(err, j.Close(ctx)); err != nil {
		return calls, fmt.Errorf("remove the recorded calls: %w", err)
	}
	return calls, nil
}
