package bridge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/memstore"
)

// boundsLimit bounds each wait of these tests.
const boundsLimit = 30 * time.Second

// A boundsRig is a bridge in this process, between pipes.
type boundsRig struct {
	t      *testing.T
	bridge *Bridge
	stdin  *os.File

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced with every line
}

// newBoundsRig runs a bridge before at, with a journal in memory.
func newBoundsRig(t *testing.T, at string, change func(*Config)) *boundsRig {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	s, err := memstore.New(jobs.Schema())
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{URL: u, Version: "test", Jobs: jobs.New(s, jobs.Options{}), Drain: time.Nanosecond}
	if change != nil {
		change(&cfg)
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	in, stdin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	hostOut, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := &boundsRig{t: t, bridge: b, stdin: stdin, more: make(chan struct{})}
	read, done := make(chan struct{}), make(chan error, 1)
	go func() { defer close(read); r.read(hostOut) }()
	go func() { done <- b.Run(context.Background(), in, out); out.Close() }()
	t.Cleanup(func() {
		stdin.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-read
		in.Close()
		hostOut.Close()
	})
	return r
}

func (r *boundsRig) read(from io.Reader) {
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		r.mu.Lock()
		r.lines = append(r.lines, line)
		if m, err := jsonrpc.Read([]byte(strings.TrimSpace(line))); err == nil && m.Method == "roots/list" {
			fmt.Fprintf(r.stdin, `{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`+"\n", m.Bytes(m.ID)) // refused where the test is over
		}
		close(r.more)
		r.more = make(chan struct{})
		r.mu.Unlock()
	}
}

func (r *boundsRig) send(format string, args ...any) {
	r.t.Helper()
	if _, err := fmt.Fprintf(r.stdin, format+"\n", args...); err != nil {
		r.t.Error(err)
	}
}

// wait waits for a line that match takes.
func (r *boundsRig) wait(what string, match func(line string) bool) string {
	r.t.Helper()
	limit := time.NewTimer(boundsLimit)
	defer limit.Stop()
	for seen := 0; ; {
		r.mu.Lock()
		fresh, more := r.lines[seen:], r.more
		seen = len(r.lines)
		r.mu.Unlock()
		for _, line := range fresh {
			if match(line) {
				return line
			}
		}
		select {
		case <-more:
		case <-limit.C:
			r.t.Fatalf("no %s", what)
		}
	}
}

// answer waits for the response to an id.
func (r *boundsRig) answer(id string) string {
	r.t.Helper()
	return r.wait("answer to "+id, func(line string) bool {
		m, err := jsonrpc.Read([]byte(strings.TrimSpace(line)))
		return err == nil && m.Kind == jsonrpc.Response && string(m.Bytes(m.ID)) == id
	})
}

// shakeHands is what a legacy host begins with.
func (r *boundsRig) shakeHands(capabilities string) {
	r.t.Helper()
	r.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"bounds","version":"1"}}}`, capabilities)
	r.answer(`"i"`)
	r.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	r.send(`{"jsonrpc":"2.0","id":"l","method":"tools/list"}`)
	r.answer(`"l"`)
}
