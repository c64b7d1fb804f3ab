package crash

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

// A job whose owner is dead is open in the journal until somebody looks; then
// it is unknown, by handle and for the same call.
func TestOwnerDeadAndNotYetRecovered(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	l := w.alone()
	_, open := l.hold("before", "add_entry", "one")
	kill(t, l.host.PID())
	if _, err := l.host.Wait(w.ctx); err != nil {
		t.Fatal(err)
	}
	j := w.records("add_entry")[0]
	if lost, err := w.journal.OwnerLost(w.ctx, j); err != nil || !lost || j.State != jobs.Working {
		t.Fatalf("%s, owner lost: %v, %v", j.State, lost, err)
	}
	next := w.alone()
	a := next.call("mcpbridge_job", fmt.Sprintf(`{"handle":%q}`, j.Handle)).must(t, unknown)
	if a.job.Evidence != "bridge_lost" || a.job.Effect != "possible" {
		t.Errorf("told: %s", a.raw)
	}
	next.call("add_entry", `{"key":"one"}`).must(t, unknown)
	open()
	w.ledger(func(v *bridgetest.View) bool { return v.Effects("add_entry") == 1 })
	w.once("add_entry")
}

// orphan makes a call on a legacy stream with event ids and kills its process
// after the first of them is journaled.
func (w *world) orphan(key string) (jobs.Job, func()) {
	w.t.Helper()
	l := w.alone()
	_, open := l.hold("before", "slow_add", key)
	j := w.untilRecord("slow_add", "its stream can be resumed", func(j jobs.Job) bool { return len(j.SealedResume) > 0 })
	kill(w.t, l.host.PID())
	if _, err := l.host.Wait(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	return j, open
}

// A new process resumes the stream that a killed one left, and collects the
// result that comes there.
func TestLegacyStreamIsResumedByANewProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bridgetest.Options{Era: bridgetest.Legacy})
	j, open := w.orphan("one")
	next := w.alone()
	again := next.call("slow_add", `{"key":"one"}`).must(t, running)
	if again.handle != j.Handle || !again.job.Deduplicated {
		t.Errorf("the repeat: %s", again.raw)
	}
	open()
	got := next.poll(j.Handle).must(t, result)
	if got.text != "did one" || got.job.State != "completed" {
		t.Errorf("the result: %s", got.raw)
	}
	w.once("slow_add")
}

// A stream whose answer came while nobody was there is collected as well.
func TestResultThatCameWhileNobodyWasThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bridgetest.Options{Era: bridgetest.Legacy})
	j, open := w.orphan("one")
	open()
	w.ledger(func(v *bridgetest.View) bool { return v.Effects("slow_add") == 1 })
	w.alone().poll(j.Handle).must(t, result)
	w.once("slow_add")
}

// A session that the server has forgotten leaves the outcome unknown.
func TestSessionGoneAfterKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bridgetest.Options{Era: bridgetest.Legacy})
	j, _ := w.orphan("one")
	w.up.Restart()
	got := w.alone().poll(j.Handle)
	t.Logf("timeline: %+v", w.find(j.Handle).Timeline)
	a := got.must(t, unknown)
	if a.job.Evidence != "bridge_lost" && a.job.Evidence != "stream_incomplete" {
		t.Errorf("evidence: %s", a.raw)
	}
	if n := w.up.Ledger().Deliveries("slow_add"); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// Of two processes that look at the same time one takes the job over, and both
// get its result.
func TestTwoRecoverersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bridgetest.Options{Era: bridgetest.Legacy})
	j, open := w.orphan("one")
	resumed := func(v *bridgetest.View) (n int) {
		for _, e := range v.HTTP("GET") {
			if e.Header.Get("Last-Event-ID") != "" {
				n++
			}
		}
		return n
	}
	var both sync.WaitGroup
	lanes := []*lane{w.alone(), w.alone()}
	answers := make([]told, len(lanes))
	for i, l := range lanes {
		both.Go(func() {
			answers[i] = l.call("mcpbridge_job", fmt.Sprintf(`{"handle":%q}`, j.Handle))
		})
	}
	both.Wait()
	for _, a := range answers {
		a.must(t, running)
	}
	w.ledger(func(v *bridgetest.View) bool { return resumed(v) > 0 })
	open()
	for _, l := range lanes {
		l.poll(j.Handle).must(t, result)
	}
	w.ledger(func(v *bridgetest.View) bool {
		if n := resumed(v); n != 1 {
			t.Errorf("the stream was resumed %d times", n)
		}
		return true
	})
	w.once("slow_add")
	owners := 0
	for _, e := range w.find(j.Handle).Timeline {
		if e.What == "taken over" {
			owners++
		}
	}
	if owners != 1 {
		t.Errorf("taken over %d times", owners)
	}
}

// early waits until a call stands at its gate; if it is answered before, it
// returns what was said.
func (l *lane) early(id string, g *gate) string {
	ctx, stop := context.WithCancel(l.ctx)
	defer stop()
	var text string
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if r, err := l.host.WaitReply(ctx, id); err == nil {
			text = string(r.Raw)
		}
	}()
	select {
	case <-g.reached:
	case <-answered:
	}
	stop()
	<-answered
	select {
	case <-g.reached:
		return ""
	default:
		return "answer: " + text
	}
}

// Owner files are swept while processes make theirs: none loses its own, and no
// call fails for it.
func TestOwnerFilePrunedWhileItIsMade(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	w.prime()
	ctx, stop := context.WithCancel(w.ctx)
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		s, err := boltstore.Open(w.dir, boltstore.Options{Schema: jobs.Schema()})
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = s.Close(false) }()
		for ctx.Err() == nil {
			_, _ = s.Tidy(ctx, false, func(store.Tx, string) bool { return false }) // it may wait in vain
		}
	})
	const hosts = 6
	var all sync.WaitGroup
	for i := range hosts {
		key := fmt.Sprintf("k%d", i)
		g := w.gates.close("before", key)
		l := w.alone()
		all.Go(func() {
			id := l.send("add_entry", fmt.Sprintf(`{"key":%q}`, key))
			if a := l.early(id, g); a != "" {
				t.Errorf("%s was not sent: %s", key, a)
				return
			}
			for _, j := range w.records("add_entry") {
				if lost, err := w.journal.OwnerLost(w.ctx, j); err != nil || lost {
					t.Errorf("job %s has lost its owner, which lives: %v", j.Handle, err)
				}
			}
			g.open()
			l.answer(id).must(t, result)
		})
	}
	all.Wait()
	stop()
	sweeping.Wait()
	if n := w.up.Ledger().Effects("add_entry"); n != hosts {
		t.Errorf("the tool acted %d times, want %d", n, hosts)
	}
}
