package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
	"github.com/mcpbridge/mcpbridge/jobs/store/memstore"
)

func openAt(t testing.TB, dir string, opts jobs.Options, file boltstore.Options) *jobs.Journal {
	t.Helper()
	j, err := jobs.Open(dir, opts, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return j
}

func mustBegin(t testing.TB, j *jobs.Journal, c jobs.Call) jobs.Job {
	t.Helper()
	b, err := j.Begin(context.Background(), c)
	if err != nil || b.Hold != jobs.NotHeld {
		t.Fatalf("begin: %v, %v", b.Hold, err)
	}
	return b.Job
}

// TestOwnersWriteTheirJobsAnew damages a journal under two living processes.
// Their open jobs survive in memory and come back; what was settled does not,
// and the error for its handle says since when.
func TestOwnersWriteTheirJobsAnew(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	var reported []boltstore.Damage
	a := openAt(t, dir, jobs.Options{}, boltstore.Options{SetAside: func(d boltstore.Damage) { reported = append(reported, d) }})
	b := openAt(t, dir, jobs.Options{}, boltstore.Options{})
	open := mustBegin(t, a, numbered(1, 10))
	large := mustBegin(t, a, numbered(2, 100_000))
	theirs := mustBegin(t, b, numbered(3, 10))
	settled := mustBegin(t, a, numbered(4, 10))
	if _, err := a.Finish(ctx, settled.Handle, completed(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "jobs.db"), []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}

	if _, err := a.Finish(ctx, open.Handle, completed(`"late"`)); err != nil {
		t.Errorf("the end of a job whose journal was damaged: %v", err)
	}
	if len(reported) != 1 {
		t.Errorf("reported: %+v", reported)
	}
	if _, err := b.GiveHandle(ctx, theirs.Handle); err != nil {
		t.Errorf("another process's job: %v", err)
	}
	for _, h := range []jobs.Handle{large.Handle, theirs.Handle} {
		if _, err := a.Arguments(ctx, h); err != nil {
			t.Errorf("arguments of %s: %v", h, err)
		}
	}
	_, err := a.Find(ctx, settled.Handle)
	var gone *jobs.NotFoundError
	if !errors.As(err, &gone) || gone.SetAside.IsZero() || !strings.Contains(err.Error(), "set aside") {
		t.Errorf("a job that went with the damaged journal: %v", err)
	}
	begun, err := a.Begin(ctx, numbered(5, 10))
	if err != nil || begun.SetAside.IsZero() {
		t.Errorf("a call on the day after: set aside %v, %v", begun.SetAside, err)
	}
	if err := a.Check(ctx); err != nil {
		t.Error(err)
	}
}

// TestDamagedRecord damages a value in a file that is sound otherwise.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	j := openAt(t, dir, jobs.Options{}, boltstore.Options{})
	job := mustBegin(t, j, numbered(1, 10))
	path := filepath.Join(dir, "jobs.db")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.ReplaceAll(b, []byte(`{"handle":"`+string(job.Handle)), []byte(`{"handle":@`+string(job.Handle)))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := j.Find(ctx, job.Handle); !errors.Is(err, jobs.ErrNotFound) && err != nil {
		t.Errorf("find in a damaged journal: %v, %v", got.State, err)
	}
	if _, err := j.Finish(ctx, job.Handle, completed(`{}`)); err != nil {
		t.Errorf("finish: %v", err)
	}
	if left, _ := filepath.Glob(path + ".damaged-*"); len(left) != 1 {
		t.Errorf("set aside: %v", left)
	}
}

// TestUncertainBeginLeavesNoJob cancels a begin inside its turn. The caller does
// not send, so no record of it may hold back or frighten anybody.
func TestUncertainBeginLeavesNoJob(t *testing.T) {
	t.Parallel()
	reached, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	armed := false
	j := openAt(t, t.TempDir(), jobs.Options{}, boltstore.Options{At: func(p boltstore.Point) error {
		if p == boltstore.AtApplied && armed {
			once.Do(func() { close(reached); <-goOn })
		}
		return nil
	}})
	mustBegin(t, j, numbered(0, 10))
	armed = true
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := j.Begin(ctx, numbered(1, 10))
		failed <- err
	}()
	<-reached
	cancel()
	if err := <-failed; !errors.Is(err, store.ErrUncertain) {
		t.Fatalf("begin: %v", err)
	}
	close(goOn)
	if err := j.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	list, err := j.List(context.Background(), jobs.Filter{})
	if err != nil || len(list) != 1 {
		t.Errorf("%d jobs, %v; the one that was not begun stays", len(list), err)
	}
}

// TestEndThatCouldNotBeJournaled: the host is told all the same, and the end is
// written when that is possible again.
func TestEndThatCouldNotBeJournaled(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var failing error
	j := openAt(t, t.TempDir(), jobs.Options{}, boltstore.Options{At: func(p boltstore.Point) error {
		if p == boltstore.AtApplied {
			return failing
		}
		return nil
	}})
	job := mustBegin(t, j, numbered(0, 10))
	failing = syscall.EIO
	var unavailable *store.UnavailableError
	if _, err := j.Finish(ctx, job.Handle, completed(`"kept in memory"`)); !errors.As(err, &unavailable) {
		t.Fatalf("finish: %v", err)
	}
	if got, err := j.Find(ctx, job.Handle); err != nil || got.State != jobs.Working {
		t.Errorf("meanwhile: %v, %v", got.State, err)
	}
	failing = nil
	if err := j.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if got, _, err := j.Result(ctx, job.Handle); err != nil || string(got) != `"kept in memory"` {
		t.Errorf("then: %s, %v", got, err)
	}
}

// TestNothingSecretInTheFile looks for keys and sessions in every byte of the
// state directory, and for content after it was wiped.
func TestNothingSecretInTheFile(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	clock := time.Now()
	j := openAt(t, dir, jobs.Options{Now: func() time.Time { return clock }}, boltstore.Options{})
	c := numbered(1, 10)
	c.Key, c.Arguments = "key-in-clear", []byte(`{"a":"arguments-in-clear"}`)
	job := mustBegin(t, j, c)
	if _, err := j.SetResumption(ctx, job.Handle, jobs.Resumption{Session: "session-in-clear", EventID: "event-in-clear"}); err != nil {
		t.Fatal(err)
	}
	j.Note(job.Handle, jobs.Note{EventID: "later-in-clear"})
	if err := j.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	holds := func(word string) bool {
		found := false
		err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				b, readErr := os.ReadFile(path)
				found = found || bytes.Contains(b, []byte(word))
				return readErr
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for _, word := range []string{"key-in-clear", "session-in-clear", "event-in-clear", "later-in-clear"} {
		if holds(word) {
			t.Errorf("%q is on the disk", word)
		}
	}
	if !holds("arguments-in-clear") {
		t.Error("the arguments of an open job are not kept")
	}
	if _, err := j.Finish(ctx, job.Handle, completed(`"result-in-clear"`)); err != nil {
		t.Fatal(err)
	}
	j.Note(job.Handle, jobs.Note{Told: true})
	for range 3 { // a keyed result stays for a day, free pages for another
		clock = clock.Add(23 * time.Hour)
		if _, err := j.Prune(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, word := range []string{"arguments-in-clear", "result-in-clear"} {
		if holds(word) {
			t.Errorf("%q is on the disk after it was wiped", word)
		}
	}
}

// TestPruneInSlices expires more jobs than one change may remove.
func TestPruneInSlices(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var mu sync.Mutex
	clock := time.Now()
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return clock
	}
	s, err := memstore.New(jobs.Schema())
	if err != nil {
		t.Fatal(err)
	}
	j := jobs.New(s, jobs.Options{Now: now})
	const n = 1201
	for i := range n {
		job := mustBegin(t, j, numbered(i, 0))
		if _, err := j.Finish(ctx, job.Handle, completed(`{}`)); err != nil {
			t.Fatal(err)
		}
		j.Note(job.Handle, jobs.Note{Told: true})
	}
	for range 32 {
		mu.Lock()
		clock = clock.Add(23 * time.Hour)
		mu.Unlock()
		j.Note(jobs.NewHandle(), jobs.Note{Event: "a day"})
		if err := j.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := s.Stamp()
	p, err := j.Prune(ctx)
	if err != nil || p.Removed != n {
		t.Fatalf("pruned %+v, %v", p, err)
	}
	after, _ := s.Stamp()
	if before == after {
		t.Error("nothing changed")
	}
	if list, err := j.List(ctx, jobs.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("%d jobs stay, %v", len(list), err)
	}
	if err := j.Check(ctx); err != nil {
		t.Error(err)
	}
}

// TestNotesAreWrittenInTime: what finds no change to ride with is written after
// five seconds; that nobody waits, at once.
func TestNotesAreWrittenInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s, err := memstore.New(jobs.Schema())
		if err != nil {
			t.Fatal(err)
		}
		j := jobs.New(s, jobs.Options{})
		job := mustBegin(t, j, numbered(1, 0))
		deliveries := func() int {
			got, err := j.Find(ctx, job.Handle)
			if err != nil {
				t.Fatal(err)
			}
			return got.Deliveries
		}
		passed := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		j.Note(job.Handle, jobs.Note{Deliveries: 1})
		if passed(4900 * time.Millisecond); deliveries() != 0 {
			t.Error("a note was written early")
		}
		if passed(200 * time.Millisecond); deliveries() != 1 {
			t.Error("a note was not written in time")
		}
		j.Note(job.Handle, jobs.Note{Deliveries: 2})
		j.Note(job.Handle, jobs.Note{NobodyWait: "host gone"})
		if passed(time.Millisecond); deliveries() != 2 {
			t.Error("that nobody waits was not written at once")
		}
		j.Note(job.Handle, jobs.Note{Deliveries: 3})
		if err := j.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if deliveries() != 3 {
			t.Error("a note was lost when the journal was closed")
		}
	})
}

func TestNewerJournalIsRefused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	newer := jobs.Schema()
	newer.Migrations = append(newer.Migrations, func(store.Tx) error { return nil })
	future, err := boltstore.Open(dir, boltstore.Options{Schema: newer})
	if err != nil {
		t.Fatal(err)
	}
	if err := future.Update(ctx, func(store.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := future.Close(false); err != nil {
		t.Fatal(err)
	}
	j := openAt(t, dir, jobs.Options{}, boltstore.Options{})
	_, err = j.Begin(ctx, numbered(1, 0))
	var u *store.UnavailableError
	if !errors.As(err, &u) || u.Reason != store.Newer || !strings.Contains(fmt.Sprint(err), "newer mcpbridge") {
		t.Errorf("begin in a newer journal: %v", err)
	}
}
