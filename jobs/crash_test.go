package jobs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

// spare is an account whose jobs a crash child forgets, which compacts.
var spare = jobs.Account{Server: "crm", Principal: "spare"}

// crashChild lives the life of jobs until it comes to its point: begin, send
// (a line in the ledger), finish, tell (another line), forget.
func crashChild(task childTask) {
	ctx := context.Background()
	times := 0
	var armed atomic.Bool
	j, err := jobs.Open(task.Dir, jobs.Options{}, boltstore.Options{At: func(p boltstore.Point) error {
		if armed.Load() && p == task.Point {
			if times++; times == task.Nth {
				die()
			}
		}
		return nil
	}})
	check(err)
	l := openLedger(task.Ledger)
	if task.Spoil {
		_, err := j.Begin(ctx, numbered(-1, 0))
		check(err)
		check(os.WriteFile(filepath.Join(task.Dir, "jobs.db"), []byte(strings.Repeat("no database", 9999)), 0o600))
	}
	armed.Store(true)
	for n := range 12 {
		size := n % 3 * 50_000
		b, err := j.Begin(ctx, numbered(n, size))
		check(err)
		l.add("sent", b.Job.Handle)
		if n%4 == 1 {
			_, err := j.GiveHandle(ctx, b.Job.Handle)
			check(err)
			l.add("given", b.Job.Handle)
		}
		_, err = j.Finish(ctx, b.Job.Handle, completed(`"`+strings.Repeat("y", size)+`"`))
		check(err)
		l.add("told", b.Job.Handle)
		j.Note(b.Job.Handle, jobs.Note{Told: true})
		c := numbered(n, 0)
		c.Account = spare
		_, err = j.Begin(ctx, c)
		check(err)
		_, err = j.Forget(ctx, spare, true)
		check(err)
	}
	check(j.Close(ctx))
}

// TestCrashAtEveryPoint kills a process at each point inside a turn, at several
// occasions, and asks the journal afterwards: what was sent has a record, what
// was told is settled, what was given can be found, and nothing contradicts
// itself.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, point := range boltstore.Points() {
		for _, nth := range []int{1, 2, 7} {
			once := point == boltstore.AtCreated || point == boltstore.AtSetAside || point == boltstore.AtOwner
			if once && nth > 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", point, nth), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				task := childTask{Do: "crash", Dir: filepath.Join(dir, "state"), Ledger: filepath.Join(dir, "ledger"),
					Point: point, Nth: nth, Spoil: point == boltstore.AtSetAside}
				err := startChild(t, task).Wait()
				if err == nil {
					t.Fatalf("the child never came to %q", point)
				}
				afterCrash(t, task)
			})
		}
	}
}

func afterCrash(t *testing.T, task childTask) {
	ctx := context.Background()
	j, err := jobs.Open(task.Dir, jobs.Options{}, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	if b, err := j.Begin(ctx, numbered(1000, 0)); err != nil || b.Hold != jobs.NotHeld {
		t.Fatalf("a new call after the crash: %v, %v", b.Hold, err)
	}
	if err := j.Check(ctx); err != nil {
		t.Errorf("after the crash: %v", err)
	}
	got := readLedger(t, task.Ledger)
	told := make(map[jobs.Handle]bool)
	for _, h := range got["told"] {
		told[h] = true
		if job, err := j.Find(ctx, h); err != nil || job.State != jobs.Completed {
			t.Errorf("told, and the journal says %v, %v", job.State, err)
		}
	}
	for _, h := range got["given"] {
		if job, err := j.Find(ctx, h); err != nil || !job.HandleOut {
			t.Errorf("given out, and the journal says %v, %v", job.HandleOut, err)
		}
	}
	for i, h := range got["sent"] {
		job, err := j.Find(ctx, h)
		if err != nil {
			t.Errorf("sent, and the journal says %v", err)
			continue
		}
		if !told[h] {
			repeatAfterCrash(t, j, i, job)
		}
	}
	recoverAll(t, j)
}

// repeatAfterCrash repeats a call that was sent and never told: it must not be
// sent again.
func repeatAfterCrash(t *testing.T, j *jobs.Journal, n int, job jobs.Job) {
	b, err := j.Begin(context.Background(), numbered(n, n%3*50_000))
	if err != nil || b.Hold == jobs.NotHeld || b.Job.Handle != job.Handle {
		t.Errorf("sent, not told, and its repeat is %v by %s, %v; the job is %v", b.Hold, b.Job.Handle, err, job.State)
	}
	if b.Hold == jobs.Unknown && (b.Job.Effect != jobs.Possible || b.Job.Evidence != jobs.BridgeLost) {
		t.Errorf("the lost job is %v, %v", b.Job.Effect, b.Job.Evidence)
	}
}

// recoverAll claims what the dead process left; afterwards nothing is lost.
func recoverAll(t *testing.T, j *jobs.Journal) {
	ctx := context.Background()
	for _, a := range []jobs.Account{account, spare} {
		lost, err := j.Lost(ctx, a, 100)
		if err != nil {
			t.Error(err)
		}
		for _, job := range lost {
			if got, err := j.Claim(ctx, job.Handle, job.Owner); err != nil || got.State != jobs.OutcomeUnknown {
				t.Errorf("claimed: %v, %v", got.State, err)
			}
		}
		if lost, err = j.Lost(ctx, a, 100); err != nil || len(lost) != 0 {
			t.Errorf("still lost: %d, %v", len(lost), err)
		}
	}
}
