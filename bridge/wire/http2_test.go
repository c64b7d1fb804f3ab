package wire

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/mcpbridge/mcpbridge/classify"
)

// An h2 is the server's side of one HTTP/2 connection, frame by frame.
type h2 struct {
	*http2.Framer
	server *raw
	conn   net.Conn
}

// serveH2 serves HTTP/2 over TLS; handle is called with the stream of each
// request, after all of it was read, and says whether to go on.
func serveH2(t *testing.T, a *authority, handle func(*h2, uint32) bool) *raw {
	t.Helper()
	l := listenTLS(t, &tls.Config{Certificates: []tls.Certificate{a.sign(t)}, NextProtos: []string{"h2"}})
	return serveOn(t, l, "https", func(s *raw, conn net.Conn) { (&h2{server: s, conn: conn}).serve(handle) })
}

func (h *h2) serve(handle func(*h2, uint32) bool) {
	if _, err := io.CopyN(io.Discard, h.conn, int64(len(http2.ClientPreface))); err != nil {
		return
	}
	h.Framer = http2.NewFramer(h.conn, h.conn)
	h.WriteSettings()
	for {
		f, err := h.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				h.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				h.WritePing(true, f.Data)
			}
		case *http2.HeadersFrame:
			if f.StreamEnded() && !h.request(f.StreamID, handle) {
				return
			}
		case *http2.DataFrame:
			if f.StreamEnded() && !h.request(f.StreamID, handle) {
				return
			}
		}
	}
}

func (h *h2) request(stream uint32, handle func(*h2, uint32) bool) bool {
	h.server.note("request")
	return handle(h, stream)
}

// head writes a response head.
func (h *h2) head(stream uint32, status string, end bool) {
	var block bytes.Buffer
	hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: status})
	h.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
}

// linger reads on until the client closes, so that what was written arrives.
func (h *h2) linger() { io.Copy(io.Discard, h.conn) }

func TestHTTP2RefusalsAreOneRequest(t *testing.T) {
	t.Parallel()
	rst := func(code http2.ErrCode) func(*h2, uint32) bool {
		return func(h *h2, id uint32) bool { h.WriteRSTStream(id, code); return true }
	}
	goAway := func(last uint32, code http2.ErrCode) func(*h2, uint32) bool {
		return func(h *h2, _ uint32) bool {
			h.WriteGoAway(last, code, nil)
			h.conn.(*tls.Conn).CloseWrite()
			h.linger()
			return false
		}
	}
	for _, test := range []struct {
		name   string
		handle func(*h2, uint32) bool
		stage  classify.Stage
		sent   classify.Sent
		words  string
	}{
		{"PROTOCOL_ERROR", rst(http2.ErrCodeProtocol), classify.Exchange, classify.MaybeSent, "PROTOCOL_ERROR"},
		{"INTERNAL_ERROR", rst(http2.ErrCodeInternal), classify.Exchange, classify.MaybeSent, "INTERNAL_ERROR"},
		{"CANCEL", rst(http2.ErrCodeCancel), classify.Exchange, classify.MaybeSent, "CANCEL"},
		{"REFUSED_STREAM", rst(http2.ErrCodeRefusedStream), classify.Refused, classify.NothingSent, "REFUSED_STREAM"},
		{"GOAWAY below", goAway(0, http2.ErrCodeNo), classify.Refused, classify.NothingSent, "GOAWAY"},
		{"GOAWAY below with error", goAway(0, http2.ErrCodeEnhanceYourCalm), classify.Refused, classify.NothingSent, "GOAWAY"},
		{"GOAWAY at ours", goAway(1, http2.ErrCodeNo), classify.Exchange, classify.MaybeSent, "GOAWAY"},
		{"GOAWAY at ours with error", goAway(1, http2.ErrCodeInternal), classify.Exchange, classify.MaybeSent, "GOAWAY INTERNAL_ERROR"},
		{"close", func(*h2, uint32) bool { return false }, classify.Exchange, classify.MaybeSent, "connection closed"},
		{"reset", func(h *h2, _ uint32) bool { reset(h.conn); return false }, classify.Exchange, classify.MaybeSent, ""},
	} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			t.Run(test.name+" "+method, func(t *testing.T) {
				t.Parallel()
				a := newAuthority(t)
				s := serveH2(t, a, test.handle)
				c := client(t, s.url, a.trust)
				r := post("{}")
				if r.Method = method; method != "POST" {
					r.Body = nil
				}
				proves(t, fails(t, c, r), test.stage, test.sent, test.words)
				s.got(t, 1)
				if n := s.connections(); n != 1 {
					t.Errorf("%d connections, want 1", n)
				}
			})
		}
	}
}

func TestHTTP2SharesOneConnection(t *testing.T) {
	t.Parallel()
	const n = 50
	var arrived sync.WaitGroup
	arrived.Add(n)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Done()
		arrived.Wait()
		io.Copy(w, r.Body)
	}))
	a := newAuthority(t)
	var mu sync.Mutex
	var conns int
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if state == http.StateNew {
			conns++
		}
	}
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{Certificates: []tls.Certificate{a.sign(t)}}
	server.StartTLS()
	t.Cleanup(server.Close)
	c := client(t, server.URL, a.trust)
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			resp, text, err := complete(bounded(t), c, post("{}"))
			if err != nil || resp.Proto != "HTTP/2.0" || text != "{}" {
				t.Errorf("got %v %q, %v", resp, text, err)
			}
		})
	}
	group.Wait()
	mu.Lock()
	defer mu.Unlock()
	if conns != 1 {
		t.Errorf("%d connections, want 1", conns)
	}
	c.Close()
}

// More calls than a connection has streams, or calls to a server that chose
// HTTP/1.1 over TLS: more connections, and nobody waits for another's answer.
func TestParallelCallsOverTLS(t *testing.T) {
	t.Parallel()
	const n = 60
	for _, protocol := range []string{"h2", "http/1.1"} {
		a := newAuthority(t)
		var arrived sync.WaitGroup
		arrived.Add(n)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if r.Method == "GET" {
				return
			}
			arrived.Done()
			arrived.Wait()
		}))
		server.EnableHTTP2 = protocol == "h2"
		server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 10}
		server.TLS = &tls.Config{Certificates: []tls.Certificate{a.sign(t)}}
		server.StartTLS()
		c := client(t, server.URL, a.trust)
		must(t, c, get()) // what the server speaks is known then
		var group sync.WaitGroup
		for range n {
			group.Go(func() {
				if _, _, err := complete(bounded(t), c, post("{}")); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		c.Close()
		server.Close()
	}
}

func TestSettingsFrame(t *testing.T) {
	t.Parallel()
	var wire bytes.Buffer
	f := http2.NewFramer(&wire, nil)
	f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 10})
	size := wire.Len()
	f.WritePing(false, [8]byte{})
	for step := 1; step <= wire.Len(); step++ {
		var frame settingsFrame
		read := 0
		for part := range slices.Chunk(wire.Bytes(), step) {
			frame.see(part)
			if read += len(part); frame.whole() != (read >= size) {
				t.Errorf("step %d: whole %v after %d of %d bytes", step, frame.whole(), read, size)
			}
		}
	}
}

// A body cut in the middle of an HTTP/2 stream.
func TestHTTP2BrokenBody(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s := serveH2(t, a, func(h *h2, id uint32) bool {
		h.head(id, "200", false)
		h.WriteData(id, false, []byte("{"))
		h.WriteRSTStream(id, http2.ErrCodeInternal)
		return true
	})
	resp, err := client(t, s.url, a.trust).Do(bounded(t), post("{}"))
	if err == nil {
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
	}
	proves(t, asFailure(t, err), classify.Exchange, classify.MaybeSent, "INTERNAL_ERROR")
	s.got(t, 1)
}

func TestHTTP2ClosingBodyResetsStream(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	stopped := make(chan http2.ErrCode, 1)
	l := listenTLS(t, &tls.Config{Certificates: []tls.Certificate{a.sign(t)}, NextProtos: []string{"h2"}})
	s := serveOn(t, l, "https", func(s *raw, conn net.Conn) {
		(&h2{server: s, conn: conn}).serve(func(h *h2, id uint32) bool {
			h.head(id, "200", false)
			for {
				f, err := h.ReadFrame()
				if err != nil {
					return false
				}
				if f, ok := f.(*http2.RSTStreamFrame); ok {
					stopped <- f.ErrCode
				}
			}
		})
	})
	c := client(t, s.url, a.trust)
	resp, err := c.Do(bounded(t), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if code := <-stopped; code != http2.ErrCodeCancel {
		t.Errorf("reset with %v, want CANCEL", code)
	}
}

// After more than 10 s of rest a connection is pinged before it is used; one
// that does not answer is replaced and nothing was sent on it.
func TestHTTP2IsPingedAfterRest(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{true, false} {
		a := newAuthority(t)
		pings := make(chan struct{}, 2)
		var mu sync.Mutex
		muted := false
		l := listenTLS(t, &tls.Config{Certificates: []tls.Certificate{a.sign(t)}, NextProtos: []string{"h2"}})
		s := serveOn(t, l, "https", func(s *raw, conn net.Conn) {
			(&h2{server: s, conn: conn}).serve(func(h *h2, id uint32) bool {
				h.head(id, "202", true)
				mu.Lock()
				first := !muted
				muted = true
				mu.Unlock()
				if !first {
					return true
				}
				for { // the first connection, after its first request
					f, err := h.ReadFrame()
					if err != nil {
						return false
					}
					if f, ok := f.(*http2.PingFrame); ok {
						pings <- struct{}{}
						if !answers {
							return h.mute()
						}
						h.WritePing(true, f.Data)
						return true
					}
				}
			})
		})
		c := client(t, s.url, a.trust)
		must(t, c, post("{}"))
		c.pool.mu.Lock()
		c.pool.shared[0].rested = time.Now().Add(-idlePing - time.Second)
		c.pool.mu.Unlock()
		if resp, _ := must(t, c, post("{}")); resp.Reused != answers {
			t.Errorf("ping answered: %v; reused: %v", answers, resp.Reused)
		}
		<-pings
		s.got(t, 2)
	}
}

// mute reads on and answers nothing.
func (h *h2) mute() bool {
	h.linger()
	return false
}

// A GOAWAY on an idle connection leads to a new one, without a failure.
func TestHTTP2IdleGoAway(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s := serveH2(t, a, func(h *h2, id uint32) bool {
		h.head(id, "202", true)
		h.WriteGoAway(id, http2.ErrCodeNo, nil)
		return true
	})
	c := client(t, s.url, a.trust)
	must(t, c, post("{}"))
	eventually(t, func() bool {
		c.pool.mu.Lock()
		defer c.pool.mu.Unlock()
		return len(c.pool.shared) == 0 || c.pool.shared[0].dead()
	})
	if resp, _ := must(t, c, post("{}")); resp.Reused {
		t.Error("a connection was used after GOAWAY")
	}
	s.got(t, 2)
}

// A connection that ends right after the handshake must not be tried for ever.
func TestHTTP2EndsAtOnce(t *testing.T) {
	t.Parallel()
	const n = 20
	a := newAuthority(t)
	l := listenTLS(t, &tls.Config{Certificates: []tls.Certificate{a.sign(t)}, NextProtos: []string{"h2"}})
	s := serveOn(t, l, "https", func(_ *raw, conn net.Conn) { conn.(*tls.Conn).Handshake() })
	c := client(t, s.url, a.trust)
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			_, _, err := complete(bounded(t), c, post("{}"))
			var f *Failure
			if !errors.As(err, &f) || f.Stage != classify.Exchange && f.Stage != classify.Handshake {
				t.Errorf("got %v, want a failed handshake or exchange", err)
			}
		})
	}
	group.Wait()
	if got := s.connections(); got > n {
		t.Errorf("%d connections for %d requests", got, n)
	}
}

func TestHTTP2DropIdle(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s := serveH2(t, a, func(h *h2, id uint32) bool { h.head(id, "202", true); return true })
	c := client(t, s.url, a.trust)
	must(t, c, post("{}"))
	if resp, _ := must(t, c, post("{}")); !resp.Reused {
		t.Error("the connection was not kept")
	}
	c.DropIdle()
	if resp, _ := must(t, c, post("{}")); resp.Reused {
		t.Error("a connection survived DropIdle")
	}
}
