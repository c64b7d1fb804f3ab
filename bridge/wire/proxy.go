package wire

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"

	"github.com/mcpbridge/mcpbridge/classify"
)

// A route says through which proxy the target is reached. The zero route is
// the direct one.
type route struct {
	proxy *url.URL
	// forward: the proxy is asked for http:// URLs itself, without a tunnel.
	forward bool
}

// routeTo reads a setting (see Config.Proxy) or the environment as it is now.
// A setting holds for loopback too, the environment does not.
func routeTo(target *url.URL, setting string) (route, error) {
	var via *url.URL
	var err error
	switch setting {
	case "direct":
		return route{}, nil
	case "":
		if via, err = httpproxy.FromEnvironment().ProxyFunc()(target); err != nil {
			return route{}, fmt.Errorf("configure proxy: %s_PROXY in the environment is no proxy URL", strings.ToUpper(target.Scheme))
		}
	default:
		if via, err = parseProxy(setting); err != nil {
			return route{}, err
		}
	}
	if via == nil {
		return route{}, nil
	}
	switch via.Scheme {
	case "http", "https":
		return route{proxy: via, forward: target.Scheme == "http"}, nil
	case "socks5", "socks5h":
		return route{proxy: via}, nil
	}
	return route{}, fmt.Errorf("configure proxy: scheme %q is not supported; use http, https or socks5", via.Scheme)
}

// parseProxy reads URL or HOST:PORT. Its errors do not repeat the text, which
// may hold a password.
func parseProxy(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("configure proxy: not a URL; write http://HOST:PORT, socks5://HOST:PORT or direct")
	}
	return u, nil
}

// address returns the host and port to connect to, and nothing else.
func address(u *url.URL) string {
	o := originOf(u)
	return net.JoinHostPort(o.host, o.port)
}

// viaProxy returns a connection that reaches the target through the proxy: a
// tunnel, or for a forwarding proxy the proxy itself.
func (d *dialer) viaProxy(ctx context.Context) (net.Conn, *Failure) {
	via := d.route.proxy
	if via.Scheme == "socks5" || via.Scheme == "socks5h" {
		return d.viaSOCKS(ctx, via)
	}
	conn, f := d.toProxy(ctx, via)
	if f != nil || d.route.forward {
		return conn, f
	}
	if f := tunnel(ctx, conn, via, d.addr); f != nil {
		conn.Close()
		return nil, f
	}
	return conn, nil
}

func (d *dialer) toProxy(ctx context.Context, via *url.URL) (net.Conn, *Failure) {
	conn, err := d.tcp.DialContext(ctx, "tcp", address(via))
	if err != nil {
		return nil, unreachedProxy(via, err)
	}
	if via.Scheme != "https" {
		return conn, nil
	}
	cfg := d.proxyTLS.Clone()
	cfg.ServerName = originOf(via).host
	secure, err := d.handshake(ctx, conn, cfg)
	if err != nil {
		f := explainHandshake(err, "proxy "+address(via), false)
		f.Stage = classify.Proxy
		return nil, f
	}
	return secure, nil
}

func unreachedProxy(via *url.URL, err error) *Failure {
	return unsent(classify.Proxy, err, "proxy %s cannot be reached (%s): check --proxy or the proxy variables of the environment",
		address(via), describe(err))
}

// headLimit bounds the head of a proxy's answer to CONNECT, in bytes.
const headLimit = 64 << 10

// tunnel asks an HTTP proxy for a connection to target (RFC 9110, 9.3.6).
func tunnel(ctx context.Context, conn net.Conn, via *url.URL, target string) *Failure {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{}}
	if basic := proxyBasic(via); basic != "" {
		ask.Header.Set("Proxy-Authorization", basic)
	}
	err := ask.Write(conn)
	var answer *http.Response
	if err == nil {
		answer, err = http.ReadResponse(bufio.NewReader(io.LimitReader(conn, headLimit)), ask)
	}
	switch {
	case err != nil:
		return unsent(classify.Proxy, err, "proxy %s did not answer CONNECT: %s", address(via), describe(err))
	case answer.StatusCode == http.StatusProxyAuthRequired:
		return wantsLogin(via)
	case answer.StatusCode/100 != 2:
		return unsent(classify.Proxy, nil, "proxy %s refused to connect to %s: %s", address(via), target, oneLine(answer.Status))
	}
	return nil
}

// wantsLogin is the failure of a request that a proxy answered with 407.
func wantsLogin(via *url.URL) *Failure {
	if via.User != nil {
		return unsent(classify.Proxy, nil, "proxy %s does not accept the user name and password it was given (407)", address(via))
	}
	return unsent(classify.Proxy, nil, "proxy %s wants a user name and password (407): give them in the proxy URL, http://USER:PASSWORD@HOST:PORT",
		address(via))
}

func proxyBasic(via *url.URL) string {
	if via.User == nil {
		return ""
	}
	password, _ := via.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(via.User.Username()+":"+password))
}

// viaSOCKS connects through a SOCKS5 proxy (RFC 1928), which resolves the name.
func (d *dialer) viaSOCKS(ctx context.Context, via *url.URL) (net.Conn, *Failure) {
	var login *proxy.Auth
	if via.User != nil {
		password, _ := via.User.Password()
		login = &proxy.Auth{User: via.User.Username(), Password: password}
	}
	var reached firstHop
	reached.tcp = d.tcp
	socks, err := proxy.SOCKS5("tcp", address(via), login, &reached)
	if err != nil {
		return nil, unsent(classify.Proxy, err, "proxy %s cannot be used: %s", address(via), describe(err))
	}
	dial, ok := socks.(proxy.ContextDialer)
	if !ok {
		return nil, unsent(classify.Proxy, nil, "proxy %s cannot be used: its dialer takes no context", address(via))
	}
	conn, err := dial.DialContext(ctx, "tcp", d.addr)
	if err != nil && reached.err != nil {
		return nil, unreachedProxy(via, reached.err)
	}
	if err != nil {
		return nil, unsent(classify.Proxy, err, "proxy %s refused to connect to %s: %s", address(via), d.addr, describe(err))
	}
	return conn, nil
}

// A firstHop connects to a SOCKS proxy and remembers why that failed.
type firstHop struct {
	tcp net.Dialer
	err error
}

func (h *firstHop) Dial(network, addr string) (net.Conn, error) {
	return h.DialContext(context.Background(), network, addr)
}

func (h *firstHop) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := h.tcp.DialContext(ctx, network, addr)
	h.err = err
	return conn, err
}
