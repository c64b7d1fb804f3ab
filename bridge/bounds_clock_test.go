package bridge

import (
	"testing"
	"testing/synctest"
	"time"
)

// clockTest is a clock whose limits are told on a channel.
func clockTest(began time.Time, answer, giveUp time.Duration) (*clock, chan string) {
	fired := make(chan string, 8)
	return newClock(began, answer, giveUp, func() { fired <- "answer" }, func() { fired <- "give up" }), fired
}

// The host waits since its line came, whatever had to be done before the call
// could be sent.
func TestClockCountsFromTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		came := time.Now()
		<-time.After(4 * time.Second) // journaled, and waited for its turn
		c, fired := clockTest(came, 10*time.Second, time.Minute)
		defer c.stop()
		if got := c.remaining(); got != 6*time.Second {
			t.Errorf("remaining: %v", got)
		}
		if what := <-fired; what != "answer" || time.Since(came) != 10*time.Second {
			t.Errorf("%s after %v", what, time.Since(came))
		}
		if what := <-fired; what != "give up" || time.Since(came) != time.Minute {
			t.Errorf("%s after %v", what, time.Since(came))
		}
		late, fired := clockTest(came, 10*time.Second, time.Hour)
		defer late.stop()
		if what := <-fired; what != "answer" || time.Since(came) != time.Minute {
			t.Errorf("a limit that had passed: %s after %v", what, time.Since(came))
		}
	})
}

// The limit of a delivery is one of wall time: what passed it asleep ends at
// waking, and what did not has that much less.
func TestClockAfterASleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c, fired := clockTest(began, time.Second, time.Hour)
		defer c.stop()
		<-fired // answer
		c.woke(time.Now().Add(40 * time.Minute))
		if what := <-fired; what != "give up" || time.Since(began) != 20*time.Minute {
			t.Errorf("%s after %v awake", what, time.Since(began))
		}
		only, fired := clockTest(time.Now(), time.Hour, time.Hour)
		defer only.stop()
		began = time.Now()
		only.woke(time.Now().Add(2 * time.Hour))
		if what := <-fired; what != "answer" || time.Since(began) != 0 {
			t.Errorf("%s after %v awake", what, time.Since(began))
		}
	})
}

// Time in which the host took no answer does not count for the answer.
func TestClockWhileTheHostIsBlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		from, to := began.Add(7*time.Second), began.Add(37*time.Second)
		due := make(chan time.Duration, 1)
		clocks := make(chan *clock, 1)
		onAnswer := func() {
			c := <-clocks
			clocks <- c
			now := time.Now()
			if !c.notYet(from, now.After(from) && now.Before(to)) {
				due <- now.Sub(began)
			}
		}
		c := newClock(began, 10*time.Second, time.Hour, onAnswer, func() {})
		defer c.stop()
		clocks <- c
		// Three seconds were left.
		if got := <-due; got < 40*time.Second || got > 40*time.Second+blockedLook {
			t.Errorf("due after %v", got)
		}
	})
}
