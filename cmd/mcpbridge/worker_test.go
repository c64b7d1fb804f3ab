package main

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The first signal is the host's going, and so is what comes shortly after it;
// a later one is meant for the worker.
func TestDeparture(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lingers   bool
		inputEnds bool            // at 0
		signals   []time.Duration // since then
		ended     time.Duration   // -1: never
	}{
		"alone":                    {signals: []time.Duration{time.Second}, ended: time.Second},
		"lingers":                  {lingers: true, signals: []time.Duration{time.Second}, ended: -1},
		"the host's second signal": {lingers: true, signals: []time.Duration{0, 2 * time.Second, 3 * time.Second}, ended: -1},
		"a later one":              {lingers: true, signals: []time.Duration{0, 2 * time.Second, 3001 * time.Millisecond}, ended: 3001 * time.Millisecond},
		"end of input first":       {lingers: true, inputEnds: true, signals: []time.Duration{3 * time.Second}, ended: -1},
		"long after end of input":  {lingers: true, inputEnds: true, signals: []time.Duration{4 * time.Second, 5 * time.Second}, ended: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d, ctx := newDeparture(t.Context(), c.lingers)
				begun := time.Now()
				if c.inputEnds {
					d.inputEnded()
					if ctx.Err() != nil {
						t.Error("the end of input left no time to answer")
					}
				}
				for _, at := range c.signals {
					time.AfterFunc(at-time.Since(begun), d.signalled)
				}
				<-ctx.Done()
				if want := c.signals[0]; time.Since(begun) != want {
					t.Errorf("the host is gone after %v, want %v", time.Since(begun), want)
				}
				timeout := time.After(time.Minute)
				select {
				case <-d.end:
					if since := time.Since(begun); since != c.ended {
						t.Errorf("ended after %v, want %v", since, c.ended)
					}
				case <-timeout:
					if c.ended >= 0 {
						t.Errorf("not ended, want after %v", c.ended)
					}
				}
			})
		})
	}
}

// A bridge that does not leave when it is told to is left alone.
func TestWithin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, ctx := newDeparture(t.Context(), false)
		broken := errors.New("broken")
		if err := d.within(time.Second, func() error { return broken }); err != broken {
			t.Errorf("error %v", err)
		}
		release := make(chan struct{})
		begun := time.Now()
		time.AfterFunc(time.Hour, d.signalled)
		if err := d.within(time.Second, func() error { <-release; return broken }); err != nil {
			t.Errorf("error %v", err)
		}
		if took := time.Since(begun); took != time.Hour+time.Second || ctx.Err() == nil {
			t.Errorf("took %v", took)
		}
		close(release)
	})
}
