package crash

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/cmd/mcpbridge/programtest"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

const (
	hammerHosts    = 3
	hammerInFlight = 16
	// turnLimit is how long the 99th percentile of a turn at the journal may
	// take while everybody wants it.
	turnLimit = 250 * time.Millisecond
	// fewTurns say nothing about a percentile.
	fewTurns = 300
)

// Three bridges, a program that lists jobs again and again and a process that
// measures share one state directory. Nothing is lost, nothing is doubled; the
// same holds at a journal from which very much was pruned, in a full run 100,000
// jobs and 1 GiB of results.
func TestHammer(t *testing.T) {
	t.Parallel()
	t.Run("new journal", func(t *testing.T) { newCalls(t).hammer(t) })
	t.Run("after a prune", func(t *testing.T) { // one after the other: both measure
		few, all := 16, 1000
		if full() {
			few, all = 8192, 100_000
		}
		dir := filepath.Join(t.TempDir(), "state")
		fillAndPrune(t, dir, few, all)
		newWorldIn(t, dir, bridgetest.Options{Era: bridgetest.Modern}).hammer(t)
	})
}

// hammerCalls is how many calls the bridges make together.
func hammerCalls() int {
	switch {
	case full():
		return 10_000
	case programtest.RaceDetector:
		return 300
	}
	return 1000
}

// hammer lets the bridges make their calls, and checks all there is to check.
func (w *world) hammer(t *testing.T) {
	n := hammerCalls()
	var calls, rest sync.WaitGroup
	done := make(chan struct{})
	var lists atomic.Int64
	rest.Go(func() { w.listAll(done, &lists) })
	var turns []time.Duration
	rest.Go(func() { turns = w.measureTurns(done) })
	var bad atomic.Int64
	for host := range hammerHosts {
		l := w.alone()
		next := atomic.Int64{}
		for range hammerInFlight {
			calls.Go(func() {
				for i := next.Add(1); i <= int64(share(n, host)); i = next.Add(1) {
					key := fmt.Sprintf("h%d-%d", host, i)
					r, err := l.host.CallTool(l.ctx, "add_entry", fmt.Sprintf(`{"key":%q}`, key))
					if err != nil || r.Text() != "did "+key {
						bad.Add(1)
						t.Errorf("%s: %v %.300s", key, err, r.Raw)
						return
					}
				}
			})
		}
	}
	calls.Wait()
	close(done)
	rest.Wait()
	w.checkHammer(n)
	slices.Sort(turns)
	p99 := turns[len(turns)*99/100]
	t.Logf("%d jobs, %d lists; %d turns, median %v, p99 %v, longest %v", n, lists.Load(), len(turns), turns[len(turns)/2], p99, turns[len(turns)-1])
	if p99 > turnLimit && !programtest.RaceDetector && len(turns) >= fewTurns {
		t.Errorf("the 99th percentile of a turn is %v, at most %v are allowed", p99, turnLimit)
	}
}

// fillAndPrune leaves a journal behind from which that many jobs were pruned, few
// of them with results that lie beside the file.
func fillAndPrune(t *testing.T, dir string, few, all int) {
	t.Helper()
	var back atomic.Int64 // the clock begins in the past, and comes to the present
	back.Store(int64(40 * 24 * time.Hour))
	j, err := jobs.Open(dir, jobs.Options{Now: func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }}, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	small, large := fillerEnd(100), fillerEnd(128<<10)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 128 {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(all) && !t.Failed(); i = next.Add(1) {
				end := small
				if i <= int64(few) {
					end = large
				}
				b, err := j.Begin(ctx, jobs.Call{Account: jobs.Account{Server: "crm", Principal: "anonymous"}, Tool: "filler",
					Arguments: fmt.Appendf(nil, `{"n":%d}`, i), HandleOut: true})
				if err == nil {
					_, err = j.Finish(ctx, b.Job.Handle, end)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	for left := back.Load(); left > 0; left = back.Add(-int64(12 * time.Hour)) {
		j.Note(jobs.NewHandle(), jobs.Note{Event: "time passes"})
		if err := j.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	p, err := j.Prune(ctx)
	if err = errors.Join(err, j.Close(ctx)); err != nil || p.Removed != all {
		t.Fatalf("pruned %+v, %v", p, err)
	}
}

func fillerEnd(size int) jobs.End {
	return jobs.End{State: jobs.Completed, Effect: jobs.Reported, Evidence: jobs.ToolResult, Kind: jobs.ToolAnswer,
		Result: fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, strings.Repeat("r", size))}
}

// share is how many of n calls one host makes.
func share(n, host int) int {
	s := n / hammerHosts
	if host < n%hammerHosts {
		s++
	}
	return s
}

// checkHammer compares every record with the ledger.
func (w *world) checkHammer(n int) {
	w.t.Helper()
	acted := map[string]int{}
	for _, e := range w.up.Ledger().AllEffects() {
		acted[e.Key]++
	}
	for key, times := range acted {
		if times != 1 {
			w.t.Errorf("%s acted %d times", key, times)
		}
	}
	if len(acted) != n {
		w.t.Errorf("%d calls acted, want %d", len(acted), n)
	}
	seen := map[jobs.Handle]bool{}
	for _, j := range w.records("add_entry") {
		if seen[j.Handle] || j.State != jobs.Completed {
			w.t.Errorf("job %s twice, or %s", j.Handle, j.State)
		}
		seen[j.Handle] = true
	}
	if len(seen) != n {
		w.t.Errorf("%d records, want %d", len(seen), n)
	}
	if err := w.journal.Check(w.ctx); err != nil {
		w.t.Errorf("the journal contradicts itself: %v", err)
	}
}

// listAll runs the program that lists jobs until done.
func (w *world) listAll(done <-chan struct{}, count *atomic.Int64) {
	for {
		select {
		case <-done:
			return
		default:
		}
		cmd := exec.CommandContext(w.ctx, program(), "jobs", "list", "--json", "--state-dir="+w.dir, "--limit=50")
		cmd.Env = environment(w.home)
		out, err := cmd.CombinedOutput()
		if err != nil {
			w.t.Errorf("jobs list: %v: %s", err, out)
			return
		}
		lines := bufio.NewScanner(bytes.NewReader(out))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var j toldJob
			if err := json.Unmarshal(lines.Bytes(), &j); err != nil || j.Handle == "" {
				w.t.Errorf("jobs list: line %.200q: %v", lines.Text(), err)
				return
			}
		}
		count.Add(1)
	}
}

// measureTurns makes a change every few milliseconds and says how long each
// took.
func (w *world) measureTurns(done <-chan struct{}) []time.Duration {
	j, err := jobs.Open(w.dir, jobs.Options{}, boltstore.Options{})
	if err != nil {
		w.t.Error(err)
		return []time.Duration{0}
	}
	defer func() { _ = j.Close(w.ctx) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	turns := make([]time.Duration, 0, 1024)
	for {
		begun := time.Now()
		_, err := j.Begin(w.ctx, jobs.Call{Account: jobs.Account{Server: "other", Principal: "other"}, Tool: "other",
			Arguments: fmt.Appendf(nil, `{"n":%d}`, len(turns))})
		if err != nil {
			w.t.Errorf("a turn: %v", err)
			return append(turns, 0)
		}
		turns = append(turns, time.Since(begun))
		select {
		case <-done:
			return turns
		case <-tick.C:
		}
	}
}
