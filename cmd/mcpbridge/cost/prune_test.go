package cost

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
)

// BenchmarkTurnAfterPrune compares a turn at a journal of 100,000 jobs with 1 GiB
// of results with one at the same journal after all of that was pruned. Results
// above 64 KiB lie beside the file, others in it.
func BenchmarkTurnAfterPrune(b *testing.B) {
	for _, c := range []struct {
		name      string
		few, size int // jobs with results of that size; the others have small ones
		many      int
	}{
		{"beside the file", 8192, 128 << 10, 100_000 - 8192},
		{"in the file", 100_000, 10 << 10, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := fill(b, c.few, c.size)
			f.more(c.many, 100)
			before := f.size()
			least := newTurner(b, 1)
			var turns, leasts []time.Duration
			for range 300 {
				turns, leasts = append(turns, took(f.turn)), append(leasts, took(least.turn))
			}
			was := float64(p50(turns)) / float64(p50(leasts))
			f.later(jobs.RecordLife + 48*time.Hour)
			at := time.Now()
			p, err := f.Prune(context.Background())
			if err != nil || p.Removed != c.few+c.many {
				b.Fatalf("pruned %+v, %v", p, err)
			}
			pruned := time.Since(at)
			turns, leasts = nil, nil
			for b.Loop() {
				turns, leasts = append(turns, took(f.turn)), append(leasts, took(least.turn))
			}
			b.ReportMetric(float64(before)/(1<<20), "MiB-before")
			b.ReportMetric(float64(f.size())/(1<<20), "MiB-after")
			b.ReportMetric(pruned.Seconds(), "s-prune")
			b.ReportMetric(was, "turns-before")
			b.ReportMetric(float64(p50(turns))/float64(p50(leasts)), "turns-after")
			b.ReportMetric(float64(p50(turns))/float64(p50(leasts))/was, "x")
		})
	}
}

// size is how many bytes the journal takes, bodies included.
func (f *filled) size() (total int64) {
	_ = filepath.WalkDir(f.dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}
