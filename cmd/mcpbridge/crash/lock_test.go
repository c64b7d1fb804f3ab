package crash

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/gofrs/flock"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

// prime makes the journal, as a process of another account.
func (w *world) prime() {
	w.t.Helper()
	j, err := jobs.Open(w.dir, jobs.Options{}, boltstore.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = j.Begin(w.ctx, jobs.Call{Account: jobs.Account{Server: "other", Principal: "other"}, Tool: "other"})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := j.Close(w.ctx); err != nil {
		w.t.Fatal(err)
	}
}

// holdJournal takes the lock that every turn at the journal needs.
func (w *world) holdJournal() (release func()) {
	w.t.Helper()
	l := flock.New(filepath.Join(w.dir, "jobs.lock"))
	if err := l.Lock(); err != nil {
		w.t.Fatal(err)
	}
	return func() { _ = l.Unlock() }
}

// awaitTurn waits until a process waits for the lock that holdJournal took. The
// kernel tells on Linux; elsewhere the caller's other conditions must do.
func (w *world) awaitTurn() {
	w.t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	info, err := os.Stat(filepath.Join(w.dir, "jobs.lock"))
	if err != nil {
		w.t.Fatal(err)
	}
	inode := fmt.Sprintf(":%d ", inodeOf(info))
	w.until("a process waits for its turn at the journal", func() bool {
		all, err := os.ReadFile("/proc/locks")
		if err != nil {
			return false
		}
		for line := range bytes.Lines(all) {
			if strings.Contains(string(line), "-> ") && strings.Contains(string(line), inode) {
				return true
			}
		}
		return false
	})
}
