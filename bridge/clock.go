package bridge

import (
	"sync"
	"time"
)

// A clock owns the two limits of one exchange: until when the host has its
// answer, and until when the delivery is given up. It stands still while a
// question to the host is open.
//
// Both count from when the host's line came, as the host's own limit does. The
// second is one of wall time, an hour by default: timers stand still while the
// machine sleeps, so that woke has to set it right.
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
	blocked   time.Time     // since then it counts how long the host takes nothing
	owed      time.Duration // what was left when the host stopped taking answers; 0: it takes them
	stopped   bool
}

// newClock starts a clock for a request that came at began.
func newClock(began time.Time, answer, giveUp time.Duration, onAnswer, onGiveUp func()) *clock {
	c := &clock{onAnswer: onAnswer, onGiveUp: onGiveUp, answerAt: began.Add(answer), giveUpAt: began.Add(giveUp), blocked: began}
	c.mu.Lock() // for a limit that has passed already
	defer c.mu.Unlock()
	c.answer = time.AfterFunc(max(0, time.Until(c.answerAt)), onAnswer)
	if giveUp > answer {
		c.give = time.AfterFunc(max(0, wallUntil(c.giveUpAt, time.Now())), onGiveUp)
	}
	return c
}

// wallUntil is the wall time from now to t.
func wallUntil(t, now time.Time) time.Duration { return t.Round(0).Sub(now.Round(0)) }

// woke sets the limit of the delivery right after the machine slept.
func (c *clock) woke(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || c.questions > 0 {
		return // resume does it
	}
	last := c.give
	if last == nil {
		last = c.answer // the only limit there is
	}
	last.Reset(max(0, wallUntil(c.giveUpAt, now)))
}

// blockedLook is how often it is looked whether a host takes answers again.
const blockedLook = 100 * time.Millisecond

// notYet reports whether an answer is not due after all when its time has come:
// the time in which the host takes no answers, since the moment given, does not
// count, because it could not read one.
func (c *clock) notYet(since time.Time, blocked bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case c.stopped || c.questions > 0:
		return false
	case blocked:
		if c.blocked.After(since) {
			since = c.blocked
		}
		if c.owed == 0 {
			c.owed = max(blockedLook, now.Sub(since))
		}
		c.answer.Reset(blockedLook)
		return true
	case c.owed > 0:
		c.blocked, c.answerAt = now, now.Add(c.owed)
		c.answer.Reset(c.owed)
		c.owed = 0
		return true
	}
	return false
}

// remaining is the time left until the answer is due.
func (c *clock) remaining() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed > 0 {
		return c.owed
	}
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
	now := time.Now()
	c.answerAt = c.answerAt.Add(now.Sub(c.stoodAt))
	c.giveUpAt = c.giveUpAt.Round(0).Add(-wallUntil(c.stoodAt, now))
	c.answer.Reset(max(0, c.answerAt.Sub(now)))
	if c.give != nil {
		c.give.Reset(max(0, wallUntil(c.giveUpAt, now)))
	}
}
