package bridge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// inProcess is a bridge in this process with a host on real pipes.
type inProcess struct {
	t      *testing.T
	bridge *Bridge
	in     *os.File
	lines  *bufio.Reader
	out    *os.File
	ended  chan error
	id     int
}

// startInProcess runs a bridge for cfg until the test ends.
func startInProcess(t *testing.T, cfg Config) *inProcess {
	t.Helper()
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	in, hostIn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	hostOut, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := newInProcess(t, b, hostIn, hostOut)
	go func() {
		p.ended <- b.Run(context.Background(), in, out)
		in.Close()
		out.Close()
	}()
	t.Cleanup(func() {
		hostIn.Close()
		if err := <-p.ended; err != nil {
			t.Error(err)
		}
		hostOut.Close()
	})
	return p
}

func newInProcess(t *testing.T, b *Bridge, hostIn, hostOut *os.File) *inProcess {
	return &inProcess{t: t, bridge: b, in: hostIn, out: hostOut, lines: bufio.NewReader(hostOut), ended: make(chan error, 1)}
}

// call sends a request and returns the line that answers it.
func (p *inProcess) call(method, params string) *jsonrpc.Message {
	p.t.Helper()
	p.id++
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, p.id, method, params))
	p.out.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		line, err := p.lines.ReadBytes('\n')
		if err != nil {
			p.t.Fatalf("%s was not answered: %v", method, err)
		}
		m, err := jsonrpc.Read(line)
		if err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		if m.Kind == jsonrpc.Response && jsonrpc.SameID(m.Bytes(m.ID), fmt.Append(nil, p.id)) {
			return &m
		}
	}
}

func (p *inProcess) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *inProcess) initialize() {
	p.t.Helper()
	p.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// serve starts a server that answers each method with a status and a body, in
// which ID stands for the request's id.
func serve(t *testing.T, answer func(method string) (status int, body string)) *url.URL {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, _ := jsonrpc.Read(body)
		status, text := answer(m.Method)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, replaceID(text, string(m.Bytes(m.ID))))
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
