package faults

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// A rig is a server with what stands before it and a process that talks to it.
type rig struct {
	*lane
	door   *entry
	proxy  *bridgetest.TCPProxy
	tunnel *tunnel
}

// newRig starts everything for one fault. The answer deadline is short where
// the fault is silence.
func newRig(t testing.TB, f fault, era bridgetest.Era, replicas int) *rig {
	t.Helper()
	r := &rig{}
	o := bridgetest.Options{Era: era, Replicas: replicas}
	var args []string
	if f.rig == connect {
		conf, _, err := bridgetest.SelfSigned()
		if err != nil {
			t.Fatal(err)
		}
		o.TLS = conf
		r.tunnel = startTunnel(t)
		args = append(args, "--ca-cert="+writeCertificate(t, conf.Certificates[0].Certificate[0]), "--proxy="+r.tunnel.url())
	}
	up := startUpstream(t, o)
	if f.always {
		if err := up.SetFault(f.specs...); err != nil {
			t.Fatal(err)
		}
	}
	url := up.URL()
	switch {
	case f.rig == tcp:
		r.proxy = startProxy(t, address(url))
		url = strings.Replace(url, address(url), r.proxy.Addr(), 1)
	case f.rig == door || replicas > 1 && f.rig == direct:
		r.door = startEntry(t, up.URLs())
		url = strings.Replace(url, address(url), r.door.addr, 1)
	}
	if f.sight == silence {
		// Nothing is to outlive the test: the calls stay open to its end.
		args = append(args, "--answer-within=700ms", "--linger=0")
	}
	r.lane = startLane(t, hostEra(era, replicas), up, append(args, url)...)
	return r
}

// hostEra is what the host speaks: the server's era, or the other one in front
// of two replicas.
func hostEra(era bridgetest.Era, replicas int) bridgetest.Era {
	switch {
	case replicas == 1:
		return era
	case era == bridgetest.Legacy:
		return bridgetest.Modern
	}
	return bridgetest.Legacy
}

func address(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

func startProxy(t testing.TB, target string) *bridgetest.TCPProxy {
	t.Helper()
	p, err := bridgetest.StartProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func writeCertificate(t testing.TB, der []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Joints are pairs of connections that carry each other's bytes.
type joints struct {
	mu   sync.Mutex
	open map[net.Conn]func() // by the client's side; ends both
	none chan struct{}       // closed when open becomes empty; nil while nobody waits
	work sync.WaitGroup
}

// join carries bytes between a client and a server. first is what was read of
// the client already.
func (j *joints) join(client, server net.Conn, first io.Reader) {
	j.mu.Lock()
	if j.open == nil {
		j.open = map[net.Conn]func(){}
	}
	j.open[client] = func() { reset(client); reset(server) }
	j.mu.Unlock()
	j.work.Go(func() {
		var both sync.WaitGroup
		both.Go(func() { carry(server, client, first) })
		both.Go(func() { carry(client, server, server) })
		both.Wait()
		_ = client.Close()
		_ = server.Close()
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.open, client)
		if len(j.open) == 0 && j.none != nil {
			close(j.none)
			j.none = nil
		}
	})
}

// part ends every pair in good order and waits until the clients have left,
// so that none of them believes in a connection that is gone.
func (j *joints) part() {
	j.mu.Lock()
	gone := make(chan struct{})
	if len(j.open) == 0 {
		close(gone)
	} else {
		j.none = gone
	}
	for client := range j.open {
		if t, ok := client.(*net.TCPConn); ok {
			_ = t.CloseWrite() // it may have left
		}
	}
	j.mu.Unlock()
	<-gone
}

// end breaks every pair and waits for the goroutines.
func (j *joints) end() {
	j.mu.Lock()
	for _, end := range j.open {
		end()
	}
	j.mu.Unlock()
	j.work.Wait()
}

// carry copies one direction and passes on how it ended.
func carry(to, from net.Conn, r io.Reader) {
	if _, err := io.Copy(to, r); err != nil {
		reset(to)
		reset(from)
		return
	}
	if t, ok := to.(*net.TCPConn); ok {
		_ = t.CloseWrite() // the peer may have left
	}
}

func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// An entry is an address that leads to one target after another, a connection
// each, and that can be shut: then connections are refused.
type entry struct {
	joints
	t       testing.TB
	addr    string
	targets []string
	next    int
	l       net.Listener
	accepts sync.WaitGroup
}

func startEntry(t testing.TB, urls []string) *entry {
	t.Helper()
	e := &entry{t: t, addr: "127.0.0.1:0"}
	for _, u := range urls {
		e.targets = append(e.targets, address(u))
	}
	e.unlock()
	t.Cleanup(func() { _ = e.l.Close(); e.accepts.Wait(); e.end() })
	return e
}

// unlock opens the entry, at the same address as before.
func (e *entry) unlock() {
	l, err := net.Listen("tcp", e.addr)
	if err != nil {
		e.t.Errorf("open the entry again: %v", err)
		return
	}
	e.l, e.addr = l, l.Addr().String()
	e.accepts.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.lead(c)
		}
	})
}

// shut ends the listener, then what came through it.
func (e *entry) shut() {
	_ = e.l.Close()
	e.accepts.Wait()
	e.part()
}

func (e *entry) lead(c net.Conn) {
	s, err := net.Dial("tcp", e.targets[e.next%len(e.targets)])
	if err != nil {
		reset(c)
		return
	}
	e.next++
	e.join(c, s, c)
}

// A tunnel is an HTTP proxy that grants CONNECT, or answers it with a status.
type tunnel struct {
	joints
	l      net.Listener
	status atomic.Int64
}

func startTunnel(t testing.TB) *tunnel {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tunnel{l: l}
	p.status.Store(http.StatusOK)
	var accepts sync.WaitGroup
	accepts.Go(p.accept)
	t.Cleanup(func() { _ = l.Close(); accepts.Wait(); p.end() })
	return p
}

func (p *tunnel) url() string { return "http://" + p.l.Addr().String() }

// answer sets the status for CONNECT and ends the tunnels there are.
func (p *tunnel) answer(status int) {
	p.status.Store(int64(status))
	p.part()
}

func (p *tunnel) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		if err := p.serve(c); err != nil {
			_ = c.Close()
		}
	}
}

// serve answers one CONNECT. The program sends it at once.
func (p *tunnel) serve(c net.Conn) error {
	br := bufio.NewReader(c)
	req, err := http.ReadRequest(br)
	if err != nil {
		return err
	}
	status := int(p.status.Load())
	if _, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Length: 0\r\n\r\n", status, http.StatusText(status)); err != nil {
		return err
	}
	if status != http.StatusOK {
		return c.Close()
	}
	s, err := net.Dial("tcp", req.Host)
	if err != nil {
		return err
	}
	p.join(c, s, br)
	return nil
}
