package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
	"github.com/spf13/cobra"
)

// jobsCommand is "mcpbridge jobs" with all below it. They look at all servers
// and accounts of one state directory.
func (p *program) jobsCommand() *cobra.Command {
	cmd := p.jobsView("jobs", p.jobsOverview)
	for _, s := range settings() {
		if slices.Contains(deskSettings(), s.name) {
			addSetting(cmd.PersistentFlags(), s)
		}
	}
	cmd.AddCommand(p.jobsView("list", p.jobsList), p.jobsShow(), p.jobsWait(), p.jobsCancel(),
		p.jobsResolve(), p.jobsStop(), p.jobsPrune())
	return cmd
}

// A desk is what a jobs command works at: an open journal, and whom it talks
// to.
type desk struct {
	*program
	journal *jobs.Journal
	opt     options
	config  *configFile
}

// deskSettings are the settings of the bridge that jobs commands take too.
func deskSettings() []string { return []string{"state-dir", "allow-network-state", "config"} }

// deskCommand makes a command that runs at a desk.
func (p *program) deskCommand(use string, run func(ctx context.Context, d *desk, cmd *cobra.Command, words []string) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, words []string) error {
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		d, err := p.openDesk(bridgeFlags(cmd))
		if err != nil {
			return err
		}
		defer closeSoon(d.journal)
		return run(ctx, d, cmd, words)
	}}
	return cmd
}

// openDesk opens the journal that flags, variables and config.toml name.
func (p *program) openDesk(flags layer) (*desk, error) {
	if err := checkFlags(flags); err != nil {
		return nil, err
	}
	r := &resolver{opt: defaultOptions(), merged: layer{}}
	variables := environment(p.env)
	file := r.readFile(flags, variables, defaultConfigPath())
	maps.Copy(r.merged, variables)
	maps.Copy(r.merged, flags)
	maps.DeleteFunc(r.merged, func(name string, _ value) bool {
		return name != "state-dir" && name != "allow-network-state"
	})
	r.parse()
	if r.broken != nil {
		return nil, r.broken
	}
	d := &desk{program: p, opt: r.opt, config: file}
	if d.opt.StateDir == "" {
		d.opt.StateDir = defaultStateDir(p.env)
	}
	var err error
	d.journal, err = stateJournal(&d.opt, func(boltstore.Damage) {}) // told by what is not found
	return d, err
}

// A pick says which job a command is about: a handle, the beginning of one, or
// the last.
type pick struct {
	last bool
}

func (k *pick) addFlag(cmd *cobra.Command) { cmd.Flags().BoolVar(&k.last, "last", false, "") }

// split takes the handle off the words.
func (k *pick) split(cmd *cobra.Command, words []string) (handle string, rest []string, err error) {
	switch {
	case k.last:
		return "", words, nil
	case len(words) == 0:
		return "", nil, usagef("%s: name a handle, its beginning, or --last; see mcpbridge jobs list", cmd.CommandPath()[len("mcpbridge "):])
	}
	return words[0], words[1:], nil
}

// only is split for commands that take nothing but a handle.
func (k *pick) only(cmd *cobra.Command, words []string) (string, error) {
	handle, rest, err := k.split(cmd, words)
	if err == nil && len(rest) > 0 {
		err = usagef("%s takes one handle", cmd.Name())
	}
	return handle, err
}

// find returns the job that a handle or its beginning means; the newest for "".
func (d *desk) find(ctx context.Context, handle string) (jobs.Job, error) {
	if handle == "" {
		list, err := d.journal.List(ctx, jobs.Filter{Limit: 1})
		if err == nil && len(list) == 0 {
			err = errors.New("there are no jobs in " + d.opt.StateDir)
		}
		if err != nil {
			return jobs.Job{}, err
		}
		return list[0], nil
	}
	prefix, err := jobs.ParsePrefix(handle)
	if err != nil {
		return jobs.Job{}, usagef("%v", err)
	}
	job, err := d.journal.FindPrefix(ctx, prefix)
	switch {
	case errors.Is(err, jobs.ErrAmbiguous):
		return job, usagef("more than one job begins with %s; write more of it", prefix)
	case errors.Is(err, jobs.ErrNotFound):
		return job, errors.New(d.notFound(prefix, err))
	}
	return job, err
}

// notFound says that no job has a handle, which is no word about its call.
func (d *desk) notFound(prefix string, err error) string {
	text := "no job " + prefix + " in " + d.opt.StateDir + "; not found does not mean not done"
	var missing *jobs.NotFoundError
	if errors.As(err, &missing) && !missing.SetAside.IsZero() {
		text += "; a damaged journal was set aside at " + clock(missing.SetAside)
	}
	return text
}

// isOpen reports whether a job is still in somebody's hands.
func isOpen(j *jobs.Job) bool { return j.State == jobs.Working || j.State == jobs.InputRequired }

// lost reports whether a job is open and the process that held it gone.
func (d *desk) lost(ctx context.Context, j *jobs.Job) bool {
	if !isOpen(j) {
		return false
	}
	lost, err := d.journal.OwnerLost(ctx, *j)
	return err == nil && lost
}

// parseStates reads names of states.
func parseStates(names []string) ([]jobs.State, error) {
	var states []jobs.State
	for _, name := range names {
		var s jobs.State
		if err := s.UnmarshalText([]byte(strings.TrimSpace(name))); err != nil {
			return nil, usagef("--state: wants working, input_required, outcome_unknown, completed, failed or cancelled")
		}
		states = append(states, s)
	}
	return states, nil
}
