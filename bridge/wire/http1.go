package wire

import (
	"context"
	"net"
	"net/http"
	"net/url"
)

// madeKey is the context key under which overHTTP1 hands a finished connection
// to the Transport's dial function.
type madeKey struct{}

// newHTTP1 returns a Transport that turns finished connections into HTTP/1.1
// ones. It never dials, keeps no pool and never sends again.
func newHTTP1(via route) *http.Transport {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			made, ok := ctx.Value(madeKey{}).(net.Conn)
			if !ok {
				return nil, net.ErrClosed
			}
			return made, nil
		},
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxResponseHead,
		ReadBufferSize:         http1Buffer,
		WriteBufferSize:        http1Buffer,
	}
	if via.forward {
		// The absolute form (RFC 9112, 3.2.2) and Proxy-Authorization. Whether the
		// proxy is reached over TLS is settled before.
		plain := &url.URL{Scheme: "http", Host: address(via.proxy), User: via.proxy.User}
		t.Proxy = func(*http.Request) (*url.URL, error) { return plain, nil }
	}
	return t
}

func (d *dialer) overHTTP1(ctx context.Context, raw net.Conn) (*conn, *Failure) {
	cn := &conn{socket: newSocket(raw)}
	var made net.Conn = cn.socket
	h1, err := d.http1.NewClientConn(context.WithValue(ctx, madeKey{}, made), schemeOfHTTP1Raw, d.addr)
	if err == nil {
		err = h1.Reserve()
	}
	if err != nil {
		raw.Close()
		return nil, d.endedAtOnce(cn, err)
	}
	cn.http1 = h1
	return cn, nil
}
