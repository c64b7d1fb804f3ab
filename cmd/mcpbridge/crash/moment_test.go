package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
)

// momentLimit bounds all the kills of one test.
const momentLimit = 5 * time.Minute

// TestKilledAtAnyMoment kills at moments that nobody chose, and holds what is
// told against the ledger: whatever happened, the same call acts once more only
// by leave.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	s := seed(t)
	times := 10
	if full() {
		times = 150
	}
	for _, split := range []bool{false, true} {
		if split && !splits {
			continue
		}
		t.Run(fmt.Sprintf("split=%v", split), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(s, uint64(boolInt(split))))
			w := newCalls(t)
			ctx, cancel := context.WithTimeout(t.Context(), momentLimit)
			defer cancel()
			w.ctx = ctx
			seen := map[word]int{}
			for i := range times {
				seen[w.killOnce(t, r, split, fmt.Sprintf("m%d", i))]++
			}
			t.Logf("the same call was told: %v", seen)
		})
	}
}

// killOnce makes a call, kills somebody a while later, and makes the call again.
func (w *world) killOnce(t *testing.T, r *rand.Rand, split bool, key string) word {
	t.Helper()
	st := &stage{world: w, split: split, tool: "add_entry"}
	st.lane = st.startLane()
	worker := 0
	if split {
		worker = w.workerOf(st.pid())
	}
	var fit []victim
	for _, v := range victims() {
		if v.split == split {
			fit = append(fit, v)
		}
	}
	v := fit[r.IntN(len(fit))]
	arguments := fmt.Sprintf(`{"key":%q}`, key)
	moment := time.Duration(r.ExpFloat64() * float64(8*time.Millisecond))
	st.lane.send("add_entry", arguments)
	timer := time.NewTimer(moment)
	defer timer.Stop()
	<-timer.C
	v.kill(st, worker)
	next := st.startLane()
	first := next.call("add_entry", arguments)
	acted := func() int { return w.up.Ledger().EffectsOf("add_entry", key) }
	leave := 0
	end := first
	if end.word == running {
		end = next.poll(end.handle)
	}
	switch end.word {
	case result:
		if acted() == 0 || end.text != "did "+key {
			t.Errorf("%s, %v after the call: a result that the ledger does not know: %s", v.name, moment, end.raw)
		}
	case unknown:
		if acted() == 1 {
			next.resolve(end.handle, "happened", "it is there").must(t, settled)
			break
		}
		leave = 1
		next.resolve(end.handle, "send_again", "it is not there").must(t, result)
	default:
		t.Errorf("%s, %v after the call: told %s", v.name, moment, end.text)
	}
	w.checkMoment(t, v, moment, key, acted(), leave, first)
	return first.word
}

// checkMoment allows one effect, one more where leave was given, and one more
// where the first answer had been read before the kill; the record tells that.
func (w *world) checkMoment(t *testing.T, v victim, moment time.Duration, key string, acted, leave int, first told) {
	t.Helper()
	if acted > 1+leave {
		t.Errorf("%s, %v after the call: %s acted %d times with %d leaves; told first: %s", v.name, moment, key, acted, leave, first.raw)
	}
	for _, j := range w.records("add_entry") {
		if j.State == jobs.Failed && j.Effect == jobs.None && acted > 0 && j.Evidence != jobs.NotSent {
			t.Errorf("job %s says that nothing was executed", j.Handle)
		}
		if j.Conflict {
			t.Errorf("job %s is in conflict with itself", j.Handle)
		}
	}
}
