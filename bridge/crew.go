package bridge

import (
	"context"
	"sync/atomic"
)

// maxResting bounds the goroutines of a crew that wait for work.
const maxResting = 64

// A crew runs the exchanges. Its goroutines go from one to the next: a new one
// begins with a small stack, and growing it several times in each exchange was an
// eighth of the CPU time of a call.
type crew struct {
	life    context.Context
	next    chan func()
	resting atomic.Int64
}

func newCrew(life context.Context) *crew { return &crew{life: life, next: make(chan func())} }

// run lets one that rests do f, or a new one.
func (c *crew) run(f func()) {
	select {
	case c.next <- f:
	default:
		go c.work(f)
	}
}

func (c *crew) work(f func()) {
	for {
		f()
		f = nil // it holds the whole exchange
		if c.resting.Add(1) > maxResting {
			c.resting.Add(-1)
			return
		}
		select {
		case f = <-c.next:
		case <-c.life.Done():
			return
		}
		c.resting.Add(-1)
	}
}
