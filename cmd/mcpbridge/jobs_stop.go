package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/spf13/cobra"
)

// askLimit is how long a command waits for the process that holds a call to do
// what is asked.
const askLimit = 5 * time.Second

// jobsCancel is "mcpbridge jobs cancel".
func (p *program) jobsCancel() *cobra.Command {
	var which pick
	var stopWaiting bool
	cmd := p.deskCommand("cancel HANDLE", func(ctx context.Context, d *desk, cmd *cobra.Command, words []string) error {
		handle, err := which.only(cmd, words)
		if err != nil {
			return err
		}
		job, err := d.find(ctx, handle)
		if err != nil {
			return err
		}
		kind := jobs.AskCancel
		if stopWaiting {
			kind = jobs.AskStopWaiting
		}
		said, done, err := d.askOwner(ctx, &job, kind)
		if err != nil {
			return err
		}
		fmt.Fprintln(d.stdout, said)
		if !done {
			return exitStatus(exitFailed)
		}
		return nil
	})
	which.addFlag(cmd)
	cmd.Flags().BoolVar(&stopWaiting, "stop-waiting", false, "")
	return cmd
}

// askOwner asks the process that holds a job for something and says what it
// did.
func (d *desk) askOwner(ctx context.Context, j *jobs.Job, kind string) (said string, done bool, err error) {
	switch {
	case !isOpen(j):
		return "", false, fmt.Errorf("job %s is %s: nothing runs any more", j.Handle, stateWord(j, false))
	case j.BetweenRounds():
		if _, err := d.journal.EndRound(ctx, j.Handle, j.Seen(), kind); err == nil {
			return fmt.Sprintf("%s: ended it: the server had asked something, and nothing ran", short(j.Handle)), true, nil
		} else if !errors.Is(err, jobs.ErrStale) {
			return "", false, err
		}
	case d.lost(ctx, j):
		return "", false, fmt.Errorf("job %s: the process that made the call is gone; %s", j.Handle, advice(j, true))
	}
	asked, err := d.journal.Ask(ctx, j.Handle, kind, nil)
	if err != nil {
		return "", false, err
	}
	wait, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	answer, err := d.journal.AwaitAsk(wait, asked)
	switch {
	case answer.Done:
		return fmt.Sprintf("%s: %s", short(j.Handle), printable(answer.Said)), true, nil
	case errors.Is(err, jobs.ErrNotFound):
		return fmt.Sprintf("%s: it ended meanwhile", short(j.Handle)), true, nil
	case wait.Err() == nil:
		return "", false, err
	}
	return fmt.Sprintf("%s: asked, not yet confirmed by the process that holds the call", short(j.Handle)), false, nil
}

// jobsStop is "mcpbridge jobs stop": it ends workers that outlive their hosts,
// by having them stop waiting. No process is signalled: another user's, or one
// of another machine, may have the same number.
func (p *program) jobsStop() *cobra.Command {
	var all bool
	cmd := p.deskCommand("stop", func(ctx context.Context, d *desk, cmd *cobra.Command, words []string) error {
		if len(words) > 0 {
			return usagef("stop takes no arguments; one call alone: mcpbridge jobs cancel HANDLE --stop-waiting")
		}
		list, err := d.journal.List(ctx, jobs.Filter{Attention: true, States: []jobs.State{jobs.Working, jobs.InputRequired}})
		if err != nil {
			return err
		}
		return d.stop(ctx, list, all)
	})
	cmd.Flags().BoolVar(&all, "all", false, "")
	return cmd
}

// stop asks the owners of jobs, all at once, to stop waiting.
func (d *desk) stop(ctx context.Context, list []jobs.Job, all bool) error {
	lines := make([]string, len(list))
	failed := make([]bool, len(list))
	var asking sync.WaitGroup
	for i := range list {
		if d.lost(ctx, &list[i]) || !all && !lingers(&list[i]) {
			continue
		}
		asking.Go(func() {
			said, done, err := d.askOwner(ctx, &list[i], jobs.AskStopWaiting)
			if err != nil {
				said = err.Error()
			}
			lines[i], failed[i] = said, !done
		})
	}
	asking.Wait()
	code := exitOK
	asked := 0
	for i, line := range lines {
		if line != "" {
			asked++
			fmt.Fprintln(d.stdout, line)
		}
		if failed[i] {
			code = exitFailed
		}
	}
	if asked == 0 {
		fmt.Fprintln(d.stdout, "no call outlives its host")
	}
	if code != exitOK {
		return exitStatus(code)
	}
	return nil
}

// lingerEvent stands in the timeline of a job whose worker outlives its host.
const lingerEvent = "host gone, its worker stays"

// noteLinger says in the journal why this process stays.
func noteLinger(j bridge.Journal) {
	for _, job := range j.Mine() {
		j.Note(job.Handle, jobs.Note{Event: lingerEvent})
	}
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	_ = j.Flush(ctx) // else it is written with the next change
}

// lingers reports whether a worker outlives its host for a job. It chooses what
// a person asked to stop, and decides nothing about a call.
func lingers(j *jobs.Job) bool {
	return isOpen(j) && slices.ContainsFunc(j.Timeline, func(e jobs.Event) bool { return e.What == lingerEvent })
}
