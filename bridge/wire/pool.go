package wire

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
)

// Limits of a pool.
const (
	idleFor = 90 * time.Second // a connection nobody uses is closed then
	maxIdle = 1100             // idle HTTP/1.1 connections; fits 1024 exchanges and their streams
)

var errClosed = errors.New("client is closed")

// A pool keeps the connections to the target. Its zero value is ready, with
// life.most and mayShare set before use.
type pool struct {
	mayShare bool // TLS: the server may choose HTTP/2

	mu      sync.Mutex // held for state only, never across I/O that can block
	life    lifespan   // of HTTP/1.1 connections that rest
	all     map[*conn]struct{}
	idle    []*conn // HTTP/1.1, nobody's; the one that rested least is last
	shared  []*conn // HTTP/2
	flight  *flight // a dial whose connection may serve several
	single  bool    // the server chose HTTP/1.1 in the last handshake
	gen     int     // connections of an earlier one are not used again
	closed  bool
	reaping *time.Timer // not nil while something may become too old
}

// A pick is what the pool answers to one who wants to send: a connection with
// a request reserved on it, or a flight to wait for, or leave to dial.
type pick struct {
	conn   *conn
	reused bool
	ping   *conn   // ping this one and ask again
	wait   *flight // wait for it and ask again
	lead   *flight // dial, and land the flight
	failed *Failure
}

func (p *pool) pick(write bool, now time.Time) pick {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return pick{failed: unsent(classify.Connect, errClosed, "the bridge is shutting down")}
	}
	if found := p.pickShared(now); found.conn != nil || found.ping != nil {
		return found
	}
	if cn := p.pickIdle(write, now); cn != nil {
		cn.uses++
		cn.active = 1
		return pick{conn: cn, reused: cn.uses > 1}
	}
	if !p.mayShare || p.single {
		return pick{}
	}
	if p.flight != nil {
		return pick{wait: p.flight}
	}
	p.flight = &flight{done: make(chan struct{})}
	return pick{lead: p.flight}
}

// pickShared finds an HTTP/2 connection with a free stream.
func (p *pool) pickShared(now time.Time) pick {
	for i := len(p.shared) - 1; i >= 0; i-- {
		cn := p.shared[i]
		if cn.active == 0 && (cn.broken || cn.dead()) {
			p.forget(cn)
			continue
		}
		if cn.broken {
			continue
		}
		if cn.active == 0 && rest(cn.rested, now) > idlePing {
			return pick{ping: cn}
		}
		if !cn.http2.ReserveNewRequest() { // full, or on its way out
			continue
		}
		cn.uses++
		cn.active++
		return pick{conn: cn, reused: cn.uses > 1}
	}
	return pick{}
}

// pickIdle finds an HTTP/1.1 connection that rests, the freshest first. The
// one that a write cannot trust is closed: it is about to be replaced. Only of a
// server of which too little is known one is left to rest, to learn from it.
func (p *pool) pickIdle(write bool, now time.Time) *conn {
	p.askOldest(now)
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		cn := p.idle[last]
		if write && last == 0 && p.life.unknown(now) && !cn.dead() {
			return nil
		}
		p.idle[last] = nil
		p.idle = p.idle[:last]
		rested := rest(cn.rested, now)
		if rested < idleFor && cn.http1.Reserve() == nil {
			p.life.outlived(rested)
			if !write || rested < p.life.trusted(now) {
				return cn
			}
			p.forget(cn)
			return nil
		}
		p.learn(cn, now)
		p.forget(cn)
	}
	return nil
}

// askOldest learns from the connection that rests longest, whoever is picked:
// where calls follow each other closely no other rests long enough to tell.
func (p *pool) askOldest(now time.Time) {
	if len(p.idle) == 0 {
		return
	}
	cn := p.idle[0]
	rested := rest(cn.rested, now)
	switch {
	case cn.dead():
		p.idle = slices.Delete(p.idle, 0, 1)
		p.learn(cn, now)
		p.forget(cn)
	case rested < idleFor:
		p.life.outlived(rested)
	}
}

// learn notes after which rest the peer ended a connection, if it did. It is for
// one that was not closed by us; p.mu is held.
func (p *pool) learn(cn *conn, now time.Time) {
	if end := cn.socket.ended.Load(); end != nil && cn.http1 != nil {
		p.life.ended(end.Sub(cn.rested), now)
	}
}

// died is done for a connection from the pool that broke under a request.
func (p *pool) died(cn *conn, refused bool) {
	p.mu.Lock()
	p.learn(cn, time.Now())
	p.mu.Unlock()
	p.done(cn, refused)
}

// rest returns how long something rested. The monotonic clock of some systems
// stands still while they sleep, and the wall clock may be set, so the longer
// of both counts, and a wall clock that went back proves nothing.
func rest(since, now time.Time) time.Duration {
	wall := now.Round(0).Sub(since.Round(0))
	if wall < -time.Second {
		return idleFor
	}
	return max(wall, now.Sub(since))
}

// done gives a connection back after a request, which it may have refused.
func (p *pool) done(cn *conn, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cn.active--
	cn.broken = cn.broken || refused
	cn.rested = time.Now()
	switch {
	case cn.http2 != nil:
		if cn.active == 0 && (cn.broken || cn.dead()) {
			p.forget(cn)
		}
	case p.closed, cn.gen != p.gen, cn.http1.Available() == 0, len(p.idle) >= maxIdle:
		p.forget(cn)
	default:
		p.idle = append(p.idle, cn)
	}
	if p.reaping == nil && !p.closed && len(p.idle)+len(p.shared) > 0 {
		p.reaping = time.AfterFunc(idleFor, p.reap)
	}
}

// forget closes a connection and drops it from the books. It must not be in
// p.idle.
func (p *pool) forget(cn *conn) {
	if _, known := p.all[cn]; !known {
		return
	}
	delete(p.all, cn)
	p.land(cn.lead, nil)
	cn.lead = nil
	if cn.http2 != nil {
		p.shared = without(p.shared, cn)
	}
	go cn.close() // a TLS farewell may wait for a full socket
}

func without(list []*conn, cn *conn) []*conn {
	kept := make([]*conn, 0, len(list))
	for _, other := range list {
		if other != cn {
			kept = append(kept, other)
		}
	}
	return kept
}

// reap closes what rested for too long.
func (p *pool) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaping = nil
	if p.closed {
		return
	}
	p.closeIdle(func(cn *conn) bool { return rest(cn.rested, time.Now()) >= idleFor || cn.dead() })
	if len(p.idle)+len(p.shared) > 0 {
		p.reaping = time.AfterFunc(idleFor, p.reap)
	}
}

// closeIdle closes connections that nobody uses and that old says yes to.
func (p *pool) closeIdle(old func(*conn) bool) {
	kept := p.idle[:0]
	for _, cn := range p.idle {
		if old(cn) {
			p.forget(cn)
		} else {
			kept = append(kept, cn)
		}
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	for _, cn := range p.shared {
		if cn.active == 0 && old(cn) {
			p.forget(cn)
		}
	}
}

// dropIdle closes idle connections, and those in use once they are idle.
func (p *pool) dropIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gen++
	for _, cn := range p.shared {
		cn.http2.SetDoNotReuse()
	}
	p.closeIdle(func(*conn) bool { return true })
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.reaping != nil {
		p.reaping.Stop()
	}
	for cn := range p.all {
		p.forget(cn)
	}
	p.idle, p.shared = nil, nil
}

// discard drops a connection that did not answer a ping. Whoever began to use
// it meanwhile may finish.
func (p *pool) discard(cn *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cn.active > 0 {
		cn.http2.SetDoNotReuse()
		return
	}
	p.forget(cn)
}

// awake notes that a connection answered a ping.
func (p *pool) awake(cn *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cn.rested = time.Now()
}
