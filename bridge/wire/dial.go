package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
)

// Limits of a connection.
const (
	keepAlive        = 15 * time.Second // TCP: idle time before a probe, and between probes
	keepAliveCount   = 4                // probes without answer until the peer counts as dead
	maxResponseHead  = 1 << 20          // bytes of a response head
	http1Buffer      = 2 << 10          // bytes, each way; a usual request leaves in one segment
	protocolHTTP2    = "h2"             // ALPN, RFC 9113, section 3.2
	protocolHTTP1    = "http/1.1"       // ALPN, RFC 7301
	networkTCP       = "tcp"
	schemeOfHTTP1Raw = "http" // net/http then leaves TLS to us
)

var errConnectTimeout = errors.New("connect timeout")

// A dialer makes connections to one target.
type dialer struct {
	host    string // for people: as in the URL
	addr    string // host:port
	route   route
	timeout time.Duration

	tcp      net.Dialer
	tls      *tls.Config // nil: plain HTTP
	proxyTLS *tls.Config
	http1    *http.Transport
	http2    http2Side
}

func newDialer(target *url.URL, via route, trust *tls.Config, timeout time.Duration) *dialer {
	o := originOf(target)
	d := &dialer{
		host:    target.Host,
		addr:    net.JoinHostPort(o.host, o.port),
		route:   via,
		timeout: timeout,
		tcp: net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: keepAlive, Interval: keepAlive, Count: keepAliveCount,
		}},
		http1: newHTTP1(via),
		http2: newHTTP2(),
	}
	d.proxyTLS = trust.Clone()
	d.proxyTLS.Certificates = nil // ours is for the target only
	d.proxyTLS.NextProtos = []string{protocolHTTP1}
	if target.Scheme == "https" {
		d.tls = trust.Clone()
		d.tls.ServerName = o.host
		d.tls.NextProtos = []string{protocolHTTP2, protocolHTTP1}
	}
	return d
}

// aside is dial on a stack of its own: connecting takes more of it than the caller
// needs for all the time that it then waits for an answer.
func (d *dialer) aside(ctx context.Context) (cn *conn, f *Failure) {
	made := make(chan struct{})
	go func() {
		defer close(made)
		cn, f = d.dial(ctx)
	}()
	<-made
	return cn, f
}

// dial returns a new connection with one request reserved on it.
func (d *dialer) dial(ctx context.Context) (*conn, *Failure) {
	limited, cancel := context.WithTimeoutCause(ctx, d.timeout, errConnectTimeout)
	defer cancel()
	cn, f := d.connect(limited)
	if f == nil {
		return cn, nil
	}
	if ctx.Err() != nil {
		return nil, ended(ctx, f.Stage, classify.NothingSent, "connecting to "+d.host)
	}
	if limited.Err() != nil {
		f.Detail = fmt.Sprintf("no connection to %s within %s; the limit is --connect-timeout", d.host, d.timeout)
		f.Err = context.Cause(limited)
	}
	return nil, f
}

func (d *dialer) connect(ctx context.Context) (*conn, *Failure) {
	raw, f := d.reach(ctx)
	if f != nil {
		return nil, f
	}
	if d.tls == nil {
		return d.overHTTP1(ctx, raw)
	}
	secure, err := d.handshake(ctx, raw, d.tls)
	if err != nil {
		return nil, explainHandshake(err, d.host, len(d.tls.Certificates) > 0)
	}
	if secure.ConnectionState().NegotiatedProtocol == protocolHTTP2 {
		return d.overHTTP2(secure)
	}
	return d.overHTTP1(ctx, secure)
}

// endedAtOnce is the failure of a connection that ended right after it was
// made.
func (d *dialer) endedAtOnce(cn *conn, err error) *Failure {
	if alert := cn.socket.alert.Load(); alert != nil {
		return d.refusedLate(*alert, err)
	}
	return unsent(classify.Connect, err, "the connection to %s ended at once: %s", d.host, describe(err))
}

// reach returns a transport to the target, directly or through the proxy.
func (d *dialer) reach(ctx context.Context) (net.Conn, *Failure) {
	if d.route.proxy != nil {
		return d.viaProxy(ctx)
	}
	raw, err := d.tcp.DialContext(ctx, networkTCP, d.addr)
	if err == nil {
		return raw, nil
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return nil, unsent(classify.Resolve, err, "the name %s cannot be resolved (%s): check the URL and the network", dns.Name, oneLine(dns.Err))
	}
	return nil, unsent(classify.Connect, err, "cannot connect to %s: %s", d.host, describe(err))
}

// handshake closes raw if it fails.
func (d *dialer) handshake(ctx context.Context, raw net.Conn, cfg *tls.Config) (*tls.Conn, error) {
	secure := tls.Client(raw, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return secure, nil
}
