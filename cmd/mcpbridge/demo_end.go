package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

const (
	// stopLimit bounds the end of a bridge that outlived its host.
	stopLimit = 3 * time.Second
	// removeLimit bounds the removal of the demo's directory: a process that was
	// killed may keep files of it open for a moment.
	removeLimit = 2 * time.Second
)

// leave ends the last host as hosts end, and looks at all of it once more.
func (t *tour) leave(ctx context.Context) error {
	if err := t.host().CloseStdin(); err != nil {
		return err
	}
	code, err := t.host().Wait(ctx)
	if err != nil {
		return err
	}
	if code != exitOK {
		return fmt.Errorf("the bridge left with exit code %d", code)
	}
	for _, h := range t.hosts {
		if v := h.Violations(); len(v) > 0 {
			return fmt.Errorf("the bridge wrote what is no message: %s", v[0])
		}
	}
	for _, tool := range []string{"send_invoice", "build_report", "start_export"} {
		if err := t.check(tool, 1, 1); err != nil {
			return err
		}
	}
	return nil
}

// close leaves no process and no file behind, whatever happened.
func (t *tour) close() error {
	for _, h := range t.hosts {
		h.Kill()
	}
	err := t.stopReport()
	if t.up != nil {
		t.up.Close()
	}
	return errors.Join(err, removeSoon(t.dir))
}

// reportIsHeld reports whether a process lives that holds the call of
// build_report.
func (t *tour) reportIsHeld(ctx context.Context) (held bool, err error) {
	err = t.withJournal(ctx, func(j *jobs.Journal) error {
		held, err = isHeld(ctx, j, t.report)
		return err
	})
	return held, err
}

// stopReport has the bridge that holds the call of build_report let go of it:
// it outlives its host for as long as the call is open.
func (t *tour) stopReport() error {
	if t.report == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	err := t.withJournal(ctx, func(j *jobs.Journal) error { return askToStop(ctx, j, t.report) })
	if err != nil {
		return fmt.Errorf("end the bridge of the first host: %w", err)
	}
	return nil
}

// withJournal lets do look at the journal of the demo's bridges.
func (t *tour) withJournal(ctx context.Context, do func(*jobs.Journal) error) error {
	j, err := jobs.Open(t.path("state"), jobs.Options{}, boltstore.Options{AllowNetwork: true})
	if err != nil {
		return err
	}
	defer func() { _ = j.Close(ctx) }() // nothing of it is kept here
	return do(j)
}

// isHeld reports whether a job is open and its owner lives.
func isHeld(ctx context.Context, j *jobs.Journal, handle jobs.Handle) (bool, error) {
	job, err := j.Find(ctx, handle)
	if err != nil || job.State.Settled() {
		return false, err
	}
	lost, err := j.OwnerLost(ctx, job)
	return !lost && err == nil, err
}

// askToStop asks the owner of a job, if there is one, to let go of its call, and
// waits until it did.
func askToStop(ctx context.Context, j *jobs.Journal, handle jobs.Handle) error {
	if held, err := isHeld(ctx, j, handle); err != nil || !held {
		return err
	}
	ask, err := j.Ask(ctx, handle, jobs.AskStopWaiting, nil)
	if errors.Is(err, jobs.ErrSettled) {
		return nil
	}
	if err == nil {
		_, err = j.AwaitAsk(ctx, ask)
	}
	return err
}

// removeSoon removes dir, trying again while something is still written there.
func removeSoon(dir string) error {
	limit := time.NewTimer(removeLimit)
	defer limit.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := os.RemoveAll(dir)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-limit.C:
			return fmt.Errorf("remove the demo's directory: %w", err)
		}
	}
}
