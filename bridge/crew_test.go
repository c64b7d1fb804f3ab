package bridge

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Nothing waits for another's end, not all of a crowd stay, and who stays works
// again and ends with the bridge (or the bubble would not end).
func TestCrew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		defer end()
		c := newCrew(life)
		var running, done atomic.Int64
		for round := range int64(3) {
			gate := make(chan struct{})
			for range 2 * maxResting {
				c.run(func() {
					running.Add(1)
					<-gate
					running.Add(-1)
					done.Add(1)
				})
			}
			synctest.Wait()
			if n := running.Load(); n != 2*maxResting {
				t.Fatalf("%d at work, want %d", n, 2*maxResting)
			}
			close(gate)
			synctest.Wait()
			if n, rest := done.Load(), c.resting.Load(); n != (round+1)*2*maxResting || rest != maxResting {
				t.Fatalf("%d done in %d rounds, %d rest", n, round+1, rest)
			}
		}
	})
}
