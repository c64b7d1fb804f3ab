package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/spf13/cobra"
)

// jobsResolve is "mcpbridge jobs resolve": a person says what became of a call.
func (p *program) jobsResolve() *cobra.Command {
	var which pick
	var again sendAgain
	cmd := p.deskCommand("resolve HANDLE happened|did_not_happen|send_again", func(ctx context.Context, d *desk, cmd *cobra.Command, words []string) error {
		if dash := cmd.ArgsLenAtDash(); dash >= 0 {
			words, again.flags = words[:dash], words[dash:]
		}
		handle, rest, err := which.split(cmd, words)
		if err != nil {
			return err
		}
		if len(rest) != 1 {
			return usagef("resolve: say what became of the call: happened, did_not_happen or send_again")
		}
		switch word := jobs.Word(rest[0]); word {
		case jobs.Happened, jobs.DidNotHappen:
			return d.resolve(ctx, handle, jobs.Resolution{Word: word, Why: again.why})
		case jobs.SendAgain:
			return d.resolveByCall(ctx, handle, again)
		}
		return usagef("resolve: wants happened, did_not_happen or send_again")
	})
	which.addFlag(cmd)
	cmd.Flags().StringVar(&again.why, "why", "", "")
	cmd.Flags().StringVar(&again.url, "url", "", "")
	return cmd
}

// resolve settles a job by the word of the person at the terminal.
func (d *desk) resolve(ctx context.Context, handle string, r jobs.Resolution) error {
	job, err := d.find(ctx, handle)
	if err != nil {
		return err
	}
	if job, err = d.takeLost(ctx, job); err != nil {
		return err
	}
	job, _, err = d.journal.Resolve(ctx, job.Handle, job.Seen(), r)
	if err != nil {
		return d.notResolved(&job, err)
	}
	_, err = fmt.Fprintln(d.stdout, message(&job, false, time.Now()))
	return err
}

func (d *desk) notResolved(j *jobs.Job, err error) error {
	switch {
	case errors.Is(err, jobs.ErrNotUnknown):
		return fmt.Errorf("job %s is %s; only an unknown outcome can be resolved", j.Handle, stateWord(j, false))
	case errors.Is(err, jobs.ErrStale):
		return fmt.Errorf("job %s changed meanwhile; look again: mcpbridge jobs show %s", j.Handle, short(j.Handle))
	case errors.Is(err, jobs.ErrNoArguments):
		return fmt.Errorf("the arguments of job %s were not kept (store = \"none\"), so it cannot be sent again", j.Handle)
	}
	return err
}

// takeLost makes the outcome of a job unknown whose process is gone and which
// nobody has taken over: there may be no bridge of its server any more, and a
// person knows more than its stream would tell.
func (d *desk) takeLost(ctx context.Context, j jobs.Job) (jobs.Job, error) {
	if !d.lost(ctx, &j) {
		return j, nil
	}
	j, err := d.journal.Claim(ctx, j.Handle, j.Owner)
	if err != nil || !isOpen(&j) {
		return j, err
	}
	return d.journal.Finish(ctx, j.Handle, jobs.End{State: jobs.OutcomeUnknown, Evidence: jobs.BridgeLost, EndedBy: "bridge"})
}
