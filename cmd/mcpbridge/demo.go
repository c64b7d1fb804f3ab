package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// demoLimit bounds the whole tour.
const demoLimit = 20 * time.Second

func (p *program) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "demo",
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.demo(cmd.Context()) },
	}
}

// demo shows this program at work between a host and a server that it plays
// itself. It fails unless everything it tells was seen to happen.
func (p *program) demo(ctx context.Context) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	defer surviveBrokenPipes()()
	ctx, cancel := context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("the tour took longer than %v", demoLimit))
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: find this program: %w", err)
	}
	return playDemo(ctx, newVoice(p.stdout, p.colours()), demoOptions{program: self, shop: newShop()})
}

// colours reports whether somebody watches who likes colours
// (https://no-color.org).
func (p *program) colours() bool {
	no, _ := p.env("NO_COLOR")
	term, _ := p.env("TERM")
	return no == "" && term != "dumb" && isTerminal(p.stdout)
}

// DemoOptions say what the demo is played with.
type demoOptions struct {
	program string   // the bridge
	flags   []string // for the bridge, beside the demo's own
	temp    string   // directory for temporary files; "" is the system's
	shop    *shop
}

// playDemo plays every act, and stops at the first that does not go as told.
func playDemo(ctx context.Context, v *voice, o demoOptions) (err error) {
	t, err := openTour(v, o)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, t.close()) }()
	v.open()
	for i, act := range acts() {
		v.title(i+1, act.title)
		if err := act.play(t, ctx); err != nil {
			return fmt.Errorf("demo: step %d did not go as told: %w", i+1, orCause(ctx, err))
		}
	}
	if err := t.leave(ctx); err != nil {
		return fmt.Errorf("demo: the end did not go as told: %w", err)
	}
	v.finish()
	return v.err
}

// orCause is why ctx ended, if it did: err is a consequence of that.
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
