package wire

//lint:file-ignore SA1019 net/http's own HTTP/2 connection cannot be pinged before it is used.

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// Limits of HTTP/2.
const (
	pingEvery     = 30 * time.Second // without a frame from the peer
	pingPatience  = 15 * time.Second // until such a ping counts as lost
	writePatience = 30 * time.Second // for a byte to leave, or the connection counts as dead
	idlePing      = 10 * time.Second // idle for longer: ping before use
	idlePingWait  = 3 * time.Second  // for the answer to that ping
	streamWindow  = 1 << 20          // bytes a server may send ahead per stream
	sessionWindow = 64 << 20         // and per connection
)

// An http2Conn is one HTTP/2 connection. Of its methods those are used that do
// not wait for a write in progress.
type http2Conn = http2.ClientConn

// An http2Side turns TLS connections that negotiated h2 into HTTP/2 ones.
type http2Side struct{ transport *http2.Transport }

func newHTTP2() http2Side {
	t, err := http2.ConfigureTransports(&http.Transport{
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxResponseHead,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:               pingEvery,
			PingTimeout:                   pingPatience,
			WriteByteTimeout:              writePatience,
			MaxReceiveBufferPerStream:     streamWindow,
			MaxReceiveBufferPerConnection: sessionWindow,
		},
	})
	if err != nil { // the Transport is ours and new: it has no other "https"
		t = &http2.Transport{DisableCompression: true, ReadIdleTimeout: pingEvery}
	}
	return http2Side{t}
}

func (d *dialer) overHTTP2(raw net.Conn) (*conn, *Failure) {
	cn := &conn{socket: newSocket(raw)}
	h2, err := d.http2.transport.NewClientConn(cn.socket)
	if err != nil {
		raw.Close()
		return nil, d.endedAtOnce(cn, err)
	}
	cn.http2 = h2
	h2.ReserveNewRequest()
	return cn, nil
}

// alive pings a connection that was idle for long.
func (cn *conn) alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, idlePingWait)
	defer cancel()
	return cn.http2.Ping(ctx) == nil
}

// unprocessed reports whether an HTTP/2 error proves that the server took
// nothing of the request: RST_STREAM with REFUSED_STREAM (RFC 9113, 8.7), or
// GOAWAY with a last stream below ours (6.8). x/net exports no value for the
// latter, only these texts; were they to change, such a request would merely
// count as possibly sent.
func unprocessed(err error) (refused bool, why string) {
	var stream http2.StreamError
	if errors.As(err, &stream) {
		return stream.Code == http2.ErrCodeRefusedStream, "REFUSED_STREAM"
	}
	text := err.Error()
	goAway := strings.HasPrefix(text, "http2: Transport received Server's graceful shutdown GOAWAY") ||
		strings.HasPrefix(text, "http2: Transport received GOAWAY from server ErrCode:")
	return goAway, "GOAWAY"
}

// unused reports whether an HTTP/2 error says that the connection could not
// take the request, so that nothing of it was written.
func unused(err error) bool {
	switch err.Error() {
	case "http2: client conn not usable", "http2: client conn could not be established":
		return true
	}
	return false
}

// describeHTTP2 returns the cause of an HTTP/2 error in few words, or "".
func describeHTTP2(err error) string {
	var stream http2.StreamError
	var goAway http2.GoAwayError
	var session http2.ConnectionError
	switch {
	case errors.As(err, &stream):
		return "stream reset with " + stream.Code.String()
	case errors.As(err, &goAway):
		return "connection closed after GOAWAY " + goAway.ErrCode.String()
	case errors.As(err, &session):
		return "HTTP/2 connection error " + http2.ErrCode(session).String()
	}
	return ""
}
