package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/jobs"
)

func keyed(tool, arguments, key string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"io.github.mcpbridge/idempotencyKey":%q}}`, tool, arguments, key)
}

func (l *lane) callKeyed(tool, arguments, key string) told {
	l.t.Helper()
	return l.told(l.request("tools/call", keyed(tool, arguments, key)))
}

// A key of the host's: another call with it is a conflict, the same call while
// the first runs joins it, afterwards it gets the kept result, in any process.
func TestKeyOfTheHost(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	a, b := w.alone(), w.alone()
	g := w.gates.close("before", "one")
	first := a.sendParams(keyed("add_entry", `{"key":"one"}`, "k1"))
	if err := g.wait(w.ctx); err != nil {
		t.Fatal(err)
	}
	joined := b.sendParams(keyed("add_entry", `{"key":"one"}`, "k1"))
	b.ping()
	conflict := b.callKeyed("add_entry", `{"key":"two"}`, "k1").must(t, notSent)
	if !strings.Contains(conflict.text, "-31003") || !conflict.isError {
		t.Errorf("conflict: %s", conflict.text)
	}
	g.open()
	a.answer(first).must(t, result)
	if j := b.answer(joined).must(t, result); !j.job.Deduplicated {
		t.Errorf("joined: %s", j.raw)
	}
	a.ping()
	if kept := w.alone().callKeyed("add_entry", `{"key":"one"}`, "k1").must(t, result); !kept.job.Deduplicated {
		t.Errorf("kept: %s", kept.raw)
	}
	w.once("add_entry")
}

// The same key after an unknown outcome gets the handle and is not sent, also
// after the guard's window.
func TestKeyedRepeatAfterUnknownOutcome(t *testing.T) {
	t.Parallel()
	w := newCalls(t, "--guard-window=1ns")
	l := w.alone()
	if err := w.up.SetFault("lost-reply@add_entryx1"); err != nil {
		t.Fatal(err)
	}
	first := l.callKeyed("add_entry", `{"key":"one"}`, "k1").must(t, unknown)
	again := w.alone().callKeyed("add_entry", `{"key":"one"}`, "k1").must(t, unknown)
	if again.handle != first.handle || !again.job.Deduplicated {
		t.Errorf("the repeat: %s", again.raw)
	}
	w.once("add_entry")
}

// config writes a config.toml for the world's server and returns the flag.
func (w *world) config(tool string) string {
	w.t.Helper()
	name := filepath.Join(w.t.TempDir(), "config.toml")
	text := fmt.Sprintf("[servers.crm]\nurl = %q\n%s", w.url, tool)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.url = "crm"
	return "--config=" + name
}

// A key that the bridge puts into the arguments makes a repeat with leave
// harmless: the server sees the first call's key again.
func TestKeyByPointer(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	l := w.alone(w.config("[servers.crm.tools.start_export]\nclass = \"write\"\nidempotency_key = \"/requestId\"\n"))
	if err := w.up.SetFault("lost-reply@start_exportx1"); err != nil {
		t.Fatal(err)
	}
	h := l.call("start_export", `{"ms":1}`).must(t, unknown).handle
	a := l.resolve(h, "send_again", "nobody knows of it").must(t, result)
	if a.has && a.handle == h {
		t.Errorf("the new call has the old one's handle: %s", a.raw)
	}
	keys := map[string]int{}
	for _, e := range w.up.Ledger().AllEffects() {
		keys[e.Key]++
	}
	if d, e := w.up.Ledger().Deliveries("start_export"), w.up.Ledger().Effects("start_export"); d != 2 || e != 1 {
		t.Errorf("the server got %d requests and acted %d times, want 2 and 1: %v", d, e, keys)
	}
	for k := range keys {
		if k == "" {
			t.Error("no key was put in")
		}
	}
}

const exportStatus = `[servers.crm.tools.start_export]
class = "write"
idempotency_key = "/requestId"
status = { tool = "get_export", arguments = { id = "{key}" }, state = "/structuredContent/status", completed = ["done"], failed = ["error"], working = ["queued", "running"], absent = ["not_found"] }
`

// killedExport starts an export that a fault holds up, kills the bridge when it is
// there, and returns another bridge with the same configuration.
func (w *world) killedExport(config, fault, arguments string, there func(*bridgetest.View) bool) *lane {
	w.t.Helper()
	path := w.config(config)
	l := w.alone(path)
	if err := w.up.SetFault(fault + "@start_exportx1"); err != nil {
		w.t.Fatal(err)
	}
	l.send("start_export", arguments)
	w.ledger(there)
	kill(w.t, l.host.PID())
	return w.alone(path)
}

// Status first: an unknown outcome is settled by the server's own tool, live
// and after the process was killed.
func TestStatusFirst(t *testing.T) {
	t.Parallel()
	t.Run("reply lost", func(t *testing.T) {
		t.Parallel()
		w := newCalls(t)
		l := w.alone(w.config(exportStatus))
		if err := w.up.SetFault("lost-reply@start_exportx1"); err != nil {
			t.Fatal(err)
		}
		a := l.call("start_export", `{"ms":1}`)
		t.Logf("told first: %s", a.text)
		if a.word == unknown || a.word == running {
			a = l.poll(a.handle)
		}
		a.must(t, settled)
		if a.job.State != "completed" || a.job.Evidence != "status_tool" {
			t.Errorf("not settled by the status tool: %s", a.raw)
		}
		w.once("start_export")
	})
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		w := newCalls(t)
		next := w.killedExport(exportStatus, "stall:after-effect", `{"ms":400}`, func(v *bridgetest.View) bool { return v.Effects("start_export") == 1 })
		a := next.call("start_export", `{"ms":400}`)
		t.Logf("told first: %s", a.text)
		h := a.handle
		w.until("the status tool says that it is done", func() bool {
			if a.word == running || a.word == unknown {
				a = next.call("mcpbridge_job", fmt.Sprintf(`{"handle":%q,"wait_seconds":1}`, h))
			}
			return a.word == settled
		})
		if a.job.Evidence != "status_tool" {
			t.Errorf("not settled by the status tool: %s", a.raw)
		}
		w.once("start_export")
	})
	t.Run("absent proves nothing early", func(t *testing.T) {
		t.Parallel()
		w := newCalls(t)
		l := w.alone(w.config(exportStatus))
		if err := w.up.SetFault("cut-phase:before-effect@start_exportx1"); err != nil {
			t.Fatal(err)
		}
		a := l.call("start_export", `{"ms":1}`).must(t, unknown)
		if b := l.call("mcpbridge_job", fmt.Sprintf(`{"handle":%q}`, a.handle)).must(t, unknown); b.job.State != "outcome_unknown" {
			t.Errorf("settled: %s", b.raw)
		}
	})
	early := strings.Replace(exportStatus, `absent = ["not_found"]`, `absent = ["not_found"], settle_after = "1ms"`, 1)
	t.Run("absent frees a repeat", func(t *testing.T) {
		t.Parallel()
		w := newCalls(t)
		next := w.killedExport(early, "stall:before-effect", `{"ms":1}`, func(v *bridgetest.View) bool { return v.Deliveries("start_export") == 1 })
		next.call("start_export", `{"ms":1}`).must(t, result)
		if d, e := w.up.Ledger().Deliveries("start_export"), w.up.Ledger().Effects("start_export"); d != 2 || e != 1 {
			t.Errorf("the server got %d requests and acted %d times, want 2 and 1", d, e)
		}
	})
	t.Run("absent counts later", func(t *testing.T) {
		t.Parallel()
		w := newCalls(t)
		l := w.alone(w.config(early))
		if err := w.up.SetFault("cut-phase:before-effect@start_exportx1"); err != nil {
			t.Fatal(err)
		}
		a := l.call("start_export", `{"ms":1}`)
		t.Logf("told first: %s", a.text)
		h := a.handle
		if h == "" {
			h = w.records("start_export")[0].Handle
		}
		l.call("mcpbridge_job", fmt.Sprintf(`{"handle":%q}`, h)).must(t, failed)
		if j := w.find(h); j.State != jobs.Failed || j.Effect != jobs.None {
			t.Errorf("%s, %s", j.State, j.Effect)
		}
		l.call("start_export", `{"ms":1}`).must(t, result)
		if d, e := w.up.Ledger().Deliveries("start_export"), w.up.Ledger().Effects("start_export"); d != 2 || e != 1 {
			t.Errorf("the server got %d requests and acted %d times, want 2 and 1", d, e)
		}
	})
}
