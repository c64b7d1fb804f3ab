package wire

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpbridge/mcpbridge/classify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client returns a Client for target that bypasses the environment, changed by
// the options.
func client(t *testing.T, target string, options ...func(*Config)) *Client {
	t.Helper()
	cfg := Config{URL: parse(t, target), Proxy: "direct", UserAgent: "mcpbridge/test"}
	for _, o := range options {
		o(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.pool.life.longest = time.Hour // as of a server that was seen to keep connections
	t.Cleanup(c.Close)
	return c
}

func parse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func post(body string) *Request {
	return &Request{
		Method: "POST",
		Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}},
		Body:   []byte(body),
		Write:  true,
	}
}

func get() *Request { return &Request{Method: "GET", Header: http.Header{}} }

// bounded is a context for things that should end long before.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// must delivers and reads the whole answer.
func must(t *testing.T, c *Client, r *Request) (*Response, string) {
	t.Helper()
	resp, text, err := complete(bounded(t), c, r)
	if err != nil {
		t.Fatal(err)
	}
	return resp, text
}

// complete is must for other goroutines than that of the test.
func complete(ctx context.Context, c *Client, r *Request) (*Response, string, error) {
	resp, err := c.Do(ctx, r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// fails delivers and returns the Failure.
func fails(t *testing.T, c *Client, r *Request) *Failure {
	t.Helper()
	resp, err := c.Do(bounded(t), r)
	if err == nil {
		resp.Body.Close()
		t.Fatalf("got status %d, want a failure", resp.Status)
	}
	return asFailure(t, err)
}

func asFailure(t *testing.T, err error) *Failure {
	t.Helper()
	var f *Failure
	if !errors.As(err, &f) {
		t.Fatalf("error %v (%T) is no *Failure", err, err)
	}
	return f
}

// proves checks what a failure says.
func proves(t *testing.T, f *Failure, stage classify.Stage, sent classify.Sent, words ...string) {
	t.Helper()
	if f.Stage != stage || f.Sent != sent {
		t.Errorf("stage %d, sent %d; want %d, %d (%s)", f.Stage, f.Sent, stage, sent, f.Detail)
	}
	for _, w := range words {
		if !strings.Contains(f.Detail, w) {
			t.Errorf("detail %q does not say %q", f.Detail, w)
		}
	}
	if strings.ContainsAny(f.Detail, "\r\n") {
		t.Errorf("detail %q is more than a line", f.Detail)
	}
}

// A raw server hands each of its connections to a function and keeps count of
// the requests it has fully read, by whatever reads them.
type raw struct {
	net.Listener
	url string

	mu    sync.Mutex
	reads []string // method and body of each request
	conns int
	open  map[net.Conn]bool
	done  sync.WaitGroup
}

func serveRaw(t *testing.T, handle func(*raw, net.Conn)) *raw {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, "http", handle)
}

func serveOn(t *testing.T, l net.Listener, scheme string, handle func(*raw, net.Conn)) *raw {
	t.Helper()
	s := &raw{Listener: l, url: scheme + "://" + l.Addr().String() + "/mcp", open: make(map[net.Conn]bool)}
	s.done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns++
			s.open[conn] = true
			s.mu.Unlock()
			s.done.Go(func() {
				defer func() {
					conn.Close()
					s.mu.Lock()
					delete(s.open, conn)
					s.mu.Unlock()
				}()
				handle(s, conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for conn := range s.open {
			conn.Close()
		}
		s.mu.Unlock()
		s.done.Wait()
	})
	return s
}

// read reads one HTTP/1.1 request and enters it into the ledger.
func (s *raw) read(r *bufio.Reader) (*http.Request, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	s.note(req.Method + " " + string(text))
	return req, nil
}

func (s *raw) note(request string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, request)
}

func (s *raw) ledger() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.reads...)
}

func (s *raw) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// got checks that the server has read exactly n requests.
func (s *raw) got(t *testing.T, n int) {
	t.Helper()
	if l := s.ledger(); len(l) != n {
		t.Errorf("ledger %q, want %d requests", l, n)
	}
}

// An authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file = writePEM(t, "ca.pem", "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// sign makes a certificate for 127.0.0.1, changed by the options.
func (a *authority) sign(t *testing.T, options ...func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, o := range options {
		o(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// trust makes a client trust the authority.
func (a *authority) trust(cfg *Config) { cfg.CACertFile = a.file }

// pair writes a certificate and its key to files.
func pair(t *testing.T, c tls.Certificate) (certFile, keyFile string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, "cert.pem", "CERTIFICATE", c.Certificate[0]), writePEM(t, "key.pem", "PRIVATE KEY", der)
}

// listenTLS listens with a certificate, offering the protocols.
func listenTLS(t *testing.T, cfg *tls.Config) net.Listener {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// reset closes a TCP connection with RST.
func reset(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}
