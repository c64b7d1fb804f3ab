package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const table store.Table = "things"

func schema(version int) store.Schema {
	s := store.Schema{Tables: []store.Table{table}}
	for n := range version {
		s.Migrations = append(s.Migrations, func(tx store.Tx) error {
			return tx.Put(table, fmt.Appendf(nil, "migrated %d", n), []byte("yes"))
		})
	}
	return s
}

func open(t testing.TB, dir string, change ...func(*Options)) *Store {
	t.Helper()
	opts := Options{Schema: schema(1)}
	for _, f := range change {
		f(&opts)
	}
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(false); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(s *Store, key, value string) error {
	return s.Update(context.Background(), func(tx store.Tx) error { return tx.Put(table, []byte(key), []byte(value)) })
}

func mustPut(t testing.TB, s *Store, key, value string) {
	t.Helper()
	if err := put(s, key, value); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, s *Store, key string) string {
	t.Helper()
	got := ""
	err := s.View(context.Background(), func(tx store.Tx) error {
		got = string(tx.Get(table, []byte(key)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func reasonFor(t testing.TB, err error, want store.Reason) *store.UnavailableError {
	t.Helper()
	var u *store.UnavailableError
	if !errors.As(err, &u) || u.Reason != want {
		t.Fatalf("got %v, want reason %q", err, want)
	}
	return u
}

func TestNothingIsTouchedBeforeAChange(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir)
	if got := get(t, s, "a"); got != "" {
		t.Errorf("read %q from nothing", got)
	}
	if stamp, err := s.Stamp(); err != nil || stamp != "none" {
		t.Errorf("stamp %q, %v", stamp, err)
	}
	if _, err := s.Tidy(context.Background(), true, nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the state directory was made: %v", err)
	}
}

func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	if !permissionsMatter {
		t.Skip("modes mean nothing on this system")
	}
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o755); err != nil { // made earlier, by something careless
		t.Fatal(err)
	}
	s := open(t, dir)
	mustPut(t, s, "a", "b")
	ctx := context.Background()
	if _, err := s.Owner(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Secret(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Stage(ctx, "x", []byte("body")); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		n++
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || n < 8 {
		t.Errorf("%d files, %v", n, err)
	}
	if tag, err := os.ReadFile(filepath.Join(dir, "CACHEDIR.TAG")); err != nil || !bytes.HasPrefix(tag, []byte("Signature: 8a477f597d28d172789f06886806bc55")) {
		t.Errorf("CACHEDIR.TAG: %q, %v", tag, err)
	}
}

// TestOneFailureSparesTheRestOfTheTurn: nothing of a change that fails is kept, nor
// in the memo what it put there.
func TestOneFailureSparesTheRestOfTheTurn(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	mustPut(t, s, "a", "1")
	hold, err := (&turnLock{path: s.path(lockName)}).acquire(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	mine := errors.New("mine")
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			err := s.Update(context.Background(), func(tx store.Tx) error {
				key := fmt.Appendf(nil, "k%d", n)
				put, _ := (*tx.Memo()).([]string)
				for _, earlier := range put {
					if tx.Get(table, []byte(earlier)) == nil {
						t.Errorf("in change %d the memo has %s, which is not put", n, earlier)
					}
				}
				*tx.Memo() = append(put, string(key))
				if err := tx.Put(table, key, []byte("v")); err != nil {
					return err
				}
				if n%5 == 0 {
					return mine
				}
				return nil
			})
			if got := errors.Is(err, mine); got != (n%5 == 0) {
				t.Errorf("change %d: %v", n, err)
			}
		})
	}
	hold()
	wg.Wait()
	for n := range 20 {
		if got := get(t, s, fmt.Sprintf("k%d", n)); (got == "v") == (n%5 == 0) {
			t.Errorf("k%d is %q", n, got)
		}
	}
}

func TestAPanicOfOursIsNoDamage(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	mustPut(t, s, "a", "1")
	err := s.Update(context.Background(), func(store.Tx) error {
		panic("a mistake")
	})
	reasonFor(t, err, store.Broken)
	if got := get(t, s, "a"); got != "1" {
		t.Errorf("afterwards a is %q", got)
	}
	mustPut(t, s, "b", "2")
}

func TestStuckHolder(t *testing.T) {
	t.Parallel()
	const limit = 50 * time.Millisecond
	s := open(t, t.TempDir(), func(o *Options) { o.LockLimit = limit })
	mustPut(t, s, "a", "1")
	holder := flock.New(s.path(lockName))
	if err := holder.Lock(); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the helper of the first waits on for the next
		at := time.Now()
		u := reasonFor(t, put(s, "b", "2"), store.Locked)
		if u.Holder != os.Getpid() {
			t.Errorf("holder is %d, want %d", u.Holder, os.Getpid())
		}
		if !strings.Contains(u.Error(), fmt.Sprint(os.Getpid())) {
			t.Errorf("the error names no process: %v", u)
		}
		if waited := time.Since(at); waited < limit/2 {
			t.Errorf("gave up after %v", waited)
		}
	}
	reasonFor(t, s.View(context.Background(), func(store.Tx) error { return nil }), store.Locked)
	if err := holder.Unlock(); err != nil {
		t.Fatal(err)
	}
	// What the helpers got too late, they give back: others can lock at once.
	other := open(t, s.Dir())
	mustPut(t, other, "c", "3")
	mustPut(t, s, "d", "4")
}

// A change that is synced is answered, however long the file takes to close.
func TestAnsweredWhenSynced(t *testing.T) {
	t.Parallel()
	answered := make(chan struct{})
	s := open(t, t.TempDir(), func(o *Options) {
		o.At = func(p Point) error {
			if p == AtClosed {
				<-answered
			}
			return nil
		}
	})
	defer close(answered)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := s.Update(ctx, func(tx store.Tx) error { return tx.Put(table, []byte("a"), []byte("1")) })
	if err != nil {
		t.Error(err)
	}
}

func TestCancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	mustPut(t, s, "a", "1")
	release, err := (&turnLock{path: s.path(lockName)}).acquire(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error)
	go func() {
		got <- s.Update(ctx, func(tx store.Tx) error { return tx.Put(table, []byte("b"), []byte("2")) })
	}()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUncertain) {
		t.Errorf("cancelled in the queue: %v", err)
	}
	release()
	mustPut(t, s, "c", "3")
	if b := get(t, s, "b"); b != "" {
		t.Errorf("a change that was withdrawn was made: %q", b)
	}
}

func TestCancelledInsideATurnIsUncertain(t *testing.T) {
	t.Parallel()
	reached, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := open(t, t.TempDir(), func(o *Options) {
		o.At = func(p Point) error {
			if p == AtApplied {
				once.Do(func() { close(reached); <-goOn })
			}
			return nil
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error)
	go func() {
		got <- s.Update(ctx, func(tx store.Tx) error { return tx.Put(table, []byte("b"), []byte("2")) })
	}()
	<-reached
	cancel()
	if err := <-got; !errors.Is(err, store.ErrUncertain) {
		t.Errorf("cancelled in a turn: %v", err)
	}
	close(goOn)
}

func TestSystemErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want store.Reason
	}{
		{syscall.ENOSPC, store.Full},
		{&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, store.Full},
		{fmt.Errorf("file resize error: %s", syscall.ENOSPC), store.Full},
		{syscall.EROFS, store.ReadOnly},
		{os.ErrPermission, store.ReadOnly},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, store.ReadOnly},
		{syscall.EIO, store.Broken},
	} {
		if runtime.GOOS == "windows" {
			t.Skip("other numbers on Windows")
		}
		var failing error
		s := open(t, t.TempDir(), func(o *Options) {
			o.At = func(p Point) error {
				if p == AtApplied {
					return failing
				}
				return nil
			}
		})
		mustPut(t, s, "a", "1")
		failing = c.err
		reasonFor(t, put(s, "a", "2"), c.want)
		failing = nil
		if got := get(t, s, "a"); got != "1" {
			t.Errorf("%v: a is %q", c.err, got)
		}
		mustPut(t, s, "a", "3")
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	if !permissionsMatter || os.Getuid() == 0 {
		t.Skip("this user may write anywhere")
	}
	dir := t.TempDir()
	s := open(t, dir)
	mustPut(t, s, "a", "1")
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	if err := os.Remove(s.path(fileName)); err == nil {
		t.Fatal("the directory is writable")
	}
	reasonFor(t, s.Stage(context.Background(), "x", nil), store.ReadOnly)
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := open(t, dir)
	mustPut(t, old, "a", "1")
	now := open(t, dir, func(o *Options) { o.Schema = schema(3) })
	if got := get(t, now, "migrated 2"); got != "yes" { // a reader migrates too
		t.Errorf("migration 2: %q", got)
	}
	if got := get(t, now, "a"); got != "1" {
		t.Errorf("a is %q after the migration", got)
	}
	reasonFor(t, put(old, "a", "2"), store.Newer)
	reasonFor(t, old.View(context.Background(), func(store.Tx) error { return nil }), store.Newer)
	if got := get(t, now, "a"); got != "1" {
		t.Errorf("an older version wrote to a newer journal: a is %q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*damaged*")); left != nil {
		t.Errorf("a newer journal was set aside: %v", left)
	}
}

func TestNewerBoltFormatIsNotSetAside(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	mustPut(t, s, "a", "1")
	rewriteMeta(t, s.path(fileName), func(meta []byte) { meta[4]++ })
	reasonFor(t, put(s, "a", "2"), store.Newer)
}

func TestOwners(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	mustPut(t, a, "x", "1")
	name, err := a.Owner(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := a.Owner(ctx); again != name {
		t.Errorf("owner changed from %s to %s", name, again)
	}
	var wg sync.WaitGroup
	for range 32 { // looking at the same time fools nobody
		wg.Go(func() {
			if a.Lost(name) || b.Lost(name) {
				t.Error("a living owner is lost")
			}
		})
	}
	wg.Wait()
	keep := func(store.Tx, string) bool { return true }
	drop := func(store.Tx, string) bool { return false }
	if _, err := b.Tidy(ctx, false, drop); err != nil || b.Lost(name) {
		t.Errorf("a living owner's file was swept: %v", err)
	}
	if err := a.Close(true); err != nil {
		t.Fatal(err)
	}
	if !b.Lost(name) || !b.Lost("never was") || !b.Lost("../jobs.lock") {
		t.Error("an owner that is gone is not lost")
	}
	file := filepath.Join(dir, ownersDir, name)
	if _, err := b.Tidy(ctx, false, keep); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the file of an owner that a job names is gone: %v", err)
	}
	if _, err := b.Tidy(ctx, false, drop); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a dead owner's file stays: %v", err)
	}
	first, _ := b.Owner(ctx)
	if err := os.Remove(filepath.Join(dir, ownersDir, first)); err != nil {
		t.Fatal(err)
	}
	if second, err := b.Owner(ctx); err != nil || second == first || b.Lost(second) {
		t.Errorf("after its file was removed the owner is %s, %v", second, err)
	}
}

// TestOwnersFileIsLookedAt: a look at it is good for a moment only if it was there.
func TestOwnersFileIsLookedAt(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var trouble error
	s := open(t, t.TempDir(), func(o *Options) {
		o.At = func(p Point) error {
			if p == AtOwner {
				return trouble
			}
			return nil
		}
	})
	first, err := s.Owner(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Owner(ctx); err != nil || again != first || time.Since(s.owner.looked) > time.Minute {
		t.Errorf("owner %s, looked at %v, %v", again, s.owner.looked, err)
	}
	if err := os.Remove(s.path(ownersDir, first)); err != nil {
		t.Fatal(err)
	}
	s.owner.looked = s.owner.looked.Add(-lookGood)
	trouble = errors.New("no descriptors left")
	for n := range 3 {
		if name, err := s.Owner(ctx); !errors.Is(err, trouble) {
			t.Errorf("at %d the owner is %s, %v", n, name, err)
		}
	}
	trouble = nil
	if second, err := s.Owner(ctx); err != nil || second == first || s.Lost(second) {
		t.Errorf("after that the owner is %s, %v", second, err)
	}
}

func TestSecretIsOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys := make(chan string, 8)
	for range cap(keys) {
		s := open(t, dir)
		go func() {
			k, err := s.Secret(context.Background())
			if err != nil {
				t.Error(err)
			}
			keys <- string(k)
		}()
	}
	first := <-keys
	for range cap(keys) - 1 {
		if k := <-keys; k != first || len(k) != 32 {
			t.Error("two keys for one state directory")
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, t.TempDir())
	mustPut(t, s, "a", "1")
	for _, name := range []string{"kept", "dropped"} {
		if err := s.Stage(ctx, name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := s.Fetch(ctx, "kept"); err != nil || string(b) != "kept" {
		t.Errorf("fetched %q, %v", b, err)
	}
	if _, err := s.Fetch(ctx, "none"); !errors.Is(err, store.ErrNoBody) {
		t.Errorf("fetched nothing: %v", err)
	}
	named := func(_ store.Tx, name string) bool { return name == "kept" }
	if _, err := s.Tidy(ctx, false, named); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fetch(ctx, "dropped"); err != nil {
		t.Errorf("a young body was swept: %v", err)
	}
	old := time.Now().Add(-2 * bodyGrace)
	for _, name := range []string{"kept", "dropped"} {
		if err := os.Chtimes(s.path(bodiesDir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Tidy(ctx, false, named); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fetch(ctx, "dropped"); !errors.Is(err, store.ErrNoBody) {
		t.Errorf("an old body that nothing names stays: %v", err)
	}
	if _, err := s.Fetch(ctx, "kept"); err != nil {
		t.Errorf("a named body was swept: %v", err)
	}
}

func TestWipedContentLeavesTheFile(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	secret := strings.Repeat("very-secret-", 100)
	mustPut(t, s, "a", secret)
	err := s.Update(context.Background(), func(tx store.Tx) error { return tx.Delete(table, []byte("a")) })
	if err != nil {
		t.Fatal(err)
	}
	rewritten, err := s.Tidy(context.Background(), true, func(store.Tx, string) bool { return true })
	if err != nil || !rewritten {
		t.Fatalf("compacted: %v, %v", rewritten, err)
	}
	content, err := os.ReadFile(s.path(fileName))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte("very-secret-")) {
		t.Error("wiped content is still in the file")
	}
	mustPut(t, s, "b", "2")
}

func TestCompactionWhenHalfIsFree(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, t.TempDir())
	const n = 400
	err := s.Update(ctx, func(tx store.Tx) error {
		for i := range n {
			if err := tx.Put(table, fmt.Appendf(nil, "k%d", i), make([]byte, 60<<10)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	keep := func(store.Tx, string) bool { return true }
	if rewritten, err := s.Tidy(ctx, false, keep); err != nil || rewritten {
		t.Fatalf("a full file was compacted: %v, %v", rewritten, err)
	}
	err = s.Update(ctx, func(tx store.Tx) error {
		for i := range n - 10 {
			if err := tx.Delete(table, fmt.Appendf(nil, "k%d", i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if rewritten, err := s.Tidy(ctx, false, keep); err != nil || !rewritten {
		t.Fatalf("compacted: %v, %v", rewritten, err)
	}
	if info, err := os.Stat(s.path(fileName)); err != nil || info.Size() > 2<<20 {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	if got := get(t, s, fmt.Sprintf("k%d", n-1)); len(got) != 60<<10 {
		t.Errorf("what stays has %d bytes", len(got))
	}
}

func TestStampSeesEveryCommit(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	seen := make(map[store.Stamp]bool)
	for n := range 50 {
		mustPut(t, s, "a", fmt.Sprint(n))
		stamp, err := s.Stamp()
		if err != nil || seen[stamp] {
			t.Fatalf("stamp %q after change %d was there before, %v", stamp, n, err)
		}
		seen[stamp] = true
	}
}

func TestScansInOrder(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), func(o *Options) { o.Schema.Migrations = []func(store.Tx) error{func(store.Tx) error { return nil }} })
	keys := []string{"a", "b\x00", "b\xff", "b\xff\xff", "c", "\xff", "\xff\xff"}
	for _, k := range keys {
		mustPut(t, s, k, "v")
	}
	for prefix, want := range map[string][]string{
		"": keys, "b": keys[1:4], "b\xff": keys[2:4], "\xff": keys[5:], "\xff\xff": keys[6:], "d": nil, "0": nil,
	} {
		err := s.View(context.Background(), func(tx store.Tx) error {
			var up, down []string
			for k := range tx.Scan(table, []byte(prefix)) {
				up = append(up, string(k))
			}
			for k := range tx.ScanBack(table, []byte(prefix)) {
				down = append([]string{string(k)}, down...)
			}
			if fmt.Sprint(up) != fmt.Sprint(want) || fmt.Sprint(down) != fmt.Sprint(want) {
				t.Errorf("prefix %q: up %q, down %q, want %q", prefix, up, down, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestForeignHolderOfTheFile(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	mustPut(t, s, "a", "1")
	db, err := bolt.Open(s.path(fileName), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := reasonFor(t, put(s, "a", "2"), store.Broken)
	if !strings.Contains(u.Error(), "does not take turns") {
		t.Errorf("error: %v", u)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "a", "3")
}

func TestLockFileRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	mustPut(t, s, "a", "1")
	if err := os.Remove(s.path(lockName)); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "a", "2")
	if err := os.RemoveAll(s.Dir()); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "a", "3")
}

// TestLockFileRemovedUnderAStuckHolder: a holder that never ends can be got rid of
// by removing the file that it holds, also while others wait for it.
func TestLockFileRemovedUnderAStuckHolder(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), func(o *Options) { o.LockLimit = 50 * time.Millisecond })
	mustPut(t, s, "a", "1")
	if got := get(t, s, "a"); got != "1" {
		t.Fatalf("a is %q", got)
	}
	look := func() error { return s.View(context.Background(), func(store.Tx) error { return nil }) }
	for _, waited := range []bool{false, true} {
		holder := flock.New(s.path(lockName))
		if err := holder.Lock(); err != nil {
			t.Fatal(err)
		}
		if waited {
			reasonFor(t, put(s, "b", "2"), store.Locked)
			reasonFor(t, look(), store.Locked)
		}
		if err := os.Remove(s.path(lockName)); err != nil {
			t.Skipf("a file that is open cannot be removed here: %v", err)
		}
		mustPut(t, s, "b", "2")
		if err := look(); err != nil {
			t.Error(err)
		}
		if err := holder.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	mustPut(t, s, "c", "3")
}

func TestNetworkFileSystems(t *testing.T) {
	t.Parallel()
	if err := refuseNetwork(filepath.Join(t.TempDir(), "not", "there")); err != nil {
		t.Skipf("the temporary directory itself is remote: %v", err)
	}
	err := &NetworkError{Dir: "/home/me/state", FileSystem: "nfs"}
	for _, word := range []string{"--state-dir", "--allow-network-state", "nfs", "/home/me/state"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q: %v", word, err)
		}
	}
}
