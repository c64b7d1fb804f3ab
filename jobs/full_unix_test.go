//go:build unix

package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

// fullDiskChild limits the size of its files, which fails writes as a full disk
// does, and checks that nothing false is said meanwhile.
func fullDiskChild(task childTask) {
	ctx := context.Background()
	signal.Ignore(syscall.SIGXFSZ)
	j, err := jobs.Open(task.Dir, jobs.Options{}, boltstore.Options{})
	check(err)
	first, err := j.Begin(ctx, numbered(0, 0))
	check(err)
	var room syscall.Rlimit
	check(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &room))
	tight := room
	tight.Cur = 1 << 16
	check(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &tight))
	var refused error
	for n := 1; n < 100 && refused == nil; n++ {
		_, refused = j.Begin(ctx, numbered(n, 8000))
	}
	var full *store.UnavailableError
	if !errors.As(refused, &full) || full.Reason != store.Full {
		fail(fmt.Errorf("on a full disk: %v", refused))
	}
	end := completed(`"` + strings.Repeat("z", 60<<10) + `"`)
	if _, err := j.Finish(ctx, first.Job.Handle, end); err == nil {
		fail(errors.New("an end was journaled on a full disk"))
	}
	check(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &room))
	check(j.Flush(ctx)) // the end was kept and is tried again
	job, err := j.Find(ctx, first.Job.Handle)
	check(err)
	if job.State != jobs.Completed {
		fail(fmt.Errorf("with room again the job is %v", job.State))
	}
	check(j.Check(ctx))
	check(j.Close(ctx))
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	if err := startChild(t, childTask{Do: "full", Dir: filepath.Join(t.TempDir(), "state")}).Wait(); err != nil {
		t.Fatal(err)
	}
}
