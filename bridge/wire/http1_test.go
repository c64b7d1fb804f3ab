package wire

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
)

const okReply = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

// echo answers every request on a connection.
func echo(s *raw, conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		if _, err := s.read(r); err != nil {
			return
		}
		io.WriteString(conn, okReply)
	}
}

func TestExchangeKeepsConnection(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, echo)
	c := client(t, s.url)
	for i := range 3 {
		resp, text := must(t, c, post(`{"n":1}`))
		if resp.Status != 200 || text != "{}" || resp.Proto != "HTTP/1.1" || resp.ContentLength != 2 {
			t.Errorf("got %d %q %s %d", resp.Status, text, resp.Proto, resp.ContentLength)
		}
		if resp.Reused != (i > 0) {
			t.Errorf("request %d: reused %v", i, resp.Reused)
		}
		if resp.Received.IsZero() {
			t.Error("no time of receipt")
		}
	}
	s.got(t, 3)
	if n := s.connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// A usual request costs one write, with its head.
func TestShortRequestLeavesInOneWrite(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, echo)
	c := client(t, s.url)
	for range 2 {
		must(t, c, post(`{"n":1}`))
	}
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	for cn := range c.pool.all {
		if n := cn.socket.writes.Load(); n != 2 {
			t.Errorf("2 requests took %d writes", n)
		}
	}
}

// Each server does one odd thing; each method must appear at most once.
func TestBrokenExchangesAreOneRequest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		handle func(*raw, net.Conn)
		words  string
	}{
		{"read all then close", func(s *raw, c net.Conn) { s.read(bufio.NewReader(c)) }, "connection closed"},
		{"read all then reset", func(s *raw, c net.Conn) { s.read(bufio.NewReader(c)); reset(c) }, ""},
		{"half a head", func(s *raw, c net.Conn) {
			s.read(bufio.NewReader(c))
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/ht")
		}, "connection closed"},
		{"no HTTP", func(s *raw, c net.Conn) {
			s.read(bufio.NewReader(c))
			io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n")
		}, "malformed"},
		{"a status that is none", func(s *raw, c net.Conn) {
			s.read(bufio.NewReader(c))
			io.WriteString(c, "HTTP/1.1 000 OK\r\nContent-Length: 2\r\n\r\n{}")
		}, "status 000"},
		{"only 100 continue", func(s *raw, c net.Conn) {
			s.read(bufio.NewReader(c))
			io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		}, "connection closed"},
		{"half close", func(s *raw, c net.Conn) {
			r := bufio.NewReader(c)
			s.read(r)
			c.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, r)
		}, "connection closed"},
		{"endless head", func(s *raw, c net.Conn) {
			s.read(bufio.NewReader(c))
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			line := []byte("X: " + strings.Repeat("y", 4000) + "\r\n")
			for range 2 * maxResponseHead / len(line) {
				if _, err := c.Write(line); err != nil {
					return
				}
			}
		}, ""},
	} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			t.Run(test.name+" "+method, func(t *testing.T) {
				t.Parallel()
				s := serveRaw(t, test.handle)
				c := client(t, s.url)
				r := post("{}")
				if r.Method = method; method != "POST" {
					r.Body = nil
				}
				proves(t, fails(t, c, r), classify.Exchange, classify.MaybeSent, test.words)
				s.got(t, 1)
				if n := s.connections(); n != 1 {
					t.Errorf("%d connections, want 1", n)
				}
			})
		}
	}
}

// A server whose machine takes the connection but which never accepts it: the
// bytes are out, and nobody knows.
func TestNeverAccepted(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = client(t, "http://"+l.Addr().String()).Do(ctx, post("{}"))
	proves(t, asFailure(t, err), classify.Exchange, classify.MaybeSent, "timed out")
}

// A server that closes what it accepts, unread. It depends on the moment what
// is known, but never is a second connection tried.
func TestClosedUnread(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, func(_ *raw, conn net.Conn) { reset(conn) })
	for n := range 20 {
		f := fails(t, client(t, s.url), post("{}"))
		if f.Stage == classify.Connect && f.Sent != classify.NothingSent {
			t.Errorf("stage and proof do not fit: %s", f.Detail)
		}
		if got := s.connections(); got > n+1 {
			t.Fatalf("%d connections for %d requests", got, n+1)
		}
	}
}

func TestHalfReadRequest(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, func(_ *raw, c net.Conn) { io.CopyN(io.Discard, c, 1000); reset(c) })
	c := client(t, s.url)
	proves(t, fails(t, c, post(strings.Repeat("x", 1<<20))), classify.Exchange, classify.MaybeSent)
	if n := s.connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// A reused connection that the server closes after reading the second request:
// net/http's pool would send a GET again.
func TestReusedConnectionIsNotReplayed(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "GET", "DELETE"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			s := serveRaw(t, func(s *raw, conn net.Conn) {
				r := bufio.NewReader(conn)
				s.read(r)
				io.WriteString(conn, okReply)
				s.read(r)
			})
			c := client(t, s.url)
			must(t, c, post("{}"))
			r := post("{}")
			if r.Method = method; method != "POST" {
				r.Body = nil
			}
			proves(t, fails(t, c, r), classify.Exchange, classify.MaybeSent, "while waiting for the answer")
			s.got(t, 2)
		})
	}
}

// Where the server has closed an idle connection and we know it, another is
// taken; the request is still made once.
func TestKnownDeadConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	var once sync.Once
	s := serveRaw(t, func(s *raw, conn net.Conn) {
		r := bufio.NewReader(conn)
		s.read(r)
		io.WriteString(conn, okReply)
		first := false
		once.Do(func() { first = true })
		if !first {
			r.ReadByte()
			return
		}
		conn.Close()
		close(closed)
	})
	c := client(t, s.url)
	must(t, c, post("{}"))
	<-closed
	if resp, _ := must(t, c, waitDead(t, c, post("{}"))); resp.Status != 200 {
		t.Errorf("status %d", resp.Status)
	}
	s.got(t, 2)
}

// waitDead returns r once the pool's idle connections know that they are dead.
func waitDead(t *testing.T, c *Client, r *Request) *Request {
	t.Helper()
	eventually(t, func() bool {
		c.pool.mu.Lock()
		defer c.pool.mu.Unlock()
		for _, cn := range c.pool.idle {
			if !cn.dead() {
				return false
			}
		}
		return true
	})
	return r
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("condition not met within 10 s")
		}
	}
}

// idleCloser closes connections that were idle for so long; what comes within the
// crossing before that is read by nobody.
func idleCloser(idle, crossing time.Duration) func(*raw, net.Conn) {
	return func(s *raw, conn net.Conn) {
		r := bufio.NewReader(conn)
		for {
			rested := time.Now()
			conn.SetReadDeadline(rested.Add(idle))
			if _, err := r.Peek(1); err != nil || time.Since(rested) > idle-crossing {
				return
			}
			if _, err := s.read(r); err != nil {
				return
			}
			io.WriteString(conn, okReply)
		}
	}
}

// A server closes idle connections after 1.5 s, and 50 writes arrive around
// that moment. One that comes in the last 300 ms crosses the close on its way:
// it is read by nobody. None may.
func TestWritesNeverMeetIdleClose(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 5 s of real time: the idle limit of a server")
	}
	const idle = 1500 * time.Millisecond
	s := serveRaw(t, idleCloser(idle, 300*time.Millisecond))
	var reused atomic.Int64
	var group sync.WaitGroup
	for i := range 10 {
		c := client(t, s.url)
		group.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(i)))
			for n := range 5 {
				resp, err := c.Do(bounded(t), post(fmt.Sprintf("%d-%d", i, n)))
				if err != nil {
					t.Errorf("write %d-%d: %v", i, n, err)
					return
				}
				resp.Drain(time.Second)
				if resp.Reused {
					reused.Add(1)
				}
				pause := time.Duration(random.Int64N(int64(20 * time.Millisecond)))
				if n%2 == 1 {
					pause = idle - 250*time.Millisecond + time.Duration(random.Int64N(int64(300*time.Millisecond)))
				}
				<-time.After(pause)
			}
		})
	}
	group.Wait()
	if reused.Load() == 0 {
		t.Error("no connection was ever used twice: this proves nothing")
	}
	seen := make(map[string]int)
	for _, body := range s.ledger() {
		seen[body]++
	}
	if len(seen) != 50 {
		t.Errorf("%d different writes arrived, want 50", len(seen))
	}
	for body, n := range seen {
		if n != 1 {
			t.Errorf("%q executed %d times", body, n)
		}
	}
}

func TestFreshnessDecidesForWritesOnly(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, echo)
	c := client(t, s.url, func(cfg *Config) { cfg.FreshFor = time.Nanosecond })
	must(t, c, post("{}"))
	r := post("{}")
	r.Write = false
	if resp, _ := must(t, c, r); !resp.Reused {
		t.Error("a read did not reuse the connection")
	}
	if resp, _ := must(t, c, post("{}")); resp.Reused {
		t.Error("a write reused a connection that rested too long")
	}
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if n := len(c.pool.all); n != 1 {
		t.Errorf("%d connections kept, want 1: the stale one is replaced", n)
	}
}

// A connection that ends before a byte was written proves that nothing was.
func TestNothingWritten(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, echo)
	c := client(t, s.url)
	cn, _, f := c.acquire(bounded(t), true)
	if f != nil {
		t.Fatal(f)
	}
	cn.close()
	h := &hop{stop: func() {}}
	h.Context = bounded(t)
	req := c.request(h, post("{}"), c.url)
	_, refused, f := c.exchange(h, cn, req)
	if !refused {
		t.Error("the connection took the request")
	}
	proves(t, f, classify.Exchange, classify.NothingSent, "before the request was sent")
	s.got(t, 0)
}

func TestCancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	arrived, gone := make(chan struct{}), make(chan struct{})
	s := serveRaw(t, func(s *raw, conn net.Conn) {
		r := bufio.NewReader(conn)
		s.read(r)
		close(arrived)
		r.ReadByte()
		close(gone)
	})
	c := client(t, s.url)
	ctx, cancel := context.WithCancelCause(bounded(t))
	cause := fmt.Errorf("nobody waits")
	go func() { <-arrived; cancel(cause) }()
	_, err := c.Do(ctx, post("{}"))
	f := asFailure(t, err)
	proves(t, f, classify.Exchange, classify.MaybeSent, "cancelled")
	if f.Unwrap() != cause {
		t.Errorf("cause %v", f.Err)
	}
	<-gone
	s.got(t, 1)
}

func TestCancelledBefore(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, echo)
	c := client(t, s.url)
	must(t, c, post("{}"))
	ctx, cancel := context.WithCancel(bounded(t))
	cancel()
	_, err := c.Do(ctx, post("{}"))
	proves(t, asFailure(t, err), classify.Connect, classify.NothingSent, "cancelled")
	s.got(t, 1)
}

func TestClosingBodyEndsStream(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	s := serveRaw(t, func(s *raw, conn net.Conn) {
		r := bufio.NewReader(conn)
		s.read(r)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n: hi\n\r\n")
		r.ReadByte()
		close(gone)
	})
	c := client(t, s.url)
	resp, err := c.Do(bounded(t), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != ": hi\n" {
		t.Fatalf("read %q, %v", first, err)
	}
	resp.Body.Close()
	<-gone
}

func TestDrainKeepsConnection(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	s := serveRaw(t, func(s *raw, conn net.Conn) {
		r := bufio.NewReader(conn)
		for {
			if _, err := s.read(r); err != nil {
				return
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n: hi\n\r\n")
			<-next
			io.WriteString(conn, "0\r\n\r\n")
		}
	})
	c := client(t, s.url)
	for i := range 2 {
		resp, err := c.Do(bounded(t), post("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if resp.Reused != (i == 1) {
			t.Errorf("request %d: reused %v", i, resp.Reused)
		}
		io.ReadFull(resp.Body, make([]byte, 5))
		go func() { next <- struct{}{} }()
		resp.Drain(10 * time.Second)
	}
}

func TestDrainGivesUp(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, func(s *raw, conn net.Conn) {
		r := bufio.NewReader(conn)
		s.read(r)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n: hi\n\r\n")
		r.ReadByte()
	})
	resp, err := client(t, s.url).Do(bounded(t), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Drain(time.Millisecond)
	if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
		t.Error("the body is still open")
	}
}

func TestBrokenBodies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, words string
		end         func(net.Conn)
	}{
		{"closed", "connection closed while reading the answer", func(c net.Conn) { c.Close() }},
		{"reset", "connection reset while reading the answer", reset},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			read := make(chan struct{})
			s := serveRaw(t, func(s *raw, conn net.Conn) {
				s.read(bufio.NewReader(conn))
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
				<-read
				test.end(conn)
			})
			resp, err := client(t, s.url).Do(bounded(t), post("{}"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			io.ReadFull(resp.Body, make([]byte, 1))
			close(read)
			_, err = io.ReadAll(resp.Body)
			proves(t, asFailure(t, err), classify.Exchange, classify.MaybeSent, test.words)
			s.got(t, 1)
		})
	}
}

func TestTimeoutWhileReading(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, func(s *raw, conn net.Conn) {
		r := bufio.NewReader(conn)
		s.read(r)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
		r.ReadByte()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	resp, err := client(t, s.url).Do(ctx, post("{}"))
	if err == nil {
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
	}
	f := asFailure(t, err)
	proves(t, f, classify.Exchange, classify.MaybeSent, "timed out")
	if f.Err != context.DeadlineExceeded {
		t.Errorf("cause %v", f.Err)
	}
}

func TestEarlyAnswerToLargeBody(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, func(_ *raw, conn net.Conn) {
		r := bufio.NewReader(conn)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		io.WriteString(conn, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		io.Copy(io.Discard, r)
	})
	r := post("")
	r.Body = bytes.Repeat([]byte("x"), 8<<20)
	if resp, _ := must(t, client(t, s.url), r); resp.Status != 413 {
		t.Errorf("status %d", resp.Status)
	}
}

func TestDropIdleAndClose(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, echo)
	c := client(t, s.url)
	must(t, c, post("{}"))
	c.DropIdle()
	if resp, _ := must(t, c, post("{}")); resp.Reused {
		t.Error("a connection survived DropIdle")
	}
	c.Close()
	proves(t, fails(t, c, post("{}")), classify.Connect, classify.NothingSent, "shutting down")
}

func TestInUseConnectionIsNotReusedAfterDropIdle(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, echo)
	c := client(t, s.url)
	resp, err := c.Do(bounded(t), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	c.DropIdle()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "{}" {
		t.Errorf("the answer under way was cut: %q, %v", text, err)
	}
	resp.Body.Close()
	if resp, _ := must(t, c, post("{}")); resp.Reused {
		t.Error("the old connection was used again")
	}
}

func TestParallelCallsNeedNoQueue(t *testing.T) {
	t.Parallel()
	const n = 200
	var arrived sync.WaitGroup
	arrived.Add(n)
	s := serveRaw(t, func(s *raw, conn net.Conn) {
		s.read(bufio.NewReader(conn))
		arrived.Done()
		arrived.Wait()
		io.WriteString(conn, okReply)
	})
	c := client(t, s.url)
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			if _, _, err := complete(bounded(t), c, post("{}")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	s.got(t, n)
}
