package faults

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// A server that refuses the client's certificate does so, in TLS 1.3, after the
// client took the handshake for complete and may have written its request. That
// nothing was executed is known all the same.
func TestLateClientCertificate(t *testing.T) {
	t.Parallel()
	conf, _, err := bridgetest.SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(conf.Certificates[0].Leaf)
	gate := &atomic.Bool{} // closed after the tools are known
	conf.MinVersion = tls.VersionTLS13
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := conf.Clone()
		c.GetConfigForClient = nil
		if gate.Load() {
			c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool
		}
		return c, nil
	}
	ca := writeCertificate(t, conf.Certificates[0].Certificate[0])
	cert, key := strangerCertificate(t)
	for name, args := range map[string][]string{
		"none":  {"--ca-cert=" + ca},
		"wrong": {"--ca-cert=" + ca, "--client-cert=" + cert, "--client-key=" + key},
	} {
		t.Run(name, func(t *testing.T) {
			up := startUpstream(t, bridgetest.Options{TLS: conf})
			gate.Store(false)
			l := startLane(t, bridgetest.Modern, up, append(args, up.URL())...)
			l.knowTools()
			gate.Store(true)
			up.Restart() // so that the next call needs a handshake
			for i := range 20 {
				said := read(l.call("write_note", fmt.Sprintf(`{"key":"note %d"}`, i)))
				if said.head != notSent || said.verdict.Effect != "none" {
					t.Fatalf("call %d: told %q, %+v", i, said.text, said.verdict)
				}
				if !strings.Contains(said.text, "--client-cert") {
					t.Fatalf("call %d: no cure in %q", i, said.text)
				}
			}
			if n := up.Ledger().Effects("write_note"); n != 0 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// strangerCertificate writes a client certificate that nobody trusts.
func strangerCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stranger"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// An HTTP/2 server that reads the whole request, acts and then resets the
// stream has proven nothing: the call is not repeated. REFUSED_STREAM proves
// that nothing was done.
func TestHTTP2Reset(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code       http2.ErrCode
		head       string
		deliveries int64
	}{
		{http2.ErrCodeProtocol, unknown, 1},
		{http2.ErrCodeInternal, unknown, 1},
		{http2.ErrCodeCancel, unknown, 1},
		{http2.ErrCodeEnhanceYourCalm, unknown, 1},
		{http2.ErrCodeRefusedStream, notSent, mostDeliveries},
	} {
		t.Run(c.code.String(), func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t, bridgetest.Options{Era: bridgetest.Modern})
			s := startResetter(t, up.URL(), c.code)
			l := startLane(t, bridgetest.Modern, up, "--ca-cert="+s.ca, s.url)
			l.knowTools()
			said := read(l.call("write_note", `{"key":"k"}`))
			if said.head != c.head || said.verdict.Deliveries != int(c.deliveries) {
				t.Errorf("told %q, %+v", said.text, said.verdict)
			}
			if n := s.resets.Load(); n != c.deliveries {
				t.Errorf("the server reset %d requests, want %d", n, c.deliveries)
			}
			if next := read(l.call("echo", `{"text":"next"}`)); next.head != told {
				t.Errorf("the next call: %q", next.text)
			}
		})
	}
}

// A resetter is an HTTP/2 server that passes everything on but tools/call of
// write_note: that it reads to the end, and resets.
type resetter struct {
	url, ca string
	behind  string
	code    http2.ErrCode
	resets  atomic.Int64
	work    sync.WaitGroup
}

func startResetter(t *testing.T, behind string, code http2.ErrCode) *resetter {
	t.Helper()
	conf, _, err := bridgetest.SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	conf.NextProtos = []string{"h2"}
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	s := &resetter{url: "https://" + l.Addr().String() + "/mcp", behind: behind, code: code, ca: writeCertificate(t, conf.Certificates[0].Certificate[0])}
	var open sync.Map
	s.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(c, nil)
			s.work.Go(func() { defer func() { _ = c.Close() }(); s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		open.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
		s.work.Wait()
	})
	return s
}

// An h2request is one stream until its body is complete.
type h2request struct {
	header http.Header
	body   strings.Builder
}

func (s *resetter) serve(c net.Conn) {
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	fr := http2.NewFramer(c, c)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if fr.WriteSettings() != nil {
		return
	}
	streams := map[uint32]*h2request{}
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return
		}
		var done uint32
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = fr.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = fr.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			r := &h2request{header: http.Header{}}
			for _, h := range f.RegularFields() {
				r.header.Add(h.Name, h.Value)
			}
			streams[f.StreamID] = r
			if f.StreamEnded() {
				done = f.StreamID
			}
		case *http2.DataFrame:
			if r := streams[f.StreamID]; r != nil {
				_, _ = r.body.Write(f.Data()) // never fails
				if f.StreamEnded() {
					done = f.StreamID
				}
			}
		}
		if done != 0 {
			err = s.answer(fr, done, streams[done])
			delete(streams, done)
		}
		if err != nil {
			return
		}
	}
}

func (s *resetter) answer(fr *http2.Framer, id uint32, r *h2request) error {
	if strings.Contains(r.body.String(), `"write_note"`) {
		s.resets.Add(1)
		return fr.WriteRSTStream(id, s.code)
	}
	status, contentType, body, err := s.ask(r)
	if err != nil {
		return err
	}
	var block strings.Builder
	enc := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{{Name: ":status", Value: fmt.Sprint(status)}, {Name: "content-type", Value: contentType}} {
		if err := enc.WriteField(f); err != nil {
			return err
		}
	}
	if err := fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(block.String()), EndHeaders: true}); err != nil {
		return err
	}
	const frame = 16 << 10
	for len(body) > frame {
		if err := fr.WriteData(id, false, body[:frame]); err != nil {
			return err
		}
		body = body[frame:]
	}
	return fr.WriteData(id, true, body)
}

// ask passes a request on to the server behind.
func (s *resetter) ask(r *h2request) (status int, contentType string, body []byte, err error) {
	req, err := http.NewRequest(http.MethodPost, s.behind, strings.NewReader(r.body.String()))
	if err != nil {
		return 0, "", nil, err
	}
	for name, values := range r.header {
		if name != "Content-Length" {
			req.Header[name] = values
		}
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header.Get("Content-Type"), body, err
}

// A server closes idle connections in the same moment in which requests are
// sent. No write may be lost in that race: of 100, none ends unknown, and each
// is executed once.
func TestKeepAliveRace(t *testing.T) {
	t.Parallel()
	bothEras(t, func(t *testing.T, era bridgetest.Era) {
		const rounds, atOnce = 4, 25
		// Longer than a write trusts a connection, by what a busy machine may lose
		// between the server's clock and ours.
		const idle = 1500 * time.Millisecond
		up := startUpstream(t, bridgetest.Options{Era: era, NoGETStream: true})
		l := startLane(t, era, up, up.URL())
		l.knowTools()
		l.fault("close-idle:" + idle.String())
		pace := time.NewTicker(idle)
		defer pace.Stop()
		for round := range rounds {
			var calls sync.WaitGroup
			for i := range atOnce {
				calls.Go(func() {
					key := fmt.Sprintf("note %d of round %d", i, round)
					r, err := l.host.CallTool(l.ctx, "write_note", fmt.Sprintf(`{"key":%q}`, key))
					if said := read(r); err != nil || said.head != told {
						t.Errorf("%s: %v, told %q", key, err, said.text)
					}
					if n := up.Ledger().EffectsOf("write_note", key); n != 1 {
						t.Errorf("%s: %d effects", key, n)
					}
				})
			}
			calls.Wait()
			if round < rounds-1 {
				<-pace.C
			}
		}
	})
}
