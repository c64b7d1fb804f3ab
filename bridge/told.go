package bridge

import (
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
)

// This file decides who has the end of a call. What was written counts as told
// when another message comes from the host, or when it lives on for a second;
// what is still in our queue does not. A host that closed its output or is gone
// waits for nothing any more, and whoever makes the same call next is answered
// from what it left behind.

// toldAfter is how long a host must live on after an answer for the answer to
// count as told, if nothing else came from it.
const toldAfter = time.Second

// An untold end was written to the host and may not have been read.
type untold struct {
	handle jobs.Handle
	asked  bool // somebody asked for it by handle, or repeated the call
	at     time.Time
}

// written notes that the end of a job was written to the host.
func (k *keeper) written(u untold) {
	if k == nil || u.handle == "" {
		return
	}
	u.at = time.Now()
	k.mu.Lock()
	k.untold = append(k.untold, u)
	first := len(k.untold) == 1 && !k.telling
	k.telling = k.telling || first
	k.mu.Unlock()
	if first {
		time.AfterFunc(toldAfter, k.hostLivesOn)
	}
}

// hostLives is called when the host says something: it read what was written
// before.
func (k *keeper) hostLives() {
	if k == nil || k.bridge.hostLeft.Load() {
		return
	}
	if _, blocked := k.bridge.host.out.Blocked(); blocked {
		return // the time decides
	}
	k.told(k.takeUntold(0))
}

// hostLivesOn takes as told what was written long enough ago, and comes back
// for the rest.
func (k *keeper) hostLivesOn() {
	_, blocked := k.bridge.host.out.Blocked()
	if !blocked && !k.bridge.hostLeft.Load() {
		k.told(k.takeUntold(toldAfter))
	}
	k.mu.Lock()
	k.telling = len(k.untold) > 0 && !k.bridge.hostLeft.Load()
	telling, again := k.telling, toldAfter
	if telling && !blocked {
		again = toldAfter - time.Since(k.untold[0].at)
	}
	k.mu.Unlock()
	if telling {
		time.AfterFunc(again, k.hostLivesOn)
	}
}

func (k *keeper) told(list []untold) {
	for _, u := range list {
		k.journal.Note(u.handle, jobs.Note{Told: !u.asked, Read: u.asked})
	}
}

// takeUntold takes the ends that were written that long ago or longer.
func (k *keeper) takeUntold(age time.Duration) []untold {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.untold)
	if age > 0 {
		n = 0
		for n < len(k.untold) && time.Since(k.untold[n].at) >= age {
			n++
		}
	}
	list := k.untold[:n:n]
	k.untold = k.untold[n:]
	return list
}

// hostLeft notes that the host closed its output or is gone: nobody waits for
// its calls, and nothing that was written last can be taken as read. That holds
// once it is decided of each of its calls whether it is sent: two equal calls of
// one host are two calls.
func (k *keeper) hostLeft(why string) {
	if k == nil || k.bridge.hostLeft.Swap(true) {
		return
	}
	unread, open := k.takeUntold(0), k.bridge.host.openCalls()
	left := func() {
		for _, u := range unread {
			k.journal.Note(u.handle, jobs.Note{NobodyWait: why})
		}
		for _, x := range open {
			k.nobodyWaits(x, why)
		}
	}
	if len(open) == 0 {
		left()
		return
	}
	k.bridge.work.Go(func() {
		for _, x := range open {
			x.awaitDecision()
		}
		left()
	})
}

// openCalls lists the calls that are not answered.
func (h *host) openCalls() []*exchange {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*exchange
	for _, x := range h.inFlight {
		if x.method == "tools/call" {
			list = append(list, x)
		}
	}
	return list
}

// awaitDecision waits until it is decided whether the call of x is sent.
func (x *exchange) awaitDecision() {
	select {
	case <-x.decided:
	case <-x.whenAnswered():
	case <-x.bridge.life.Done():
	}
}
