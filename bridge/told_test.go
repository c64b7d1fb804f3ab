package bridge

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/stdio"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// A toldJournal keeps which ends were taken as told.
type toldJournal struct {
	Journal
	mu   sync.Mutex
	told []jobs.Handle
}

func (j *toldJournal) Note(h jobs.Handle, n jobs.Note) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n.Told {
		j.told = append(j.told, h)
	}
}

// Each answer counts as told a second after it was written, or at the next line
// of the host.
func TestToldByTime(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	synctest.Test(t, func(t *testing.T) {
		b := &Bridge{}
		b.host = &host{bridge: b, out: stdio.NewWriter(f, stdio.WriterOptions{})}
		j := &toldJournal{}
		k := &keeper{bridge: b, journal: j}
		after := func(d time.Duration, want ...jobs.Handle) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			j.mu.Lock()
			defer j.mu.Unlock()
			if !slices.Equal(j.told, want) {
				t.Errorf("told: %v, want %v", j.told, want)
			}
		}
		k.written(untold{handle: "a"})
		after(990 * time.Millisecond)
		k.written(untold{handle: "b"})
		after(20*time.Millisecond, "a")
		after(970*time.Millisecond, "a")
		after(20*time.Millisecond, "a", "b")

		k.written(untold{handle: "c"})
		k.hostLives()
		after(500*time.Millisecond, "a", "b", "c")
		k.written(untold{handle: "d"})
		after(990*time.Millisecond, "a", "b", "c")
		after(20*time.Millisecond, "a", "b", "c", "d")
	})
}
