package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A server that closes each connection right behind its answer, without saying
// so, loses no write: none is sent on a connection that it has answered on.
func TestServerThatKeepsNoConnection(t *testing.T) {
	t.Parallel()
	const writes = 500
	s := serveRaw(t, func(s *raw, conn net.Conn) {
		if _, err := s.read(bufio.NewReader(conn)); err == nil {
			io.WriteString(conn, okReply)
		}
	})
	c := client(t, s.url)
	c.pool.life.longest = 0 // nothing is known of the server yet
	for n := range writes {
		if n%3 == 0 { // a read, which may meet the end of a connection, and teaches
			r := post("read")
			r.Write = false
			if resp, err := c.Do(bounded(t), r); err == nil {
				resp.Drain(time.Second)
			}
		}
		resp, err := c.Do(bounded(t), post(fmt.Sprint("write ", n)))
		if err != nil {
			t.Fatalf("write %d: %v", n, err)
		}
		resp.Drain(time.Second)
	}
	arrived := map[string]int{}
	for _, body := range s.ledger() {
		arrived[strings.TrimPrefix(body, "POST ")]++
	}
	for n := range writes {
		if body := fmt.Sprint("write ", n); arrived[body] != 1 {
			t.Errorf("%q arrived %d times", body, arrived[body])
		}
	}
}

// A server keeps connections, but for less than a write trusts one at best. The
// bridge does not know that, and loses no write while it finds out.
func TestWritesNeverMeetAnUnknownIdleClose(t *testing.T) {
	t.Parallel()
	const idle, crossing = 800 * time.Millisecond, 200 * time.Millisecond
	s := serveRaw(t, idleCloser(idle, crossing))
	var reused atomic.Int64
	var group sync.WaitGroup
	for i := range 10 {
		c := client(t, s.url)
		c.pool.life.longest = 0 // nothing is known of the server yet
		group.Go(func() {
			for n, pause := range []time.Duration{idle / 2, idle / 16, idle - crossing/2, idle - crossing*3/4, 0} {
				resp, err := c.Do(bounded(t), post(fmt.Sprintf("%d-%d", i, n)))
				if err != nil {
					t.Errorf("write %d-%d: %v", i, n, err)
					return
				}
				resp.Drain(time.Second)
				if resp.Reused {
					reused.Add(1)
				}
				<-time.After(pause)
			}
		})
	}
	group.Wait()
	if n := len(s.ledger()); n != 50 {
		t.Errorf("%d writes arrived, want 50", n)
	}
	if reused.Load() == 0 {
		t.Error("no connection was ever used twice: this proves nothing")
	}
}

// Writes that follow each other closely give no connection the time to prove
// that the server keeps it. One is left to rest, and they come to share another.
func TestBusyWritesComeToReuseConnections(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, echo)
	c := client(t, s.url)
	c.pool.life.longest = 0 // nothing is known of the server yet
	ctx := bounded(t)
	for n := 0; ; n++ {
		resp, err := c.Do(ctx, post(fmt.Sprint("write ", n)))
		if err != nil {
			t.Fatalf("write %d: %v", n, err)
		}
		resp.Drain(time.Second)
		c.pool.mu.Lock()
		kept, rests := len(c.pool.all), len(c.pool.idle)
		c.pool.mu.Unlock()
		if kept > 2 || rests == 0 {
			t.Fatalf("after write %d %d connections are kept, %d of them at rest", n, kept, rests)
		}
		if resp.Reused {
			return
		}
	}
}

// An early end that counts no more leaves the server as little known as before.
func TestForgottenEndIsAskedForAgain(t *testing.T) {
	t.Parallel()
	l := lifespan{most: time.Minute}
	now := time.Now()
	for _, c := range []struct {
		what string
		do   func()
		want bool
	}{
		{"new", func() {}, true},
		{"ended early", func() { l.ended(keptRest/2, now) }, false},
		{"forgotten", func() { now = now.Add(lifespanMemory + time.Second) }, true},
		{"kept", func() { l.outlived(keptRest) }, false},
	} {
		if c.do(); l.unknown(now) != c.want {
			t.Errorf("%s: unknown is %v", c.what, !c.want)
		}
	}
}

// What is learnt of one connection decides for the next.
func TestEarlyEndIsLearnt(t *testing.T) {
	t.Parallel()
	var first atomic.Bool
	rested := make(chan struct{})
	s := serveRaw(t, func(s *raw, conn net.Conn) {
		if !first.CompareAndSwap(false, true) {
			echo(s, conn)
			return
		}
		s.read(bufio.NewReader(conn))
		io.WriteString(conn, okReply)
		<-rested
	})
	c := client(t, s.url)
	must(t, c, post("{}"))
	close(rested)
	must(t, c, waitDead(t, c, post("{}")))
	if resp, _ := must(t, c, post("{}")); resp.Reused {
		t.Error("a write trusted a connection of a server that was seen to close one at once")
	}
	r := post("{}")
	r.Write = false
	if resp, _ := must(t, c, r); !resp.Reused {
		t.Error("a read did not reuse a connection")
	}
}

func TestLifespan(t *testing.T) {
	t.Parallel()
	const most = time.Second
	now := time.Now()
	for name, test := range map[string]struct {
		learn func(*lifespan)
		want  time.Duration
	}{
		"nothing known":                 {func(*lifespan) {}, 0},
		"alive after no rest to name":   {func(l *lifespan) { l.outlived(keptRest - 1) }, 0},
		"alive after a rest":            {func(l *lifespan) { l.outlived(keptRest) }, keptRest / 2},
		"alive after several":           {func(l *lifespan) { l.outlived(most); l.outlived(keptRest) }, most / 2},
		"alive after a long rest":       {func(l *lifespan) { l.outlived(time.Hour) }, most},
		"ended late":                    {func(l *lifespan) { l.outlived(time.Hour); l.ended(most, now) }, most},
		"ended early":                   {func(l *lifespan) { l.outlived(time.Hour); l.ended(most/2, now) }, most / 4},
		"ended early, seen for less":    {func(l *lifespan) { l.outlived(keptRest); l.ended(most/2, now) }, keptRest / 2},
		"ended at once":                 {func(l *lifespan) { l.outlived(time.Hour); l.ended(-time.Millisecond, now) }, 0},
		"the earliest end counts":       {func(l *lifespan) { l.outlived(time.Hour); l.ended(most/2, now); l.ended(most-1, now) }, most / 4},
		"an early end long ago":         {func(l *lifespan) { l.outlived(time.Hour); l.ended(0, now.Add(-lifespanMemory)) }, most},
		"an early end, and a later one": {func(l *lifespan) { l.outlived(time.Hour); l.ended(0, now.Add(-lifespanMemory)); l.ended(most/2, now) }, most / 4},
	} {
		l := &lifespan{most: most}
		test.learn(l)
		if got := l.trusted(now); got != test.want {
			t.Errorf("%s: trusted for %v, want %v", name, got, test.want)
		}
	}
}
