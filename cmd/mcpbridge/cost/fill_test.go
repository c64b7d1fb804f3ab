package cost

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

// A clock is the wall clock of a journal that is filled.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// A filled journal holds jobs that were told, as a host leaves them behind.
type filled struct {
	*jobs.Journal
	tb    testing.TB
	dir   string
	clock *clock
}

// fill makes a journal of n settled jobs, each with a result of so many bytes
// that is kept.
func fill(tb testing.TB, n, size int) *filled {
	tb.Helper()
	f := &filled{tb: tb, dir: tb.TempDir(), clock: &clock{}}
	var err error
	f.Journal, err = jobs.Open(f.dir, jobs.Options{Now: f.clock.now}, boltstore.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close(context.Background()) })
	f.more(n, size)
	return f
}

// more adds jobs.
func (f *filled) more(n, size int) {
	f.tb.Helper()
	result := fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, strings.Repeat("r", size))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 256 {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(n) && !f.tb.Failed(); i = next.Add(1) {
				f.job(int(i), result)
			}
		})
	}
	workers.Wait()
	if f.tb.Failed() {
		f.tb.FailNow()
	}
}

func (f *filled) job(n int, result []byte) {
	ctx := context.Background()
	b, err := f.Begin(ctx, jobs.Call{Account: jobs.Account{Server: "crm", Principal: "anonymous"}, Tool: "write_echo",
		Arguments: fmt.Appendf(nil, `{"text":"hello","of":%d,"with":%d}`, n, len(result)), HandleOut: true})
	if err == nil {
		_, err = f.Finish(ctx, b.Job.Handle, jobs.End{State: jobs.Completed, Effect: jobs.Reported, Evidence: jobs.ToolResult,
			EndedBy: "upstream", Result: result, Kind: jobs.ToolAnswer, Deliveries: 1})
	}
	if err != nil {
		f.tb.Error(err)
		return
	}
	f.ReadEnd(b.Job.Handle)
}

// later lets days pass that nobody doubts.
func (f *filled) later(d time.Duration) {
	f.tb.Helper()
	for step := 12 * time.Hour; d > 0; d -= step {
		f.clock.advance(step)
		f.turn()
	}
}

// turn is an ordinary change: a note about nothing.
func (f *filled) turn() {
	f.tb.Helper()
	f.Note(jobs.NewHandle(), jobs.Note{Event: "time passes"})
	if err := f.Flush(context.Background()); err != nil {
		f.tb.Fatal(err)
	}
}
