package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/spf13/cobra"
)

// PruneFlags say what to remove: what has expired, or everything of some
// accounts.
type pruneFlags struct {
	all, force        bool
	server, principal string
}

// jobsPrune is "mcpbridge jobs prune".
func (p *program) jobsPrune() *cobra.Command {
	var f pruneFlags
	cmd := p.deskCommand("prune", func(ctx context.Context, d *desk, cmd *cobra.Command, words []string) error {
		switch {
		case len(words) > 0:
			return usagef("prune takes no arguments")
		case !f.all && (f.server != "" || f.principal != "" || f.force):
			return usagef("--server, --principal and --force belong to --all")
		case f.all:
			return d.forget(ctx, f)
		}
		return d.prune(ctx)
	})
	cmd.Flags().BoolVar(&f.all, "all", false, "")
	cmd.Flags().BoolVar(&f.force, "force", false, "")
	cmd.Flags().StringVar(&f.server, "server", "", "")
	cmd.Flags().StringVar(&f.principal, "principal", "", "")
	return cmd
}

// prune removes what has expired.
func (d *desk) prune(ctx context.Context) error {
	if nothing, err := d.nothing(); nothing {
		return err
	}
	p, err := d.journal.Prune(ctx)
	switch {
	case err != nil:
		return err
	case p.Skipped:
		_, err = fmt.Fprintln(d.stdout, "nothing to do: it was pruned less than an hour ago, or the clock has jumped")
		return err
	}
	_, err = fmt.Fprintf(d.stdout, "removed %d jobs, wiped the content of %d\n", p.Removed, p.Wiped)
	return err
}

// forget removes everything of the accounts that f means. Calls that are open or
// unknown stay unless forced: without them the same call is not held back.
func (d *desk) forget(ctx context.Context, f pruneFlags) error {
	if nothing, err := d.nothing(); nothing {
		return err
	}
	accounts := map[jobs.Account]bool{}
	if f.server == "" && f.principal == "" {
		accounts[jobs.Account{}] = true
	} else {
		list, err := d.journal.List(ctx, jobs.Filter{Server: f.server, Principal: f.principal})
		if err != nil {
			return err
		}
		for _, j := range list {
			accounts[j.Account] = true
		}
	}
	var total jobs.Forgotten
	for a := range accounts {
		one, err := d.journal.Forget(ctx, a, f.force)
		total.Removed, total.Kept = total.Removed+one.Removed, total.Kept+one.Kept
		if err != nil {
			return err
		}
	}
	text := fmt.Sprintf("removed %d jobs", total.Removed)
	if total.Kept > 0 {
		text += fmt.Sprintf("; %d that are open or unknown stay, so that the same call is not made twice: settle them (mcpbridge jobs), or add --force", total.Kept)
	}
	_, err := fmt.Fprintln(d.stdout, text)
	return err
}

// nothing says that there is no state directory, so that a look makes none.
func (d *desk) nothing() (bool, error) {
	if _, err := os.Stat(d.opt.StateDir); !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	_, err := fmt.Fprintln(d.stdout, "no jobs")
	return true, err
}
