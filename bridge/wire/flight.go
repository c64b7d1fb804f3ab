package wire

import (
	"sync"

	"github.com/mcpbridge/mcpbridge/classify"
)

// A flight is a dial for everybody who waits on done.
type flight struct {
	done   chan struct{}
	failed *Failure // set before done is closed; nil: look into the pool again
}

// landed takes a new connection in, with its first request reserved. Those who
// wait for lead are woken now, or with the settings of an HTTP/2 connection.
func (p *pool) landed(lead *flight, cn *conn, f *Failure, alone bool) *Failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f == nil && p.closed {
		go cn.close()
		f = unsent(classify.Connect, errClosed, "the bridge is shutting down")
	}
	if f != nil || cn.http2 == nil {
		if alone {
			p.land(lead, nil)
		} else {
			p.land(lead, f)
		}
	}
	if f != nil {
		return f
	}
	if p.all == nil {
		p.all = make(map[*conn]struct{})
	}
	p.all[cn] = struct{}{}
	cn.gen, cn.uses, cn.active = p.gen, 1, 1
	p.single = cn.http2 == nil
	if cn.http2 != nil {
		cn.lead = lead
	}
	return nil
}

// land wakes those who wait for a flight, which may be nil.
func (p *pool) land(lead *flight, f *Failure) {
	if lead == nil {
		return
	}
	lead.failed = f
	close(lead.done)
	p.leave(lead)
}

// leave lets the next one dial instead of waiting for lead.
func (p *pool) leave(lead *flight) {
	if p.flight == lead {
		p.flight = nil
	}
}

// watch shares an HTTP/2 connection as soon as the server has said how many
// streams it allows. Before that, requests beyond its limit would be let in,
// and then wait for those in front of them, however long these take.
func (p *pool) watch(cn *conn) {
	var once sync.Once
	share := func(ended bool) {
		once.Do(func() {
			cn.socket.watch.Store(nil)
			p.share(cn, ended)
		})
	}
	cn.socket.watch.Store(&share)
	if cn.socket.settled.Load() { // before anybody watched
		share(false)
	}
}

func (p *pool) share(cn *conn, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.all[cn]; !known {
		return
	}
	p.land(cn.lead, nil)
	cn.lead = nil
	switch {
	case !ended:
		p.shared = append(p.shared, cn)
	case cn.active == 0:
		p.forget(cn)
	}
}

// giveUp is for one who waited for a flight for too long.
func (p *pool) giveUp(lead *flight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave(lead)
}
