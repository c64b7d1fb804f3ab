package bridge

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// --answer-within auto is 75 % of what a host known by its name waits, at most
// 10 minutes, and 45 s for any other.
func TestPatienceByName(t *testing.T) {
	t.Parallel()
	for client, want := range map[string]time.Duration{
		"codex-mcp-client": 225 * time.Second, "goose": 225 * time.Second,
		"cursor-vscode": 45 * time.Second, "Cursor": 45 * time.Second, "claude-ai": 45 * time.Second, "Zed": 45 * time.Second,
		"Cline": 45 * time.Second, "opencode": 45 * time.Second, "mcp-inspector": 45 * time.Second, "inspector-client": 45 * time.Second,
		"gemini-cli-mcp-client": 10 * time.Minute, "Visual Studio Code": 10 * time.Minute, "claude-code": 10 * time.Minute,
		"": 45 * time.Second, "somebody's host": 45 * time.Second,
	} {
		if got := newPatience("").answerWithin(client); got != want {
			t.Errorf("%q: %v, want %v", client, got, want)
		}
	}
}

// A host that leaves twice after the same whole number of seconds has a timer,
// and is answered before it from then on, by another process too.
func TestPatienceIsLearnt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := newPatience(dir)
	const client = "hasty"
	p.hostLeft(client, 20*time.Second+80*time.Millisecond, "tools/call")
	if got := p.answerWithin(client); got != defaultPatience {
		t.Errorf("after one departure: %v", got)
	}
	p.hostLeft(client, 19*time.Second+900*time.Millisecond, "tools/call")
	const learnt = 15 * time.Second
	if got := p.answerWithin(client); got != learnt {
		t.Errorf("after two departures: %v, want %v", got, learnt)
	}
	if got := newPatience(dir).answerWithin(client); got != learnt {
		t.Errorf("in another process: %v, want %v", got, learnt)
	}
	if got := p.answerWithin("another"); got != defaultPatience {
		t.Errorf("another host: %v", got)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%s: %v, %v", files[0], info.Mode(), err)
	}
}

// What is no timer teaches nothing.
func TestPatienceIsNotLearntFromPeople(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(p *patience){
		"at different times": func(p *patience) {
			p.hostLeft("c", 8*time.Second, "tools/call")
			p.hostLeft("c", 11*time.Second, "tools/call")
		},
		"between whole seconds": func(p *patience) { twice(func() { p.hostLeft("c", 8500*time.Millisecond, "tools/call") }) },
		"at once":               func(p *patience) { twice(func() { p.hostLeft("c", time.Second, "tools/call") }) },
		"another method":        func(p *patience) { twice(func() { p.hostLeft("c", 20*time.Second, "resources/read") }) },
		"without a name":        func(p *patience) { twice(func() { p.hostLeft("", 20*time.Second, "tools/call") }) },
		"later than we answer":  func(p *patience) { twice(func() { p.hostLeft("c", 300*time.Second, "tools/call") }) },
		"same time, interrupted": func(p *patience) {
			p.hostLeft("c", 20*time.Second, "tools/call")
			p.hostLeft("c", 9*time.Second, "tools/call")
			p.hostLeft("c", 20*time.Second, "tools/call")
		},
	} {
		p := newPatience(t.TempDir())
		leave(p)
		for _, client := range []string{"c", ""} {
			if got := p.answerWithin(client); got != defaultPatience {
				t.Errorf("%s: %v for %q", name, got, client)
			}
		}
	}
}

func twice(f func()) { f(); f() }

// A file of earlier departures that is damaged costs what was learnt, no more.
func TestPatienceSurvivesDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(newPatience(dir).file, []byte(`{"c":`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newPatience(dir)
	if got := p.answerWithin("c"); got != defaultPatience {
		t.Errorf("%v", got)
	}
	twice(func() { p.hostLeft("c", 20*time.Second, "tools/call") })
	if got := newPatience(dir).answerWithin("c"); got != 15*time.Second {
		t.Errorf("after learning anew: %v", got)
	}
}

// The clock of an exchange stands still while a question is open, and both
// limits fire once, in their order.
func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		fired := make(chan string, 4)
		c := newClock(began, 10*time.Second, time.Minute, func() { fired <- "answer" }, func() { fired <- "give up" })
		defer c.stop()
		pass := func(d time.Duration) { <-time.After(d) }
		pass(4 * time.Second)
		if left := c.remaining(); left != 6*time.Second {
			t.Errorf("%v left", left)
		}
		c.stand()
		c.stand() // two questions
		pass(time.Hour)
		c.resume()
		pass(time.Hour)
		c.resume()
		if left := c.remaining(); left != 6*time.Second {
			t.Errorf("%v left after the questions", left)
		}
		for _, want := range []struct {
			what string
			at   time.Duration
		}{{"answer", 2*time.Hour + 10*time.Second}, {"give up", 2*time.Hour + time.Minute}} {
			if got, at := <-fired, time.Since(began); got != want.what || at != want.at {
				t.Errorf("%s fired at %v, want %s at %v", got, at, want.what, want.at)
			}
		}
		if until := c.giveUp().Sub(began); until != 2*time.Hour+time.Minute {
			t.Errorf("given up at %v", until)
		}
		pass(time.Hour)
		if len(fired) > 0 {
			t.Errorf("%s fired again", <-fired)
		}
	})
}

// A clock that was stopped fires nothing, whatever questions end later.
func TestClockStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fired := make(chan string, 2)
		c := newClock(time.Now(), time.Second, time.Minute, func() { fired <- "answer" }, func() { fired <- "give up" })
		c.stand()
		c.stop()
		c.resume()
		<-time.After(time.Hour)
		if len(fired) > 0 {
			t.Errorf("%s fired", <-fired)
		}
	})
}
