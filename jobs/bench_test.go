package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

func benchJournal(b *testing.B) *jobs.Journal {
	b.Helper()
	j, err := jobs.Open(b.TempDir(), jobs.Options{}, boltstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = j.Close(context.Background()) })
	return j
}

// BenchmarkTurn is one synced change of one job.
func BenchmarkTurn(b *testing.B) {
	j := benchJournal(b)
	ctx := context.Background()
	begun, err := j.Begin(ctx, numbered(0, 100))
	if err != nil {
		b.Fatal(err)
	}
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		at := time.Now()
		if _, err := j.SetTask(ctx, begun.Job.Handle, "t"); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
}

// BenchmarkFind is one look at one job.
func BenchmarkFind(b *testing.B) {
	j := benchJournal(b)
	ctx := context.Background()
	begun, err := j.Begin(ctx, numbered(0, 100))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := j.Find(ctx, begun.Job.Handle); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall is an ordinary journaled call: begin, finish, told.
func BenchmarkCall(b *testing.B) {
	for _, inFlight := range []int{1, 16, 64} {
		b.Run(strconv.Itoa(inFlight), func(b *testing.B) {
			j := benchJournal(b)
			var next atomic.Int64
			done := make(chan error)
			b.ResetTimer()
			for range inFlight {
				go func() { done <- callsUntil(j, &next, int64(b.N)) }()
			}
			for range inFlight {
				if err := <-done; err != nil {
					b.Error(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

func callsUntil(j *jobs.Journal, next *atomic.Int64, n int64) error {
	ctx := context.Background()
	for i := next.Add(1); i <= n; i = next.Add(1) {
		begun, err := j.Begin(ctx, numbered(int(i), 100))
		if err != nil {
			return err
		}
		if begun.Hold != jobs.NotHeld {
			return fmt.Errorf("call %d was held: %v", i, begun.Hold)
		}
		if _, err := j.Finish(ctx, begun.Job.Handle, completed(`{"content":[{"type":"text","text":"done"}]}`)); err != nil {
			return err
		}
		j.Note(begun.Job.Handle, jobs.Note{Told: true})
	}
	return nil
}

// BenchmarkFloor is the least a turn can be: one small value, put by nobody in
// particular. What the others cost beyond it is ours.
func BenchmarkFloor(b *testing.B) {
	s, err := boltstore.Open(b.TempDir(), boltstore.Options{Schema: jobs.Schema()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close(false) })
	ctx := context.Background()
	for b.Loop() {
		err := s.Update(ctx, func(tx store.Tx) error { return tx.Put("marks", []byte("x"), []byte("y")) })
		if err != nil {
			b.Fatal(err)
		}
	}
}
