package bridgetest

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// A conn is a connection from a client that can be cut at an exact byte.
type conn struct {
	net.Conn
	n int // number of the connection, from 1

	mu    sync.Mutex
	limit int // bytes that may yet be written before a reset; below 0: no limit
	idle  *time.Timer
}

// Write writes until the limit, if there is one, and resets the connection there.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit < 0 || len(p) < c.limit {
		n, err := c.Conn.Write(p)
		if c.limit >= 0 {
			c.limit -= n
		}
		return n, err
	}
	n, err := c.Conn.Write(p[:c.limit])
	c.limit = 0
	reset(c.Conn)
	if err == nil {
		err = net.ErrClosed
	}
	return n, err
}

// cutAfter resets the connection after n more bytes were written.
func (c *conn) cutAfter(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = n
}

// closeWhenIdle closes the connection after d, unless busy comes first.
func (c *conn) closeWhenIdle(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = time.AfterFunc(d, func() { _ = c.Close() })
}

func (c *conn) busy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil {
		c.idle.Stop()
	}
}

// reset ends a TCP connection by RST instead of FIN.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // the close below reports what matters
	}
	_ = c.Close()
}

// unwrap finds the conn below TLS; nil if there is none.
func unwrap(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, unwrap(c))
}

func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// A listener hands out conns and strikes those that a fault befalls.
type listener struct {
	net.Listener
	up *Upstream
}

// Accept returns the next connection that no fault took.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := l.up.adopt(raw)
		if c == nil {
			continue
		}
		if !l.up.strikeConn(c) {
			return c, nil
		}
	}
}

// conns are the open connections of an upstream.
type conns struct {
	mu     sync.Mutex
	open   map[*conn]struct{}
	last   int
	closed bool
}

// adopt makes a conn of a connection; nil, and closed, if the upstream is.
func (u *Upstream) adopt(raw net.Conn) *conn {
	u.conns.mu.Lock()
	defer u.conns.mu.Unlock()
	if u.conns.closed {
		_ = raw.Close()
		return nil
	}
	u.conns.last++
	c := &conn{Conn: raw, n: u.conns.last, limit: -1}
	u.conns.open[c] = struct{}{}
	return c
}

func (u *Upstream) disown(c *conn) {
	if c == nil {
		return
	}
	c.busy()
	u.conns.mu.Lock()
	defer u.conns.mu.Unlock()
	delete(u.conns.open, c)
}

// dropConns resets every open connection.
func (u *Upstream) dropConns(forGood bool) {
	u.conns.mu.Lock()
	defer u.conns.mu.Unlock()
	u.conns.closed = u.conns.closed || forGood
	for c := range u.conns.open {
		reset(c.Conn)
	}
}

// Connections says how many TCP connections were accepted so far, and how many
// of them are open.
func (u *Upstream) Connections() (accepted, open int) {
	u.conns.mu.Lock()
	defer u.conns.mu.Unlock()
	return u.conns.last, len(u.conns.open)
}

// strikeConn lets the faults of accepted connections happen. It reports
// whether the connection is no longer the server's.
func (u *Upstream) strikeConn(c *conn) bool {
	taken := func(a *armed) bool { return atAccept(a) && a.Name != "close-idle" }
	for _, s := range u.faults.strikes(subject{}, taken) {
		switch s.name {
		case "cut-phase":
			reset(c.Conn)
			u.disown(c)
			return true
		case "stall":
			return true // open until the upstream closes
		case "h2":
			u.spawn(func() { u.refuseHTTP2(c, s.arg.(string)) })
			return true
		}
	}
	return false
}
