package crash

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// A reply that is lost after the effect is an unknown outcome; the same call is
// held back, by every process, until somebody says what happened.
func TestReplyLostAfterTheEffect(t *testing.T) {
	t.Parallel()
	for _, era := range []bridgetest.Era{bridgetest.Modern, bridgetest.Legacy} {
		t.Run(eraName(era), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, bridgetest.Options{Era: era, NoEventIDs: true})
			l := w.alone()
			if err := w.up.SetFault("lost-reply@add_entryx1"); err != nil {
				t.Fatal(err)
			}
			first := l.call("add_entry", `{"key":"one"}`).must(t, unknown)
			l.call("add_entry", `{"key":"one"}`).must(t, unknown)
			other := w.alone()
			held := other.call("add_entry", `{"key":"one"}`).must(t, unknown)
			if held.handle != first.handle || !held.job.Deduplicated {
				t.Errorf("not held by the first call: %s", held.raw)
			}
			other.call("add_entry", `{"key":"two"}`).must(t, result)
			other.resolve(held.handle, "happened", "the entry is there").must(t, settled)
			l.call("add_entry", `{"key":"one"}`).must(t, result)
			if n := w.up.Ledger().EffectsOf("add_entry", "one"); n != 2 {
				t.Errorf("the tool acted %d times, want once before and once after it was settled", n)
			}
		})
	}
}

// Reads are never held back: not after a lost reply, not after a killed process.
func TestReadIsNeverLockedOut(t *testing.T) {
	t.Parallel()
	w := newCalls(t, "--retries=0")
	for _, tool := range []string{"look", "get_item"} {
		l := w.alone()
		if err := w.up.SetFault("lost-reply@" + tool + "x1"); err != nil {
			t.Fatal(err)
		}
		if a := l.call(tool, `{"key":"one"}`); a.word == result || a.word == running {
			t.Errorf("the reply was lost, and told: %s", a.text)
		}
		want := "did one"
		if tool == "get_item" {
			want = "does not exist"
		}
		if a := l.call(tool, `{"key":"one"}`).must(t, result); !strings.Contains(a.text, want) {
			t.Errorf("a read was held back: %s", a.text)
		}
	}
	l := w.alone("--answer-within=300ms")
	id, open := l.hold("before", "look", "two")
	l.answer(id).must(t, running)
	l.call("look", `{"key":"two"}`).must(t, running) // its own handle: it runs here
	kill(t, l.host.PID())
	open()
	w.alone().call("look", `{"key":"two"}`).must(t, result)
}

// The same state directory, another working directory: the guard holds across
// windows and says so; lists show only what may need somebody.
func TestOtherWindow(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	l := w.alone()
	if err := w.up.SetFault("lost-reply@add_entryx1"); err != nil {
		t.Fatal(err)
	}
	lost := l.call("add_entry", `{"key":"one"}`).must(t, unknown)
	done := l.call("set_entry", `{"key":"done"}`).must(t, result)
	_ = done
	elsewhere := t.TempDir()
	other := w.startHost(bridgetest.HostOptions{Command: w.command("--linger=0"), Dir: elsewhere})
	held := other.call("add_entry", `{"key":"one"}`).must(t, unknown)
	if !strings.Contains(held.text, "another window") || !strings.Contains(held.text, w.home[strings.LastIndex(w.home, "/")+1:]) {
		t.Errorf("the text does not name the other window: %s", held.text)
	}
	list := other.call("mcpbridge_job", `{}`)
	if !strings.Contains(list.text, string(lost.handle)) || strings.Contains(list.text, "set_entry") {
		t.Errorf("the list of another window: %s", list.text)
	}
}

// Handles of another server, of another account, and handles that nobody knows.
func TestHandleOfSomebodyElse(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	l := w.alone()
	if err := w.up.SetFault("lost-reply@add_entryx1"); err != nil {
		t.Fatal(err)
	}
	h := l.call("add_entry", `{"key":"one"}`).must(t, unknown).handle
	ask := func(l *lane) told {
		return l.call("mcpbridge_job", fmt.Sprintf(`{"handle":%q}`, h))
	}
	other := *w
	other.account.Server = "billing"
	r := (&other).alone().request("tools/call", bridgetest.ToolParams("mcpbridge_job", fmt.Sprintf(`{"handle":%q}`, h)))
	if !r.IsError() || !strings.Contains(r.Text(), "crm") || strings.Contains(string(r.Result), "add_entry") || strings.Contains(string(r.Result), jobKey) {
		t.Errorf("another server's handle is answered with more than that server's name: %s", r.Raw)
	}
	a := ask(w.alone("--principal=somebody")).must(t, failed)
	if !a.isError || !strings.Contains(a.text, "not found on server crm") || !strings.Contains(a.text, "does not mean not done") || a.has {
		t.Errorf("another account's handle: %s", a.raw)
	}
	for _, bad := range []string{"job_aaaaaaaaaaaaaaaaaaaaaaaaaa", "job_1", "", "42"} {
		a := l.call("mcpbridge_job_resolve", fmt.Sprintf(`{"handle":%q,"resolution":"happened","why":"x"}`, bad)).must(t, failed)
		if !a.isError {
			t.Errorf("an unknown handle is no error: %s", a.raw)
		}
	}
	if n := w.up.Ledger().Deliveries("add_entry"); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// Calls of tools without any annotation are guarded too.
func TestUnannotatedIsGuarded(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	l := w.alone()
	if err := w.up.SetFault("lost-reply@actx1"); err != nil {
		t.Fatal(err)
	}
	first := l.call("act", `{"key":"one"}`).must(t, unknown)
	if again := l.call("act", `{"key":"one"}`).must(t, unknown); again.handle != first.handle {
		t.Errorf("another job: %s", again.raw)
	}
	w.once("act")
}
