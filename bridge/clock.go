package bridge

import (
	"sync"
	"time"
)

// A clock owns the two limits of one exchange: until when the host has its
// answer, and until when the delivery is given up. It stands still while a
// question to the host is open.
type clock struct {
	onAnswer func()
	onGiveUp func()

	mu        sync.Mutex
	answerAt  time.Time
	giveUpAt  time.Time
	answer    *time.Timer
	give      *time.Timer
	questions int
	stoodAt   time.Time
	stopped   bool
}

func newClock(now time.Time, answer, giveUp time.Duration, onAnswer, onGiveUp func()) *clock {
	c := &clock{onAnswer: onAnswer, onGiveUp: onGiveUp, answerAt: now.Add(answer), giveUpAt: now.Add(giveUp)}
	c.answer = time.AfterFunc(answer, onAnswer)
	if giveUp > answer {
		c.give = time.AfterFunc(giveUp, onGiveUp)
	}
	return c
}

// remaining is the time left until the answer is due.
func (c *clock) remaining() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.answerAt)
}

func (c *clock) giveUp() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.give == nil {
		return c.answerAt
	}
	return c.giveUpAt
}

// stop ends both limits.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.halt()
}

func (c *clock) halt() {
	c.answer.Stop()
	if c.give != nil {
		c.give.Stop()
	}
}

// stand stops the time while a question is open; go on with resume.
func (c *clock) stand() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.questions++; c.questions == 1 {
		c.stoodAt = time.Now()
		c.halt()
	}
}

func (c *clock) stands() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.questions > 0
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.questions--; c.questions > 0 || c.stopped {
		return
	}
	stood := time.Since(c.stoodAt)
	c.answerAt, c.giveUpAt = c.answerAt.Add(stood), c.giveUpAt.Add(stood)
	c.answer.Reset(max(0, time.Until(c.answerAt)))
	if c.give != nil {
		c.give.Reset(max(0, time.Until(c.giveUpAt)))
	}
}
