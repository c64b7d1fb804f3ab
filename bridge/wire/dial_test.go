package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
)

func TestResolveFails(t *testing.T) {
	t.Parallel()
	c := client(t, "http://no-such-host.invalid/mcp")
	proves(t, fails(t, c, post("{}")), classify.Resolve, classify.NothingSent, "no-such-host.invalid", "cannot be resolved")
}

// closedPort is an address at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestConnectRefused(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		c := client(t, scheme+"://"+closedPort(t)+"/mcp")
		proves(t, fails(t, c, post("{}")), classify.Connect, classify.NothingSent, "connection refused")
	}
}

// A server that accepts and is silent during the handshake.
func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, func(_ *raw, conn net.Conn) { io.Copy(io.Discard, conn) })
	target := strings.Replace(s.url, "http:", "https:", 1)
	c := client(t, target, func(cfg *Config) { cfg.ConnectTimeout = 50 * time.Millisecond })
	f := fails(t, c, post("{}"))
	proves(t, f, classify.Handshake, classify.NothingSent, "within 50ms", "--connect-timeout")
	if f.Err != errConnectTimeout {
		t.Errorf("cause %v", f.Err)
	}
}

func TestCancelledWhileConnecting(t *testing.T) {
	t.Parallel()
	accepted := make(chan struct{})
	s := serveRaw(t, func(_ *raw, conn net.Conn) {
		io.CopyN(io.Discard, conn, 1) // of the ClientHello: the client is past connecting
		close(accepted)
		io.Copy(io.Discard, conn)
	})
	c := client(t, strings.Replace(s.url, "http:", "https:", 1))
	ctx, cancel := context.WithCancel(bounded(t))
	go func() { <-accepted; cancel() }()
	_, err := c.Do(ctx, post("{}"))
	proves(t, asFailure(t, err), classify.Handshake, classify.NothingSent, "cancelled while connecting")
}

// Those who wait for another's dial are not cancelled with it.
func TestWaitersSurviveTheLeader(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dialed, leave := make(chan struct{}, 2), make(chan struct{})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{a.sign(t)}}
	s := serveOn(t, inner, "https", func(s *raw, conn net.Conn) {
		dialed <- struct{}{}
		<-leave
		secure := tls.Server(conn, cfg)
		defer secure.Close()
		echo(s, secure)
	})
	c := client(t, s.url, a.trust)
	ctx, cancel := context.WithCancel(bounded(t))
	led := make(chan error, 1)
	go func() { _, err := c.Do(ctx, post("leader")); led <- err }()
	<-dialed
	followed := make(chan error, 1)
	go func() {
		resp, err := c.Do(bounded(t), post("follower"))
		if err == nil {
			resp.Body.Close()
		}
		followed <- err
	}()
	cancel()
	if f := asFailure(t, <-led); f.Sent != classify.NothingSent {
		t.Errorf("the leader may have sent something: %s", f.Detail)
	}
	close(leave)
	if err := <-followed; err != nil {
		t.Error(err)
	}
	s.got(t, 1)
}

func TestCertificateProblems(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for _, test := range []struct {
		name   string
		change func(*x509.Certificate)
		trust  func(*Config)
		words  []string
	}{
		{"unknown authority", func(*x509.Certificate) {}, func(*Config) {}, []string{"authority unknown here", "--ca-cert"}},
		{"wrong name", func(c *x509.Certificate) { c.IPAddresses = nil; c.DNSNames = []string{"elsewhere.example"} }, a.trust, []string{"another name"}},
		{"expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, a.trust, []string{"expired on"}},
		{"not yet valid", func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		}, a.trust, []string{"valid only from", "clock"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := listenTLS(t, &tls.Config{Certificates: []tls.Certificate{a.sign(t, test.change)}})
			s := serveOn(t, l, "https", echo)
			proves(t, fails(t, client(t, s.url, test.trust), post("{}")), classify.Handshake, classify.NothingSent, test.words...)
			s.got(t, 0)
		})
	}
}

func TestPlainServerBehindHTTPS(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, func(_ *raw, conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		io.Copy(io.Discard, conn)
	})
	c := client(t, strings.Replace(s.url, "http:", "https:", 1))
	proves(t, fails(t, c, post("{}")), classify.Handshake, classify.NothingSent, "does not speak TLS")
}

func TestCustomAuthority(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	l := listenTLS(t, &tls.Config{Certificates: []tls.Certificate{a.sign(t)}})
	s := serveOn(t, l, "https", echo)
	if resp, _ := must(t, client(t, s.url, a.trust), post("{}")); resp.Proto != "HTTP/1.1" {
		t.Errorf("protocol %s", resp.Proto)
	}
}

// A server that demands a client certificate refuses in TLS 1.3 only after our
// side of the handshake is complete and the request may have left.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	known := x509.NewCertPool()
	known.AddCert(a.cert)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, protocol := range []string{"http/1.1", "h2"} {
			t.Run(tls.VersionName(version)+" "+protocol, func(t *testing.T) {
				t.Parallel()
				l := listenTLS(t, &tls.Config{
					Certificates: []tls.Certificate{a.sign(t)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: known,
					MaxVersion: version, NextProtos: []string{protocol},
				})
				s := serveOn(t, l, "https", func(s *raw, conn net.Conn) {
					secure := conn.(*tls.Conn)
					if secure.Handshake() != nil {
						// Reading on keeps the alert from being overtaken by a reset.
						secure.NetConn().(*net.TCPConn).CloseWrite()
						io.Copy(io.Discard, secure.NetConn())
						return
					}
					if protocol == "h2" {
						(&h2{server: s, conn: conn}).serve(func(h *h2, id uint32) bool { h.head(id, "202", true); return true })
						return
					}
					echo(s, conn)
				})
				f := fails(t, client(t, s.url, a.trust), post("{}"))
				proves(t, f, classify.Handshake, classify.NothingSent, "--client-cert")
				cert, key := pair(t, other.sign(t))
				f = fails(t, client(t, s.url, a.trust, func(cfg *Config) { cfg.ClientCertFile, cfg.ClientKeyFile = cert, key }), post("{}"))
				proves(t, f, classify.Handshake, classify.NothingSent, "--client-cert")
				s.got(t, 0)
				cert, key = pair(t, a.sign(t))
				must(t, client(t, s.url, a.trust, func(cfg *Config) { cfg.ClientCertFile, cfg.ClientKeyFile = cert, key }), post("{}"))
				s.got(t, 1)
			})
		}
	}
}

// A server that hangs up with our request unread resets the connection; its
// alert must not get lost over that.
func TestClientCertificateAlertSurvivesReset(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for _, protocol := range []string{"http/1.1", "h2"} {
		l := listenTLS(t, &tls.Config{
			Certificates: []tls.Certificate{a.sign(t)}, ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{protocol},
		})
		s := serveOn(t, l, "https", func(_ *raw, conn net.Conn) { conn.(*tls.Conn).Handshake() })
		for _, size := range []int{2, 100_000, 2_000_000} {
			for range 10 {
				f := fails(t, client(t, s.url, a.trust), post(strings.Repeat("x", size)))
				proves(t, f, classify.Handshake, classify.NothingSent, "certificate required")
			}
		}
	}
}

// A proxyServer is an HTTP proxy that allows what it is told to.
func proxyServer(t *testing.T, l net.Listener, login string, status int) *raw {
	t.Helper()
	return serveOn(t, l, "http", func(s *raw, conn net.Conn) {
		r := bufio.NewReader(conn)
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		s.note(req.Method + " " + req.RequestURI)
		if login != "" && req.Header.Get("Proxy-Authorization") != login {
			io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
			return
		}
		if status != 200 {
			fmt.Fprintf(conn, "HTTP/1.1 %d Sorry\r\nContent-Length: 0\r\n\r\n", status)
			return
		}
		to, err := net.Dial("tcp", req.Host)
		if err != nil {
			return
		}
		defer to.Close()
		if req.Method == http.MethodConnect {
			io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		} else if req.Header.Del("Proxy-Authorization"); req.Write(to) != nil {
			return
		}
		go func() { io.Copy(to, r); to.Close() }()
		io.Copy(conn, to)
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const secret = "swordfish"

func TestProxies(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	const login = "Basic dXNlcjpzd29yZGZpc2g=" // user:swordfish
	plain := serveRaw(t, echo)
	secure := serveOn(t, listenTLS(t, &tls.Config{Certificates: []tls.Certificate{a.sign(t)}}), "https", echo)
	for _, target := range []*raw{plain, secure} {
		for _, overTLS := range []bool{false, true} {
			t.Run(fmt.Sprintf("%.5s overTLS=%v", target.url, overTLS), func(t *testing.T) {
				scheme, l := "http", listen(t)
				if overTLS {
					l.Close()
					scheme, l = "https", listenTLS(t, &tls.Config{Certificates: []tls.Certificate{a.sign(t)}})
				}
				p := proxyServer(t, l, login, 200)
				via := func(user string) func(*Config) {
					return func(cfg *Config) { cfg.Proxy = scheme + "://" + user + l.Addr().String() }
				}
				before := len(target.ledger())
				must(t, client(t, target.url, a.trust, via("user:"+secret+"@")), post("{}"))
				target.got(t, before+1)
				p.got(t, 1)
				if line := p.ledger()[0]; (target == plain) != strings.HasPrefix(line, "POST http://") {
					t.Errorf("proxy got %q", line)
				}
				f := fails(t, client(t, target.url, a.trust, via("")), post("{}"))
				proves(t, f, classify.Proxy, classify.NothingSent, l.Addr().String(), "407")
				f = fails(t, client(t, target.url, a.trust, via("user:wrong-"+secret+"@")), post("{}"))
				proves(t, f, classify.Proxy, classify.NothingSent, "does not accept", "407")
				if strings.Contains(f.Detail, secret) || strings.Contains(f.Detail, "user:") {
					t.Errorf("detail %q holds credentials", f.Detail)
				}
				target.got(t, before+1)
			})
		}
	}
}

func TestProxyRefusesToConnect(t *testing.T) {
	t.Parallel()
	l := listen(t)
	proxyServer(t, l, "", 403)
	c := client(t, "https://upstream.example/mcp", func(cfg *Config) { cfg.Proxy = "http://user:" + secret + "@" + l.Addr().String() })
	f := fails(t, c, post("{}"))
	proves(t, f, classify.Proxy, classify.NothingSent, l.Addr().String(), "upstream.example:443", "403")
	if strings.Contains(f.Detail, secret) {
		t.Errorf("detail %q holds the password", f.Detail)
	}
}

func TestProxyUnreachable(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https", "socks5"} {
		gone := closedPort(t)
		c := client(t, "https://upstream.example/mcp", func(cfg *Config) { cfg.Proxy = scheme + "://user:" + secret + "@" + gone })
		f := fails(t, c, post("{}"))
		proves(t, f, classify.Proxy, classify.NothingSent, gone, "connection refused")
		if strings.Contains(f.Detail, secret) {
			t.Errorf("detail %q holds the password", f.Detail)
		}
	}
}

// socks serves one SOCKS5 connection (RFC 1928, 1929).
func socks(s *raw, conn net.Conn, reply byte) {
	r := bufio.NewReader(conn)
	head := make([]byte, 2)
	io.ReadFull(r, head)
	io.CopyN(io.Discard, r, int64(head[1]))
	conn.Write([]byte{5, 2})
	io.ReadFull(r, head)
	io.CopyN(io.Discard, r, int64(head[1]))
	n, _ := r.ReadByte()
	password := make([]byte, n)
	io.ReadFull(r, password)
	s.note(string(password))
	conn.Write([]byte{1, 0})
	ask := make([]byte, 10) // an IPv4 address
	io.ReadFull(r, ask)
	conn.Write([]byte{5, reply, 0, 1, 0, 0, 0, 0, 0, 0})
	if reply != 0 {
		return
	}
	to, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", int(ask[8])<<8|int(ask[9])))
	if err != nil {
		return
	}
	defer to.Close()
	go func() { io.Copy(to, r); to.Close() }()
	io.Copy(conn, to)
}

func TestSOCKS(t *testing.T) {
	t.Parallel()
	target := serveRaw(t, echo)
	for _, reply := range []byte{0, 2} {
		p := serveRaw(t, func(s *raw, conn net.Conn) { socks(s, conn, reply) })
		c := client(t, target.url, func(cfg *Config) { cfg.Proxy = "socks5://user:" + secret + "@" + p.Addr().String() })
		if reply == 0 {
			must(t, c, post("{}"))
		} else {
			f := fails(t, c, post("{}"))
			proves(t, f, classify.Proxy, classify.NothingSent, p.Addr().String(), "refused to connect")
			if strings.Contains(f.Detail, secret) {
				t.Errorf("detail %q holds the password", f.Detail)
			}
		}
		if l := p.ledger(); len(l) != 1 || l[0] != secret {
			t.Errorf("proxy got passwords %q", l)
		}
	}
	target.got(t, 1)
}

// The environment is read when the client is made; loopback is never proxied
// by it, and --proxy beats it.
func TestProxyFromEnvironment(t *testing.T) {
	target := serveRaw(t, echo)
	proxy := proxyServer(t, listen(t), "", 403)
	t.Setenv("HTTP_PROXY", "http://"+proxy.Addr().String())
	t.Setenv("HTTPS_PROXY", "http://"+proxy.Addr().String())
	t.Setenv("NO_PROXY", "spared.invalid,.suffix.invalid:8443,10.0.0.0/8")
	environment := func(cfg *Config) { cfg.Proxy = "" }

	must(t, client(t, target.url, environment), post("{}"))
	proxy.got(t, 0)
	for _, through := range []string{"https://other.invalid/", "https://a.suffix.invalid/"} {
		proves(t, fails(t, client(t, through, environment), post("{}")), classify.Proxy, classify.NothingSent, "403")
	}
	proxy.got(t, 2)
	for _, past := range []string{"https://spared.invalid/", "https://a.suffix.invalid:8443/"} {
		proves(t, fails(t, client(t, past, environment), post("{}")), classify.Resolve, classify.NothingSent)
	}
	if via, err := routeTo(parse(t, "https://10.1.2.3/"), ""); err != nil || via.proxy != nil {
		t.Errorf("an address within NO_PROXY goes through %v, %v", via.proxy, err)
	}
	c := client(t, target.url, func(cfg *Config) { cfg.Proxy = "http://" + proxy.Addr().String() })
	if resp, _ := must(t, c, post("{}")); resp.Status != 403 {
		t.Errorf("--proxy was not used for loopback: status %d", resp.Status)
	}
	proves(t, fails(t, client(t, "https://other.invalid/"), post("{}")), classify.Resolve, classify.NothingSent)
}
