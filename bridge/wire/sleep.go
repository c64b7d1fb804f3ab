package wire

import (
	"context"
	"time"
)

// Limits of sleep detection.
const (
	sleepTick = 5 * time.Second
	sleepGap  = 30 * time.Second
)

// A SleepWatch notices that the machine slept: the wall clock then runs ahead
// of the monotonic one, or, where the monotonic clock runs on during sleep,
// much time lies between two looks. The zero value is ready; it is for one
// goroutine.
type SleepWatch struct {
	looked bool
	start  time.Time
	wall   time.Time
	mono   time.Duration
}

// Slept reports whether the machine slept since the last call. It is to be
// called every few seconds, as Run does; the first call reports false.
func (w *SleepWatch) Slept(now time.Time) bool {
	if !w.looked {
		w.start = now
	}
	return w.slept(now.Round(0), now.Sub(w.start))
}

// slept compares both clocks with those of the last call.
func (w *SleepWatch) slept(wall time.Time, mono time.Duration) bool {
	passed, ran := wall.Sub(w.wall), mono-w.mono
	first := !w.looked
	w.looked, w.wall, w.mono = true, wall, mono
	return !first && (passed-ran > sleepGap || ran > sleepGap+sleepTick)
}

// Run calls onWake after each sleep until ctx ends.
func (w *SleepWatch) Run(ctx context.Context, onWake func()) {
	run(ctx, func() bool { return w.Slept(time.Now()) }, onWake)
}

func run(ctx context.Context, slept func() bool, onWake func()) {
	tick := time.NewTicker(sleepTick)
	defer tick.Stop()
	slept()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if slept() {
				onWake()
			}
		}
	}
}
