package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
)

const (
	// lookEvery is how often a job that is waited for is looked at for progress.
	lookEvery = 500 * time.Millisecond
	// takeOverLimit is how long a call whose process is gone is given to be taken
	// over, where another bridge could go on with it: running ones look every 30 s.
	takeOverLimit = 40 * time.Second
)

// jobsWait is "mcpbridge jobs wait".
func (p *program) jobsWait() *cobra.Command {
	var which pick
	var asJSON, result bool
	var limit time.Duration
	cmd := p.deskCommand("wait HANDLE", func(ctx context.Context, d *desk, cmd *cobra.Command, words []string) error {
		handle, err := which.only(cmd, words)
		if err != nil {
			return err
		}
		if limit < 0 {
			return usagef("--timeout: wants a duration such as 90s")
		}
		job, err := d.find(ctx, handle)
		if err != nil {
			return err
		}
		job, lost, err := d.waitFor(ctx, job, limit)
		if err != nil {
			return err
		}
		if err := d.printEnd(ctx, &job, lost, asJSON, result); err != nil {
			return err
		}
		return endCode(&job, lost)
	})
	which.addFlag(cmd)
	cmd.Flags().DurationVar(&limit, "timeout", 0, "")
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	cmd.Flags().BoolVar(&result, "result", false, "")
	return cmd
}

// waitFor waits until a job is not open any more, or in nobody's hands and not
// taken over in time. A limit of 0 is none.
func (d *desk) waitFor(ctx context.Context, job jobs.Job, limit time.Duration) (_ jobs.Job, lost bool, err error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	bar := newProgressLine(d.stderr)
	defer bar.clear()
	var since time.Time // its process is gone
	for isOpen(&job) {
		lost = d.lost(ctx, &job)
		switch {
		case !lost:
			since = time.Time{}
		case !job.Resumable():
			return job, true, nil
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > takeOverLimit:
			return job, true, nil
		}
		bar.draw(&job, time.Now())
		look, cancel := context.WithTimeout(ctx, lookEvery)
		latest, err := d.journal.Wait(look, job.Handle, job.Seen())
		ticked := look.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil && lost && context.Cause(ctx) == context.DeadlineExceeded:
			return job, true, nil
		case ctx.Err() != nil:
			return job, false, fmt.Errorf("job %s still runs: %w", job.Handle, context.Cause(ctx))
		case err != nil && !ticked:
			return job, false, err
		case latest.Handle != "":
			job = latest
		}
	}
	return job, false, nil
}

// printEnd prints what became of a job.
func (d *desk) printEnd(ctx context.Context, j *jobs.Job, lost, asJSON, result bool) error {
	switch {
	case asJSON:
		return d.showJSON(ctx, j, result)
	case result && j.Result.Kept:
		return d.showResult(ctx, j)
	}
	text := message(j, lost, time.Now())
	if next := advice(j, lost); next != "" {
		text += "\nnext: " + next
	}
	_, err := fmt.Fprintln(d.stdout, text)
	return err
}

// endCode is the exit code that says what became of a job.
func endCode(j *jobs.Job, lost bool) error {
	switch {
	case lost, j.State == jobs.OutcomeUnknown:
		return exitStatus(exitUnknown)
	case j.State == jobs.Completed, isOpen(j):
		return nil
	}
	return exitStatus(exitFailed)
}

// A progressLine shows on a terminal how far a job is; elsewhere it is silent.
type progressLine struct {
	w     io.Writer // nil: silent
	bar   *progressbar.ProgressBar
	share bool // the bar shows a share; else how long it takes, and that something moves
}

func newProgressLine(f *os.File) *progressLine {
	if !isTerminal(f) {
		return &progressLine{}
	}
	return &progressLine{w: f}
}

const (
	barWidth = 24
	barSteps = 1000
	barWords = 44 // runes beside a bar, so that a line of 80 has room for both
	lineEnd  = 70 // runes of a line without one
)

// newBar is a bar of shares, or one of unknown length. It draws when it is told
// to and at no other time.
func newBar(w io.Writer, share bool) *progressbar.ProgressBar {
	steps := -1
	if share {
		steps = barSteps
	}
	return progressbar.NewOptions(steps, progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(barWidth),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "#", SaucerPadding: ".", BarStart: "[", BarEnd: "]"}),
		progressbar.OptionSpinnerType(9), progressbar.OptionSetSpinnerChangeInterval(0),
		progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false), progressbar.OptionShowDescriptionAtLineEnd())
}

func (p *progressLine) draw(j *jobs.Job, now time.Time) {
	if p.w == nil {
		return
	}
	n := j.Progress
	share := n != nil && n.Total > 0
	if p.bar == nil || p.share != share {
		p.clear()
		p.bar, p.share = newBar(p.w, share), share
	}
	words, room := printable(j.Tool)+" "+ago(now.Sub(j.CreatedAt)), lineEnd
	if more := progressWords(n); more != "" {
		words += "  " + more
	}
	if share {
		room = barWords
		_ = p.bar.Set(int(min(barSteps-1, max(0, barSteps*n.Progress/n.Total)))) // the last step would end the bar
	}
	if r := []rune(words); len(r) > room {
		words = string(r[:room])
	}
	p.bar.Describe(words)
}

func (p *progressLine) clear() {
	if p.bar != nil {
		_ = p.bar.Clear() // a terminal that cannot be written shows nothing either
	}
}
