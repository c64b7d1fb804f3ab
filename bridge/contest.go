package bridge

import (
	"context"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
)

// This file is about the moment after a host was killed. Its process may take
// a while to notice, and until then it seems that somebody waits for the call;
// whoever makes the same call meanwhile must not be taken for a second caller.

const (
	// contestLimit is how long a call waits to learn whether another process's
	// host, which made the same call, is still there.
	contestLimit = time.Second
	contestPause = 40 * time.Millisecond
)

// settleContest begins a call. If another process waits for an equal one, it
// gives that process time to say that its host is gone; if that does not come,
// both callers wait, and their calls are two.
func (k *keeper) settleContest(ctx context.Context, c jobs.Call) (jobs.Begun, error) {
	for end := time.Now().Add(contestLimit); ; {
		c.Patient = time.Now().Before(end)
		b, err := k.journal.Begin(ctx, c)
		if err != nil || b.Hold != jobs.Contested {
			return b, err
		}
		if !wait(ctx, contestPause) {
			return jobs.Begun{}, context.Cause(ctx)
		}
	}
}
