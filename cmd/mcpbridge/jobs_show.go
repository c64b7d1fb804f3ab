package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/spf13/cobra"
)

// jobsShow is "mcpbridge jobs show".
func (p *program) jobsShow() *cobra.Command {
	var which pick
	var asJSON, result bool
	cmd := p.deskCommand("show HANDLE", func(ctx context.Context, d *desk, cmd *cobra.Command, words []string) error {
		handle, err := which.only(cmd, words)
		if err != nil {
			return err
		}
		job, err := d.find(ctx, handle)
		if err != nil {
			return err
		}
		switch {
		case asJSON:
			return d.showJSON(ctx, &job, result)
		case result:
			return d.showResult(ctx, &job)
		}
		return d.show(ctx, &job)
	})
	which.addFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	cmd.Flags().BoolVar(&result, "result", false, "")
	return cmd
}

func (d *desk) showJSON(ctx context.Context, j *jobs.Job, result bool) error {
	o, err := d.object(ctx, j, result)
	if err != nil {
		return err
	}
	if err := printJSON(d.stdout, o.withTimeline(j)); err != nil {
		return err
	}
	if o.Result != nil && j.State.Settled() {
		d.journal.ReadEnd(j.Handle)
	}
	return nil
}

// showResult prints the result alone, exactly as the server gave it.
func (d *desk) showResult(ctx context.Context, j *jobs.Job) error {
	body, _, err := d.journal.Result(ctx, j.Handle)
	switch {
	case errors.Is(err, jobs.ErrNoResult) && j.State.Settled():
		return fmt.Errorf("job %s has no result that is still kept", j.Handle)
	case errors.Is(err, jobs.ErrNoResult):
		return fmt.Errorf("job %s has no result yet: it is %s", j.Handle, stateWord(j, d.lost(ctx, j)))
	case err != nil:
		return err
	}
	if _, err := fmt.Fprintf(d.stdout, "%s\n", body); err != nil {
		return err
	}
	if j.State.Settled() {
		d.journal.ReadEnd(j.Handle) // a repeat of the call is not answered from here any more
	}
	return nil
}

// show tells a person all that is known of a job.
func (d *desk) show(ctx context.Context, j *jobs.Job) error {
	lost := d.lost(ctx, j)
	fmt.Fprintln(d.stdout, message(j, lost, time.Now()))
	fmt.Fprintln(d.stdout)
	t := tabwriter.NewWriter(d.stdout, 0, 0, 2, ' ', 0)
	for _, f := range facts(j, lost) {
		if f.text != "" {
			fmt.Fprintf(t, "%s\t%s\n", f.name, f.text)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	printTimeline(d.stdout, j)
	if next := advice(j, lost); next != "" {
		fmt.Fprintln(d.stdout, "\nnext: "+next)
	}
	return nil
}

type fact struct{ name, text string }

func facts(j *jobs.Job, lost bool) []fact {
	list := []fact{
		{"handle", string(j.Handle)},
		{"state", stateWord(j, lost)},
		{"effect", j.Effect.String()},
		{"tool", printable(j.Tool)},
		{"class", strings.ReplaceAll(j.Class.String(), "_", " ")},
		{"server", printable(j.Server)},
		{"account", printable(j.Principal)},
		{"directory", printable(j.Directory)},
		{"started", clock(j.CreatedAt)},
		{"changed", clock(j.ChangedAt)},
		{"kept until", clock(j.ExpiresAt())},
		{"why", reason(j, lost)},
		{"ended by", printable(j.EndedBy)},
		{"deliveries", fmt.Sprint(j.Deliveries)},
		{"progress", progressWords(j.Progress)},
		{"result", resultWords(j)},
		{"replaces", string(j.Supersedes)},
		{"replaced by", string(j.SupersededBy)},
		{"owner", printable(j.Owner)},
	}
	if n := len(j.Questions); n > 0 {
		list = append(list, fact{"questions", fmt.Sprintf("%d wait for an answer; they are put to the host that asks for this job", n)})
	}
	if j.Conflict {
		list = append(list, fact{"CONFLICT", "what came later contradicts what the job was settled as; see the timeline"})
	}
	return list
}

func resultWords(j *jobs.Job) string {
	read := "nobody has read it"
	if j.Told || j.Read {
		read = "it was read"
	}
	switch {
	case j.Result.Kept:
		return fmt.Sprintf("%d bytes; %s", j.Result.Size, read)
	case j.Result.Size > 0:
		return fmt.Sprintf("%d bytes, wiped; %s", j.Result.Size, read)
	}
	return ""
}

func printTimeline(w io.Writer, j *jobs.Job) {
	if len(j.Timeline) == 0 {
		return
	}
	fmt.Fprintln(w, "\ntimeline")
	for _, e := range j.Timeline {
		line := "  " + e.At.Local().Format("2006-01-02 15:04:05.000") + "  " + printable(e.What)
		if e.Note != "" {
			line += ": " + printable(e.Note)
		}
		fmt.Fprintln(w, line)
	}
}
