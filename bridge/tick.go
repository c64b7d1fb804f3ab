package bridge

import (
	"strconv"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// tickEvery is how often the bridge says by itself that a call is still open.
// Some hosts take any progress as a sign of life.
const tickEvery = 15 * time.Second

// tick sends a fraction of progress every 15 s to a host that gave a token,
// until the call was answered, a task of 2025-11-25 until it ends, or the
// returned function is called. Upstream's own values stay above: a
// tick is a small part of a step.
func (x *exchange) tick() (stop func()) {
	if len(x.hostToken) == 0 {
		return func() {}
	}
	var mu sync.Mutex
	var timer *time.Timer
	stopped := false
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(tickEvery, func() {
		x.tickOnce()
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			timer.Reset(tickEvery)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// tickStep is what one tick adds to the last value.
const tickStep = 1.0 / 1024

func (x *exchange) tickOnce() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed && !x.tasked {
		return
	}
	next := x.progress.last + tickStep
	x.progress = progressMark{next, true}
	params := concat(`{"progressToken":`, x.hostToken, `,"progress":`, strconv.FormatFloat(next, 'g', -1, 64), `}`)
	for _, related := range x.relatedLocked() {
		meta, _ := patchMeta([]byte("{}"), metaPatch{set: []member{related}})
		params = jsonrpc.With(params, "_meta", meta)
	}
	x.host.out.Notify(x.progressKey(), concat(`{"jsonrpc":"2.0","method":"notifications/progress","params":`, params, `}`))
}
