package crash

import (
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// A cancel just before the effect and one just after it end nothing: the call
// goes on, and its result is there for whoever asks next.
func TestCancelAroundTheEffect(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"before", "after"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := newCalls(t)
			l := w.alone()
			id, open := l.hold(where, "add_entry", "one")
			l.cancel(id, "user pressed a key")
			w.untilRecord("add_entry", "nobody waits", func(j jobs.Job) bool { return j.Waiter == "" })
			open()
			w.untilRecord("add_entry", "completed", inState(jobs.Completed))
			kept := l.call("add_entry", `{"key":"one"}`).must(t, result)
			if !kept.job.Deduplicated {
				t.Errorf("not the kept result: %s", kept.raw)
			}
			w.once("add_entry")
		})
	}
}

// With --on-cancel forward the server is told, and nobody knows whether it was
// in time: before the effect and after it the same is said.
func TestCancelForwarded(t *testing.T) {
	t.Parallel()
	for _, era := range []bridgetest.Era{bridgetest.Modern, bridgetest.Legacy} {
		for _, where := range []string{"before", "after"} {
			t.Run(eraName(era)+"/"+where, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, bridgetest.Options{Era: era}, "--on-cancel=forward")
				l := w.alone()
				id, _ := l.hold(where, "add_entry", "one")
				l.cancel(id, "user pressed a key")
				j := w.untilRecord("add_entry", "unknown", inState(jobs.OutcomeUnknown))
				if j.Evidence != jobs.CancelledByHost || j.Effect != jobs.Possible || j.EndedBy != "host" {
					t.Errorf("evidence %s, effect %s, ended by %s", j.Evidence, j.Effect, j.EndedBy)
				}
				if era == bridgetest.Legacy {
					w.ledger(func(v *bridgetest.View) bool { return len(v.Requests("notifications/cancelled")) == 1 })
				} else {
					w.ledger(func(v *bridgetest.View) bool {
						for _, e := range v.Requests("tools/call") {
							if e.Has(bridgetest.MarkClosed) {
								return true
							}
						}
						return false
					})
				}
				again := l.call("add_entry", `{"key":"one"}`).must(t, unknown)
				if again.handle != j.Handle {
					t.Errorf("another handle: %s", again.raw)
				}
			})
		}
	}
}

// A read that is cancelled is cancelled at the server too, and is made again.
func TestCancelledReadIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	l := w.alone()
	id, open := l.hold("before", "look", "one")
	l.cancel(id, "user pressed a key")
	w.ledger(func(v *bridgetest.View) bool {
		for _, e := range v.Requests("tools/call") {
			if e.Has(bridgetest.MarkClosed) {
				return true
			}
		}
		return false
	})
	open()
	l.call("look", `{"key":"one"}`).must(t, result)
	if n := len(w.records("look")); n != 0 {
		t.Errorf("%d records of a read that needed none", n)
	}
}

// Another window may end a call: cancel tells the server, stop_waiting does not,
// and both leave the outcome unknown.
func TestEndedFromAnotherWindow(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"cancel", "stop_waiting"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, bridgetest.Options{Era: bridgetest.Legacy}, "--answer-within=300ms")
			first, second := w.alone(), w.alone()
			id, _ := first.hold("before", "add_entry", "one")
			h := first.answer(id).must(t, running).handle
			a := second.resolve(h, what, "the user wants it")
			if a.word == running {
				a = second.poll(h)
			}
			a.must(t, unknown)
			told := boolInt(what == "cancel")
			if told == 1 {
				w.ledger(func(v *bridgetest.View) bool { return len(v.Requests("notifications/cancelled")) == 1 })
			}
			if n := len(w.up.Ledger().Requests("notifications/cancelled")); n != told {
				t.Errorf("the server was told %d times, want %d", n, told)
			}
			first.call("add_entry", `{"key":"one"}`).must(t, unknown)
			if n := w.up.Ledger().Deliveries("add_entry"); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// A bridge that leaves, or is told to, has the server stop no call that may act:
// nobody wanted that. The session in which it runs is not ended either.
func TestLeavingCancelsNoWrite(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"end of input", "SIGTERM"} {
		for _, args := range [][]string{nil, {"--journal=off"}} {
			t.Run(how+strings.Join(args, ""), func(t *testing.T) {
				t.Parallel()
				if how == "SIGTERM" && !splits {
					t.Skip("there is no SIGTERM on this system")
				}
				w := newWorld(t, bridgetest.Options{Era: bridgetest.Legacy, NoEventIDs: true}, args...)
				l := w.alone("--drain=10ms")
				_, open := l.hold("before", "add_entry", "one")
				if how == "SIGTERM" {
					terminate(t, l.host.PID())
				} else if err := l.host.CloseStdin(); err != nil {
					t.Fatal(err)
				}
				if _, err := l.host.Wait(w.ctx); err != nil {
					t.Fatal(err)
				}
				open()
				w.ledger(func(v *bridgetest.View) bool { return v.Effects("add_entry") == 1 })
				w.ledger(func(v *bridgetest.View) bool {
					if n := len(v.Requests("notifications/cancelled")); n > 0 {
						t.Errorf("%d cancels were sent", n)
					}
					if n := len(v.HTTP("DELETE")); n > 0 && args == nil {
						t.Errorf("%d sessions were ended", n)
					}
					return true
				})
				if args == nil {
					if j := w.records("add_entry")[0]; j.State != jobs.OutcomeUnknown || j.Evidence != jobs.BridgeLeft {
						t.Errorf("%s, %s", j.State, j.Evidence)
					}
				}
			})
		}
	}
}
