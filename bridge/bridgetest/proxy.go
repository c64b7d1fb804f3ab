package bridgetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A ProxyFault is what a TCPProxy does to connections. The zero value passes
// everything on.
type ProxyFault struct {
	Refuse    bool          // reset new connections at once
	Freeze    bool          // pass no byte in either direction, close nothing
	SwallowUp bool          // take what the client sends and pass none of it on
	SwallowDn bool          // take what the server sends and pass none of it on
	ResetUp   int           // reset both sides after so many bytes from the client; 0: never
	ResetDown int           // reset both sides after so many bytes from the server; 0: never
	Latency   time.Duration // wait so long before each piece that is passed on
}

// A TCPProxy stands between a client and an upstream and breaks their
// connections. Byte counts run per connection from its beginning. All methods
// are safe for concurrent use.
type TCPProxy struct {
	l net.Listener

	mu       sync.Mutex
	target   string
	fault    ProxyFault
	changed  chan struct{} // closed and replaced by SetFault
	open     map[*link]struct{}
	accepted int
	closed   bool
	running  sync.WaitGroup
}

// A link is one client connection and its counterpart.
type link struct {
	client, server net.Conn
}

// StartProxy listens on loopback and passes connections on to target, a
// host:port.
func StartProxy(target string) (*TCPProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	p := &TCPProxy{target: target, l: l, changed: make(chan struct{}), open: map[*link]struct{}{}}
	p.running.Add(1)
	go p.accept()
	return p, nil
}

// Addr returns the host:port on which the proxy listens.
func (p *TCPProxy) Addr() string { return p.l.Addr().String() }

// SetFault replaces the fault; it holds for open connections too.
func (p *TCPProxy) SetFault(f ProxyFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
}

// SetTarget sends later connections to another host:port.
func (p *TCPProxy) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Connections says how many connections were accepted, and how many are open.
func (p *TCPProxy) Connections() (accepted, open int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted, len(p.open)
}

// Drop resets all open connections.
func (p *TCPProxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.open {
		k.reset()
	}
}

// Close ends the listener and all connections, and waits for the proxy's
// goroutines.
func (p *TCPProxy) Close() {
	p.mu.Lock()
	p.closed = true
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	_ = p.l.Close()
	p.Drop()
	p.running.Wait()
}

func (k *link) reset() {
	reset(k.client)
	reset(k.server)
}

func (p *TCPProxy) now() (f ProxyFault, changed <-chan struct{}, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed, p.closed
}

func (p *TCPProxy) accept() {
	defer p.running.Done()
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.take(c)
	}
}

// take counts a connection and joins it to the target.
func (p *TCPProxy) take(c net.Conn) {
	p.mu.Lock()
	p.accepted++
	refuse, target := p.fault.Refuse || p.closed, p.target
	p.mu.Unlock()
	if refuse {
		reset(c)
		return
	}
	s, err := net.Dial("tcp", target)
	if err != nil {
		reset(c)
		return
	}
	k := &link{c, s}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		k.reset()
		return
	}
	p.open[k] = struct{}{}
	p.running.Add(1)
	go p.join(k)
}

// join carries bytes both ways until both ends are done.
func (p *TCPProxy) join(k *link) {
	defer p.running.Done()
	var both sync.WaitGroup
	both.Go(func() { p.carry(k, k.server, k.client, true) })
	both.Go(func() { p.carry(k, k.client, k.server, false) })
	both.Wait()
	_ = k.client.Close() // already closed in most cases
	_ = k.server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, k)
}

// carry copies one direction; a clean end is passed on as such.
func (p *TCPProxy) carry(k *link, to, from net.Conn, up bool) {
	buf := make([]byte, 32<<10)
	passed := 0
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.pass(k, to, buf[:n], &passed, up) {
			return
		}
		if err != nil {
			end(k, to, err)
			return
		}
	}
}

// end passes on how one direction ended.
func end(k *link, to net.Conn, err error) {
	if t, ok := to.(*net.TCPConn); ok && errors.Is(err, io.EOF) {
		_ = t.CloseWrite() // the other side may have left
		return
	}
	k.reset()
}

// pass writes a piece as the fault of the moment says. It reports whether the
// connection goes on.
func (p *TCPProxy) pass(k *link, to net.Conn, b []byte, passed *int, up bool) bool {
	f, ok := p.thaw()
	if !ok {
		return false
	}
	if f.Latency > 0 && !p.wait(f.Latency) {
		return false
	}
	if up && f.SwallowUp || !up && f.SwallowDn {
		return true
	}
	limit := f.ResetDown
	if up {
		limit = f.ResetUp
	}
	cut := limit > 0 && *passed+len(b) >= limit
	if cut {
		b = b[:max(limit-*passed, 0)]
	}
	n, err := to.Write(b)
	*passed += n
	if cut || err != nil {
		k.reset()
		return false
	}
	return true
}

// thaw waits while the proxy is frozen and returns the fault after that.
func (p *TCPProxy) thaw() (ProxyFault, bool) {
	for {
		f, changed, closed := p.now()
		if closed || !f.Freeze {
			return f, !closed
		}
		<-changed
	}
}

// wait waits for d; false if the proxy closed first.
func (p *TCPProxy) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		_, changed, closed := p.now()
		if closed {
			return false
		}
		select {
		case <-timer.C:
			return true
		case <-changed:
		}
	}
}
