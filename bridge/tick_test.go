package bridge

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/stdio"
)

// A call that is open has progress every 15 s, of values that grow; one that was
// answered has none, but for a task of 2025-11-25, which is named in it.
func TestTicks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*exchange)
		ticks  int
		has    string
	}{
		"open":     {func(*exchange) {}, 3, `"progressToken":"p","progress":0.00`},
		"answered": {func(x *exchange) { x.closed = true }, 0, ""},
		"a task":   {func(x *exchange) { x.closed, x.tasked, x.job.handle = true, true, "job_x" }, 3, `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"job_x"}}`},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		out := stdio.NewWriter(f, stdio.WriterOptions{})
		synctest.Test(t, func(*testing.T) {
			x := &exchange{host: &host{out: out}, hostToken: []byte(`"p"`)}
			c.change(x)
			stop := x.tick()
			<-time.After(3*tickEvery + time.Second)
			stop()
			<-time.After(2 * tickEvery)
		})
		ctx, cancel := context.WithTimeout(t.Context(), boundsLimit)
		defer cancel()
		go out.Run(ctx)
		out.Flush(ctx)
		written, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(written), "\n"); n != c.ticks {
			t.Errorf("%s: %d ticks, want %d: %s", name, n, c.ticks, written)
		}
		if n := strings.Count(string(written), c.has); c.ticks > 0 && n != c.ticks {
			t.Errorf("%s: %s is in %d of %d: %s", name, c.has, n, c.ticks, written)
		}
	}
}
