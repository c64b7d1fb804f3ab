package bridgetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const headTimeout = 30 * time.Second // for the head of a request

// Causes with which the context of a call ends.
var (
	errClosed     = errors.New("upstream closed")
	errRestarted  = errors.New("upstream restarted")
	errClientLeft = errors.New("client left")
	errCancelled  = errors.New("client cancelled the request")
)

// An Upstream is a running MCP server. All methods are safe for concurrent use.
type Upstream struct {
	opts    Options
	urls    []string
	servers []*http.Server
	ledger  *Ledger
	faults  faultSet
	conns   conns
	state   state
	key     []byte // signs requestState

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	closed   bool
	running  sync.WaitGroup // handlers, calls and servers
	epoch    context.Context
	endEpoch context.CancelCauseFunc // at Restart
}

// Start starts an upstream; it serves when Start returns.
func Start(o Options) (*Upstream, error) {
	u := &Upstream{opts: o, ledger: newLedger(), key: make([]byte, 32)}
	_, _ = rand.Read(u.key) // never fails since Go 1.24
	u.ctx, u.cancel = context.WithCancelCause(context.Background())
	u.epoch, u.endEpoch = context.WithCancelCause(u.ctx)
	u.conns.open = map[*conn]struct{}{}
	u.state.init(&u.opts)
	if err := u.SetFaults(o.Faults...); err != nil {
		return nil, err
	}
	for i := range o.replicas() {
		if err := u.serve(i); err != nil {
			u.Close()
			return nil, err
		}
	}
	return u, nil
}

func (u *Upstream) serve(replica int) error {
	addr := u.opts.listen()
	if replica > 0 {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("start upstream: %w", err)
	}
	s := u.server(replica)
	u.servers = append(u.servers, s)
	u.urls = append(u.urls, u.url(l.Addr().String()))
	own := &listener{l, u}
	u.spawn(func() {
		if s.TLSConfig != nil {
			_ = s.ServeTLS(own, "", "") // ends by Close
			return
		}
		_ = s.Serve(own) // ends by Close
	})
	return nil
}

func (u *Upstream) server(replica int) *http.Server {
	s := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { u.handle(w, r, replica) }),
		ReadHeaderTimeout: headTimeout,
		ConnContext:       withConn,
		ConnState:         u.connState,
		Protocols:         new(http.Protocols),
		ErrorLog:          quiet(),
	}
	s.Protocols.SetHTTP1(true)
	if u.opts.TLS != nil {
		s.TLSConfig = u.opts.TLS.Clone()
		s.Protocols.SetHTTP2(u.opts.HTTP2)
	} else {
		s.Protocols.SetUnencryptedHTTP2(u.opts.HTTP2)
	}
	return s
}

func (u *Upstream) connState(c net.Conn, s http.ConnState) {
	own := unwrap(c)
	if own == nil {
		return
	}
	switch s {
	case http.StateActive:
		own.busy()
	case http.StateIdle:
		u.strikeIdle(own)
	case http.StateClosed:
		u.disown(own)
	}
}

func (u *Upstream) strikeIdle(c *conn) {
	for _, s := range u.faults.strikes(subject{}, func(a *armed) bool { return a.Name == "close-idle" }) {
		c.closeWhenIdle(s.arg.(time.Duration))
	}
}

func (u *Upstream) url(addr string) string {
	scheme, path := "http", "/mcp"
	if u.opts.TLS != nil {
		scheme = "https"
	}
	if u.opts.Era == SSE {
		path = "/sse"
	}
	return scheme + "://" + addr + path
}

// URL returns the MCP endpoint of the first replica.
func (u *Upstream) URL() string { return u.urls[0] }

// URLs returns the MCP endpoints of all replicas.
func (u *Upstream) URLs() []string { return slices.Clone(u.urls) }

// Ledger returns the record of what arrived and what it did.
func (u *Upstream) Ledger() *Ledger { return u.ledger }

// SetFaults replaces all faults, with fresh budgets, and undoes what session-400
// and session-503 left behind.
func (u *Upstream) SetFaults(faults ...Fault) error {
	if err := u.faults.set(faults); err != nil {
		return err
	}
	u.state.refuseUnknown(http.StatusNotFound)
	return nil
}

// SetFault parses and sets faults in their text form.
func (u *Upstream) SetFault(texts ...string) error {
	var faults []Fault
	for _, t := range texts {
		f, err := ParseFault(t)
		if err != nil {
			return err
		}
		faults = append(faults, f)
	}
	return u.SetFaults(faults...)
}

// Restart does what a crash and a new start do: running calls end, sessions and
// streams are forgotten, connections are reset. Items, exports, the ledger, the
// faults and the listeners stay.
func (u *Upstream) Restart() {
	u.mu.Lock()
	u.endEpoch(errRestarted)
	u.epoch, u.endEpoch = context.WithCancelCause(u.ctx)
	u.mu.Unlock()
	u.state.forgetSessions()
	u.dropConns(false)
}

// ForgetSessions ends all legacy sessions; connections stay.
func (u *Upstream) ForgetSessions() { u.state.forgetSessions() }

// DropStreams resets the connections of all open GET, listen and HTTP+SSE streams.
func (u *Upstream) DropStreams() { u.state.dropStreams() }

// Close ends the listeners, all connections and running calls, and waits for
// every goroutine of the upstream.
func (u *Upstream) Close() {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.cancel(errClosed)
	for _, s := range u.servers {
		_ = s.Close() // closes what it can
	}
	u.dropConns(true)
	u.state.forgetSessions()
	u.running.Wait()
}

// begin registers work that Close waits for; false if the upstream is closed.
func (u *Upstream) begin() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.running.Add(1)
	return true
}

func (u *Upstream) spawn(f func()) {
	if !u.begin() {
		return
	}
	go func() {
		defer u.running.Done()
		f()
	}()
}

// lifetime returns the context of calls that begin now.
func (u *Upstream) lifetime() context.Context {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.epoch
}
