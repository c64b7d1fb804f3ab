package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/spf13/cobra"
)

// ListFlags say which jobs to show, and how.
type listFlags struct {
	server, tool string
	states       []string
	limit        int
	asJSON       bool
	result       bool
}

// defaultList is how many jobs are shown at most.
const defaultList = 100

// jobsView makes a command that shows jobs.
func (p *program) jobsView(use string, show func(context.Context, *desk, listFlags, jobs.Filter) error) *cobra.Command {
	var f listFlags
	cmd := p.deskCommand(use, func(ctx context.Context, d *desk, cmd *cobra.Command, words []string) error {
		if len(words) > 0 {
			return noSuchJobsCommand(cmd, words)
		}
		filter, err := f.filter()
		if err != nil {
			return err
		}
		return show(ctx, d, f, filter)
	})
	cmd.Flags().StringVar(&f.server, "server", "", "")
	cmd.Flags().StringVar(&f.tool, "tool", "", "")
	cmd.Flags().StringSliceVar(&f.states, "state", nil, "")
	cmd.Flags().IntVar(&f.limit, "limit", defaultList, "")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "")
	cmd.Flags().BoolVar(&f.result, "result", false, "")
	return cmd
}

func noSuchJobsCommand(cmd *cobra.Command, words []string) error {
	if !cmd.HasSubCommands() {
		return usagef("jobs %s takes no arguments", cmd.Name())
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return usagef("jobs has no such command%s (see mcpbridge help jobs)", didYouMean(words[0], names))
}

func (f *listFlags) filter() (jobs.Filter, error) {
	states, err := parseStates(f.states)
	if err == nil && f.limit <= 0 {
		err = usagef("--limit: wants a number above zero")
	}
	if err == nil && f.result && !f.asJSON {
		err = usagef("--result belongs to --json; one result alone: mcpbridge jobs show HANDLE --result")
	}
	return jobs.Filter{Server: f.server, Tool: f.tool, States: states, Limit: f.limit}, err
}

// jobsOverview shows what needs somebody: what is unknown, what runs, and what
// nobody has read.
func (p *program) jobsOverview(ctx context.Context, d *desk, f listFlags, filter jobs.Filter) error {
	filter.Attention = true
	list, err := d.journal.List(ctx, filter)
	if err != nil {
		return err
	}
	if f.asJSON {
		return d.printObjects(ctx, list, f.result)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(p.stdout, "nothing is unknown, nothing runs, nothing is unread (all jobs: mcpbridge jobs list)")
		return err
	}
	return d.printGroups(ctx, list)
}

// printGroups prints jobs by what they need.
func (d *desk) printGroups(ctx context.Context, list []jobs.Job) error {
	var unknown, running, unread []row
	for i := range list {
		r := d.row(ctx, &list[i])
		switch {
		case r.lost || r.job.State == jobs.OutcomeUnknown:
			unknown = append(unknown, r)
		case isOpen(r.job):
			running = append(running, r)
		default:
			unread = append(unread, r)
		}
	}
	first := true
	for _, g := range []struct {
		title, next string
		rows        []row
	}{
		{"NEEDS YOU: whether these calls took effect is not known", "mcpbridge jobs resolve HANDLE happened|did_not_happen|send_again", unknown},
		{"RUNNING", "mcpbridge jobs wait HANDLE, or cancel HANDLE", running},
		{"NOBODY HAS READ THESE", "mcpbridge jobs show HANDLE --result", unread},
	} {
		if len(g.rows) == 0 {
			continue
		}
		if !first {
			fmt.Fprintln(d.stdout)
		}
		first = false
		fmt.Fprintln(d.stdout, g.title)
		if err := printTable(d.stdout, g.rows); err != nil {
			return err
		}
		fmt.Fprintln(d.stdout, "next: "+g.next)
	}
	return nil
}

// jobsList shows all jobs, newest first.
func (p *program) jobsList(ctx context.Context, d *desk, f listFlags, filter jobs.Filter) error {
	list, err := d.journal.List(ctx, filter)
	if err != nil {
		return err
	}
	if f.asJSON {
		return d.printObjects(ctx, list, f.result)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(p.stdout, "no jobs")
		return err
	}
	rows := make([]row, 0, len(list))
	for i := range list {
		rows = append(rows, d.row(ctx, &list[i]))
	}
	return printTable(p.stdout, rows)
}

// printObjects prints one JSON object a line.
func (d *desk) printObjects(ctx context.Context, list []jobs.Job, result bool) error {
	for i := range list {
		o, err := d.object(ctx, &list[i], result)
		if err != nil {
			return err
		}
		if err := printJSON(d.stdout, o); err != nil {
			return err
		}
	}
	return nil
}

// A row is one job of a table.
type row struct {
	job  *jobs.Job
	lost bool
}

func (d *desk) row(ctx context.Context, j *jobs.Job) row { return row{j, d.lost(ctx, j)} }

func printTable(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HANDLE\tSTATE\tTOOL\tSERVER\tSTARTED\tAGE\tWHY")
	for _, r := range rows {
		j := r.job
		why := reason(j, r.lost)
		if p := progressWords(j.Progress); p != "" && isOpen(j) && !r.lost {
			why = p
		}
		if j.Conflict {
			why += " (CONFLICT: see its timeline)"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", short(j.Handle), stateWord(j, r.lost), printable(j.Tool), printable(j.Server),
			clock(j.CreatedAt), ago(time.Since(j.CreatedAt)), why)
	}
	return t.Flush()
}
