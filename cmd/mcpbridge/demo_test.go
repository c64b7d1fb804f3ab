package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// demoColumns and demoLines are the terminal that the demo is made for.
const (
	demoColumns = 100
	demoLines   = 72
)

// demoTestLimit is for a loaded machine; the program's own limit is shorter.
const demoTestLimit = time.Minute

// The demo shows all of it, and leaves neither files nor processes behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), demoProgram(t), "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "TMP="+temp, "MCPBRIDGE_ANSWER_WITHIN=1h", "GORACE=atexit_sleep_ms=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v\n%s\n%s", err, stderr.String(), out)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) > demoLines {
		t.Errorf("%d lines", len(lines))
	}
	for i, line := range lines {
		if len(line) > demoColumns || strings.TrimRight(line, " ") != line || strings.Contains(line, "\x1b") {
			t.Errorf("line %d is too long, ends in spaces or has colours: %q", i+1, line)
		}
	}
	for _, act := range acts() {
		if !strings.Contains(string(out), ". "+act.title+"\n") {
			t.Errorf("no act %q", act.title)
		}
	}
	for _, once := range []string{"Do not: simply call it again", "STILL RUNNING (not an error) ... its handle is job_", "This repeat was not sent", "report 2026: 2,448 orders"} {
		if strings.Count(string(out), once) != 1 {
			t.Errorf("it is not said once: %q", once)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
	nothingIn(t, temp)
	noProcessOf(t, temp)
}

// Where no process outlives the host, the next bridge takes the call up where
// the killed one left it.
func TestDemoWithoutLinger(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), demoTestLimit)
	defer cancel()
	var out strings.Builder
	o := demoOptions{program: demoProgram(t), flags: []string{"--linger=0"}, temp: t.TempDir(), shop: newShop()}
	if err := playDemo(ctx, newVoice(&out, false), o); err != nil || !strings.Contains(out.String(), "the next bridge takes it up") {
		t.Errorf("%v\n%s", err, out.String())
	}
	nothingIn(t, o.temp)
	noProcessOf(t, o.temp)
}

// A demo that is stopped in the middle leaves nothing behind either.
func TestDemoIsStopped(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"6. ", "7. ", "8. "} {
		t.Run("in step "+when[:1], func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			stopped := errors.New("stopped by the test")
			o := demoOptions{program: demoProgram(t), temp: t.TempDir(), shop: newShop()}
			err := playDemo(ctx, newVoice(&watcher{text: when, then: func() { cancel(stopped) }}, false), o)
			if !errors.Is(err, stopped) {
				t.Errorf("the demo ended with %v", err)
			}
			nothingIn(t, o.temp)
			noProcessOf(t, o.temp)
		})
	}
}

// A demo whose server does other things than it tells fails, and names the step.
func TestBrokenDemo(t *testing.T) {
	t.Parallel()
	for want, broken := range map[string]struct {
		tool  string
		run   func(before func(*bridgetest.Call) (any, error)) func(*bridgetest.Call) (any, error)
		shown bool // whether the tool is listed
	}{
		"step 1 ": {"get_export", nil, false},
		"step 2 ": {"find_customer", answering("nobody"), true},
		"step 3 ": {"count_orders", answering(ordersCounted), true},
		"step 4 ": {"find_customer", onCall(2, answering("nobody")), true},
		"step 5 ": {"send_invoice", twice, true},
		"step 6 ": {"build_report", answering(reportBuilt), true},
		"step 8 ": {"build_report", twice, true},
		"step 9 ": {"get_export", answering("done, perhaps"), true},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s, temp := newShop(), t.TempDir()
			for i := range s.tools {
				if tool := &s.tools[i]; tool.Name == broken.tool {
					tool.ModernOnly = !broken.shown // the server speaks no such revision
					if broken.run != nil {
						tool.Run = broken.run(tool.Run)
					}
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), demoTestLimit)
			defer cancel()
			var out strings.Builder
			err := playDemo(ctx, newVoice(&out, false), demoOptions{program: demoProgram(t), temp: temp, shop: s})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the demo ended with %v\n%s", err, out.String())
			}
			nothingIn(t, temp)
			noProcessOf(t, temp)
		})
	}
}

type runs = func(*bridgetest.Call) (any, error)

// answering replaces a tool by one that only says something.
func answering(text string) func(runs) runs {
	return func(runs) runs {
		return func(*bridgetest.Call) (any, error) { return bridgetest.Text(text), nil }
	}
}

// onCall replaces a tool from its nth call on.
func onCall(n int64, replace func(runs) runs) func(runs) runs {
	return func(before runs) runs {
		var calls atomic.Int64
		return func(c *bridgetest.Call) (any, error) {
			if calls.Add(1) >= n {
				return replace(before)(c)
			}
			return before(c)
		}
	}
}

// twice does what a tool does a second time.
func twice(before runs) runs {
	return func(c *bridgetest.Call) (any, error) {
		result, err := before(c)
		c.Effect("again")
		return result, err
	}
}

// A demo without a bridge, or without anybody to tell it to, fails.
func TestDemoFails(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	err := playDemo(t.Context(), newVoice(io.Discard, false), demoOptions{program: filepath.Join(temp, "nothing"), temp: temp, shop: newShop()})
	if err == nil || !strings.Contains(err.Error(), "step 1 ") {
		t.Errorf("without a bridge it ended with %v", err)
	}
	full := errors.New("nobody listens")
	err = playDemo(t.Context(), newVoice(&watcher{text: "2. ", fail: full}, false), demoOptions{program: demoProgram(t), temp: temp, shop: newShop()})
	if !errors.Is(err, full) {
		t.Errorf("without a listener it ended with %v", err)
	}
	nothingIn(t, temp)
	noProcessOf(t, temp)
}

// Colours are for terminals whose owner has nothing against them.
func TestVoice(t *testing.T) {
	t.Parallel()
	var plain, painted strings.Builder
	newVoice(&plain, false).says(theHost, "calls %s", strings.Repeat("word ", 40))
	newVoice(&painted, true).says(theHost, "calls %s", strings.Repeat("word ", 40))
	if got := strings.NewReplacer("\x1b[36m", "", "\x1b[0m", "").Replace(painted.String()); got != plain.String() || got == painted.String() {
		t.Errorf("with colours it says %q, without %q", painted.String(), plain.String())
	}
	for i, line := range strings.Split(strings.TrimSuffix(plain.String(), "\n"), "\n") {
		if len(line) > voiceWidth || strings.HasPrefix(line, "   host    ") != (i == 0) || !strings.HasPrefix(line, "   ") {
			t.Errorf("line %d is %q", i+1, line)
		}
	}
	for env, want := range map[string]bool{"NO_COLOR=1": false, "TERM=dumb": false, "A=B": false} {
		name, value, _ := strings.Cut(env, "=")
		p := program{stdout: os.Stderr, env: func(s string) (string, bool) { return value, s == name }}
		if got := p.colours(); got != want && !isTerminal(p.stdout) {
			t.Errorf("%s: colours: %v", env, got)
		}
	}
}

// A watcher notices when a text is written, does something, or fails from then
// on.
type watcher struct {
	text string
	then func()
	fail error
	seen bool
}

func (w *watcher) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.seen = true
		if w.then != nil {
			w.then()
		}
	}
	if w.seen && w.fail != nil {
		return 0, w.fail
	}
	return len(p), nil
}

// demoProgram is this program as a bridge that hosts can start.
func demoProgram(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("mcpbridge")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func nothingIn(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("left behind: %s", e.Name())
	}
}

// noProcessOf fails if a process runs whose command line names dir. One that
// ends just now may take a moment.
func noProcessOf(t *testing.T, dir string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(awaitLimit)
	for {
		found := processesOf(dir)
		if len(found) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Errorf("still running: %q", found)
			return
		}
	}
}

// processesOf lists the command lines that name dir, where /proc has them.
func processesOf(dir string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well formed
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(line), dir) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
