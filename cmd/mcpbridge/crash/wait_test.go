package crash

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// waitCommand runs "jobs wait" for a handle and returns its exit code and output.
func (w *world) waitCommand(h jobs.Handle, args ...string) (code int, text string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.ctx, program(), append([]string{"jobs", "wait", string(h), "--state-dir=" + w.dir}, args...)...)
	cmd.Env = environment(w.home)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // the exit code tells
	return cmd.ProcessState.ExitCode(), out.String()
}

// Whoever waits for a call whose process was killed waits until another bridge
// has taken it over and has its end, where one can; for any other the outcome is
// unknown at once.
func TestWaitForACallWhoseProcessIsGone(t *testing.T) {
	t.Parallel()
	t.Run("taken over", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, bridgetest.Options{Era: bridgetest.Legacy})
		j, open := w.orphan("one")
		type ended struct {
			code int
			text string
		}
		end := make(chan ended, 1)
		go func() {
			code, text := w.waitCommand(j.Handle)
			end <- ended{code, text}
		}()
		next := w.alone()
		next.call("slow_add", `{"key":"one"}`).must(t, running)
		open()
		if got := <-end; got.code != 0 || !strings.HasPrefix(got.text, "COMPLETED") {
			t.Errorf("exit code %d: %s", got.code, got.text)
		}
	})
	t.Run("not in time", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, bridgetest.Options{Era: bridgetest.Legacy})
		j, _ := w.orphan("one")
		if code, text := w.waitCommand(j.Handle, "--timeout=1s"); code != 4 || !strings.Contains(text, "by a process that is gone") {
			t.Errorf("exit code %d: %s", code, text)
		}
	})
	t.Run("nothing to go on with", func(t *testing.T) {
		t.Parallel()
		w := newCalls(t)
		l := w.alone()
		l.hold("before", "add_entry", "one")
		kill(t, l.host.PID())
		if _, err := l.host.Wait(w.ctx); err != nil {
			t.Fatal(err)
		}
		if code, text := w.waitCommand(w.records("add_entry")[0].Handle); code != 4 || !strings.Contains(text, "by a process that is gone") {
			t.Errorf("exit code %d: %s", code, text)
		}
	})
}
