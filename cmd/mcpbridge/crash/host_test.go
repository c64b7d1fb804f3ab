package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// newCalls is a world whose server speaks both eras, as modern hosts find it.
func newCalls(t *testing.T, args ...string) *world {
	t.Helper()
	return newWorld(t, bridgetest.Options{Era: bridgetest.Modern}, args...)
}

// hold sends a call whose tool waits at a gate, and waits until it is there.
func (l *lane) hold(where, tool, key string) (id string, open func()) {
	l.t.Helper()
	g := l.gates.close(where, key)
	id = l.send(tool, fmt.Sprintf(`{"key":%q}`, key))
	if err := g.wait(l.ctx); err != nil {
		l.t.Fatal(err)
	}
	return id, g.open
}

func (l *lane) cancel(id, reason string) {
	l.t.Helper()
	if err := l.host.Notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%s,"reason":%q}`, id, reason)); err != nil {
		l.t.Fatal(err)
	}
}

// once demands that the server got the call once and the tool acted once.
func (w *world) once(tool string) {
	w.t.Helper()
	if d, e := w.up.Ledger().Deliveries(tool), w.up.Ledger().Effects(tool); d != 1 || e != 1 {
		w.t.Errorf("the server got %d requests and the tool acted %d times, want 1 and 1", d, e)
	}
}

// A host that gives up on a timer of its own, before any handle was given out,
// gets the handle when it makes the same call again.
func TestHostGivesUpBeforeAHandle(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	l := w.alone()
	id, open := l.hold("before", "add_entry", "one")
	l.cancel(id, "cancelled by caller")
	w.untilRecord("add_entry", "nobody waits", func(j jobs.Job) bool { return j.Waiter == "" })
	again := l.call("add_entry", `{"key":"one"}`).must(t, running)
	if !again.job.Deduplicated {
		t.Errorf("the answer is not marked as deduplicated: %s", again.raw)
	}
	open()
	l.poll(again.handle).must(t, result)
	if r := l.host.Replies(id); len(r) != 0 {
		t.Errorf("an answer came for the cancelled id: %s", r[0].Raw)
	}
	w.once("add_entry")
}

// A host that closes its input during a long write, as hosts do that reload
// their servers, makes the call again at once, from a new process.
func TestHostClosesDuringALongWrite(t *testing.T) {
	t.Parallel()
	t.Run("worker stays", func(t *testing.T) {
		t.Parallel()
		if !splits {
			t.Skip("there are no workers on this system")
		}
		w := newCalls(t)
		first := w.start()
		_, open := first.hold("before", "add_entry", "one")
		if err := first.host.CloseStdin(); err != nil {
			t.Fatal(err)
		}
		second := w.start()
		again := second.call("add_entry", `{"key":"one"}`).must(t, running)
		if code, err := first.host.Wait(w.ctx); err != nil || code != 0 {
			t.Errorf("the first process ended with %d, %v", code, err)
		}
		open()
		second.poll(again.handle).must(t, result)
		w.once("add_entry")
	})
	t.Run("one process ends", func(t *testing.T) {
		t.Parallel()
		w := newCalls(t)
		first := w.alone()
		_, open := first.hold("before", "add_entry", "one")
		if err := first.host.CloseStdin(); err != nil {
			t.Fatal(err)
		}
		second := w.alone()
		again := second.call("add_entry", `{"key":"one"}`)
		if again.word == running {
			again = second.poll(again.handle)
		}
		again.must(t, unknown)
		open()
		w.ledger(func(v *bridgetest.View) bool { return v.Effects("add_entry") == 1 })
		second.resolve(again.handle, "happened", "the entry is there").must(t, settled)
		w.once("add_entry")
	})
}

// A result that was journaled and that nobody read is named to the next host,
// given once to a repeat, and after that the call is a new one.
func TestResultJournaledAndNeverRead(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	deaf := w.startDeaf("--linger=0")
	deaf.fill()
	deaf.call("c", "add_entry", `{"key":"one"}`)
	j := w.untilRecord("add_entry", "completed", inState(jobs.Completed))
	kill(t, deaf.cmd.Process.Pid)
	next := w.alone()
	greeting, err := next.host.Discover(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(greeting.Result), string(j.Handle)) {
		t.Errorf("the greeting does not name what nobody read: %s", greeting.Result)
	}
	if list := next.call("mcpbridge_job", `{}`); !strings.Contains(list.text, string(j.Handle)) {
		t.Errorf("the list does not name what nobody read: %s", list.text)
	}
	kept := next.call("add_entry", `{"key":"one"}`).must(t, result)
	if kept.handle != j.Handle || !kept.job.Deduplicated {
		t.Errorf("not the kept result: %s", kept.raw)
	}
	w.once("add_entry")
	next.ping()
	fresh := next.call("add_entry", `{"key":"one"}`).must(t, result)
	if fresh.job.Deduplicated || w.up.Ledger().Effects("add_entry") != 2 {
		t.Errorf("the kept result was given twice: %s", fresh.raw)
	}
}

// A line that never left the program is not told, however long the host lives.
func TestUnreadLineIsNotTold(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	deaf := w.startDeaf("--linger=0")
	deaf.fill()
	deaf.call("c", "add_entry", `{"key":"one"}`)
	w.untilRecord("add_entry", "completed", inState(jobs.Completed))
	// More lines come, and one of them makes the next turn at the journal.
	deaf.call("d", "set_entry", `{"key":"other"}`)
	w.untilRecord("set_entry", "completed", inState(jobs.Completed))
	deaf.call("e", "set_entry", `{"key":"third"}`)
	w.until("two more calls are recorded", func() bool { return len(w.records("set_entry")) == 2 })
	if j := w.records("add_entry")[0]; j.Told || j.Read {
		t.Errorf("the record says that the host has the end, and the line is still here: %+v", j)
	}
	kill(t, deaf.cmd.Process.Pid)
	if kept := w.alone().call("add_entry", `{"key":"one"}`).must(t, result); !kept.job.Deduplicated {
		t.Errorf("not the kept result: %s", kept.raw)
	}
	w.once("add_entry")
}

// A kept result that was answered to a host which died before it read it is
// kept for the next.
func TestKeptResultThatWasNotReadEither(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	first := w.alone()
	first.call("add_entry", `{"key":"one"}`).must(t, result)
	kill(t, first.host.PID())
	deaf := w.startDeaf("--linger=0")
	deaf.fill()
	deaf.call("c", "add_entry", `{"key":"one"}`)
	w.untilRecord("add_entry", "answered once more", func(j jobs.Job) bool {
		return slices.ContainsFunc(j.Timeline, func(e jobs.Event) bool { return e.What == "answered a repeat" })
	})
	deaf.call("d", "set_entry", `{"key":"other"}`) // makes a turn at the journal
	w.untilRecord("set_entry", "completed", inState(jobs.Completed))
	kill(t, deaf.cmd.Process.Pid)
	if kept := w.alone().call("add_entry", `{"key":"one"}`).must(t, result); !kept.job.Deduplicated {
		t.Errorf("not the kept result: %s", kept.raw)
	}
	w.once("add_entry")
}

// The end of the host's output is no sign that it read what was written.
func TestClosedOutputTellsNothing(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	first := w.alone()
	first.call("add_entry", `{"key":"one"}`).must(t, result)
	if err := first.host.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.host.Wait(w.ctx); err != nil {
		t.Fatal(err)
	}
	if kept := w.alone().call("add_entry", `{"key":"one"}`).must(t, result); !kept.job.Deduplicated {
		t.Errorf("the call was made again: %s", kept.raw)
	}
	w.once("add_entry")
}

// Two equal calls whose callers both wait are two calls, of one host, of two,
// and of a file of requests that ends at once.
func TestSameCallTwiceWhileTheFirstRuns(t *testing.T) {
	t.Parallel()
	twice := func(t *testing.T, w *world) {
		t.Helper()
		if d, e := w.up.Ledger().Deliveries("add_entry"), w.up.Ledger().Effects("add_entry"); d != 2 || e != 2 {
			t.Errorf("the server got %d requests and the tool acted %d times, want 2 and 2", d, e)
		}
	}
	t.Run("one host", func(t *testing.T) {
		t.Parallel()
		w := newCalls(t)
		l := w.alone()
		id, open := l.hold("before", "add_entry", "one")
		second := l.send("add_entry", `{"key":"one"}`)
		w.ledger(func(v *bridgetest.View) bool { return v.Deliveries("add_entry") == 2 })
		open()
		l.answer(id).must(t, result)
		l.answer(second).must(t, result)
		twice(t, w)
	})
	t.Run("two hosts", func(t *testing.T) {
		t.Parallel()
		w := newCalls(t)
		a, b := w.alone(), w.alone()
		id, open := a.hold("before", "add_entry", "one")
		second := b.send("add_entry", `{"key":"one"}`)
		w.ledger(func(v *bridgetest.View) bool { return v.Deliveries("add_entry") == 2 })
		open()
		a.answer(id).must(t, result)
		b.answer(second).must(t, result)
		twice(t, w)
	})
	t.Run("a file of requests", func(t *testing.T) {
		t.Parallel()
		w := newCalls(t)
		l := w.alone()
		first := l.send("add_entry", `{"key":"one"}`)
		second := l.send("add_entry", `{"key":"one"}`)
		if err := l.host.CloseStdin(); err != nil {
			t.Fatal(err)
		}
		l.answer(first).must(t, result)
		l.answer(second).must(t, result)
		twice(t, w)
	})
}

// A host whose front is killed is gone at once for a window that was open all
// along, and whose call needs no start of a process.
func TestFrontKilledAndAnotherWindowAtOnce(t *testing.T) {
	t.Parallel()
	if !splits {
		t.Skip("there are no workers on this system")
	}
	w := newCalls(t)
	first, second := w.start(), w.start()
	_, open := first.hold("before", "add_entry", "one")
	kill(t, first.host.PID())
	again := second.call("add_entry", `{"key":"one"}`).must(t, running)
	open()
	second.poll(again.handle).must(t, result)
	w.once("add_entry")
}
