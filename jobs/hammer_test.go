package jobs_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

var hammerJobs = flag.Int("jobs", 2000, "jobs that three processes hammer one journal with")

// hammerChild runs jobs from begin to told, 16 at a time, or one at a time if
// it is polite; a polite one prints how long its turns took.
func hammerChild(task childTask) {
	ctx := context.Background()
	j, err := jobs.Open(task.Dir, jobs.Options{}, boltstore.Options{})
	check(err)
	l := openLedger(task.Ledger)
	workers := 16
	if task.Polite {
		workers = 1
	}
	var next atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for n := next.Add(1); n <= int64(task.Jobs); n = next.Add(1) {
				at := time.Now()
				b, err := j.Begin(ctx, numbered(task.After+int(n), 100))
				check(err)
				begun := time.Since(at)
				if b.Hold != jobs.NotHeld {
					fail(fmt.Errorf("call %d was held back: %v", n, b.Hold))
				}
				l.add("sent", b.Job.Handle)
				_, err = j.Finish(ctx, b.Job.Handle, completed(`{"content":[]}`))
				check(err)
				l.add("told", b.Job.Handle)
				if task.Announce {
					fmt.Println(b.Job.Handle)
				}
				j.Note(b.Job.Handle, jobs.Note{Told: true})
				mu.Lock()
				took = append(took, begun)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	check(j.Close(ctx))
	if task.Polite {
		slices.Sort(took)
		fmt.Printf("begin beside two busy processes: median %v, p99 %v, longest %v\n",
			took[len(took)/2].Round(10*time.Microsecond), took[len(took)*99/100].Round(10*time.Microsecond), took[len(took)-1].Round(10*time.Microsecond))
	}
}

// TestHammer lets three processes use one journal at the same time. Each of
// their calls is another or comes while the first is waited for, so none may be
// held back; in the end everything is settled, told, and wiped.
func TestHammer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	task := childTask{Do: "hammer", Dir: filepath.Join(dir, "state"), Ledger: filepath.Join(dir, "ledger")}
	const processes = 3
	var each []func() error
	for n := range processes {
		task.Jobs, task.Polite = *hammerJobs/processes, false
		if n == 0 {
			task.Polite, task.Jobs = true, min(task.Jobs, 300)
		}
		each = append(each, startChild(t, task).Wait)
	}
	for _, wait := range each {
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	}
	j, err := jobs.Open(task.Dir, jobs.Options{}, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close(ctx) }()
	if err := j.Check(ctx); err != nil {
		t.Error(err)
	}
	got := readLedger(t, task.Ledger)
	all, err := j.List(ctx, jobs.Filter{Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(got["sent"]) || len(got["told"]) != len(got["sent"]) {
		t.Errorf("%d records, %d sent, %d told", len(all), len(got["sent"]), len(got["told"]))
	}
	sent := make(map[jobs.Handle]bool)
	for _, h := range got["sent"] {
		sent[h] = true
	}
	for _, job := range all {
		if !sent[job.Handle] || job.State != jobs.Completed || !job.Told || job.Arguments.Kept || job.Result.Kept {
			t.Errorf("%s: sent %v, %v, told %v, kept %v %v", job.Handle, sent[job.Handle], job.State, job.Told, job.Arguments.Kept, job.Result.Kept)
		}
	}
	if left, err := j.List(ctx, jobs.Filter{Attention: true}); err != nil || len(left) != 0 {
		t.Errorf("%d jobs still need somebody, %v", len(left), err)
	}
}

// TestKilledInTheMiddle kills two busy processes at whatever they are doing.
// What they sent has a record; what they told is settled. No call of one repeats a
// call of the other: the one that lives longer would take that over.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 37, 150} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			task := childTask{Do: "hammer", Dir: filepath.Join(dir, "state"), Ledger: filepath.Join(dir, "ledger"),
				Jobs: 1 << 20, Announce: true}
			lines := make(chan string)
			var readers sync.WaitGroup
			for n := range 2 {
				task.After = n * task.Jobs
				cmd := childCommand(t, task)
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = cmd.Wait() }()
				defer func() { _ = cmd.Process.Kill() }()
				readers.Go(func() { announced(out, lines) })
			}
			for range after {
				<-lines
			}
			t.Cleanup(func() { // both are dead
				go func() {
					readers.Wait()
					close(lines)
				}()
				for range lines {
					continue
				}
				checkKilled(t, task)
			})
		})
	}
}

func announced(out io.Reader, lines chan<- string) {
	for s := bufio.NewScanner(out); s.Scan(); {
		lines <- s.Text()
	}
}

func checkKilled(t *testing.T, task childTask) {
	ctx := context.Background()
	j, err := jobs.Open(task.Dir, jobs.Options{}, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close(ctx) }()
	if err := j.Check(ctx); err != nil {
		t.Error(err)
	}
	got := readLedger(t, task.Ledger)
	for _, h := range got["sent"] {
		if job, err := j.Find(ctx, h); err != nil || job.State != jobs.Working && job.State != jobs.Completed {
			t.Errorf("sent, and the journal says %v, %v", job.State, err)
		}
	}
	for _, h := range got["told"] {
		if job, err := j.Find(ctx, h); err != nil || job.State != jobs.Completed {
			t.Errorf("told, and the journal says %v, %v", job.State, err)
		}
	}
	recoverAll(t, j)
}
