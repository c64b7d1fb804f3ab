package wire

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A conn is one connection to the target: exactly one of http1 and http2.
type conn struct {
	socket *socket
	http1  *http.ClientConn
	http2  *http2Conn

	answered atomic.Bool // a response head came over it

	// Guarded by pool.mu:
	gen    int       // pool.gen when it was made
	uses   int       // requests it carried
	active int       // requests it carries
	broken bool      // it refused a request; not to be used again
	lead   *flight   // lands when the server's SETTINGS are known; then nil
	rested time.Time // when it last became idle
}

func (cn *conn) roundTrip(req *http.Request) (*http.Response, error) {
	if cn.http2 != nil {
		return cn.http2.RoundTrip(req)
	}
	return cn.http1.RoundTrip(req)
}

func (cn *conn) close() {
	if cn.http2 != nil {
		cn.http2.Close()
		return
	}
	cn.http1.Close()
}

// dead reports whether a connection that carries no request can carry none. An
// HTTP/2 connection that ended before its first request does not know it.
func (cn *conn) dead() bool {
	if cn.http2 != nil {
		return !cn.http2.CanTakeNewRequest()
	}
	return cn.http1.Err() != nil
}

// A socket counts what is written above TLS, where only HTTP is seen: neither
// a handshake nor a proxy's greeting counts.
type socket struct {
	net.Conn

	// writes counts the writes of which a byte may have left. A write that is
	// under way counts; one that failed with nothing written does not. Under TLS
	// the latter may have left a part of a record, which no peer can read
	// (RFC 8446, 5.2: records are authenticated as a whole).
	writes atomic.Int64

	alert atomic.Pointer[string]    // the certificate alert by which the peer ended it
	ended atomic.Pointer[time.Time] // when its end was read
	heard chan struct{}             // closed when the first Read has returned
	first sync.Once

	// Of HTTP/2, what the reading goroutine has seen of the server's SETTINGS,
	// whether it has dealt with them, and who wants to know of that or of the
	// end.
	settings settingsFrame
	settled  atomic.Bool
	watch    atomic.Pointer[func(ended bool)]
}

// lastWords is how long a failed write waits for what the peer said before it
// closed.
const lastWords = 100 * time.Millisecond

func newSocket(c net.Conn) *socket { return &socket{Conn: c, heard: make(chan struct{})} }

func (s *socket) Write(p []byte) (int, error) {
	s.writes.Add(1)
	n, err := s.Conn.Write(p)
	if err != nil {
		if n == 0 {
			s.writes.Add(-1)
		}
		s.listen()
	}
	return n, err
}

// listen gives the goroutine that reads a moment to see the alert of a server
// that hung up on us: the failed write is about to close the connection.
func (s *socket) listen() {
	late := time.NewTimer(lastWords)
	defer late.Stop()
	select {
	case <-s.heard:
	case <-late.C:
	}
}

func (s *socket) Read(p []byte) (int, error) {
	if s.settings.whole() && !s.settled.Load() {
		s.settled.Store(true)
		s.tell(false)
	}
	n, err := s.Conn.Read(p)
	s.settings.see(p[:n])
	if err != nil {
		end := time.Now()
		s.ended.CompareAndSwap(nil, &end)
		if alert, ok := certificateAlert(err); ok {
			s.alert.Store(&alert)
		}
		s.tell(true)
	}
	s.first.Do(func() { close(s.heard) })
	return n, err
}

func (s *socket) tell(ended bool) {
	if watch := s.watch.Load(); watch != nil {
		(*watch)(ended)
	}
}
