package bridge

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// When Run returns, nothing of the bridge goes on: whatever was open, toward a
// server of any kind, and toward one that does not answer. It is not parallel:
// it looks at all goroutines.
func TestRunLeavesNoGoroutine(t *testing.T) {
	const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern, bridgetest.SSE} {
		t.Run(fmt.Sprint(era), func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			up, err := bridgetest.Start(bridgetest.Options{Era: era})
			if err != nil {
				t.Fatal(err)
			}
			p := startToStop(t, mustParse(t, up.URL()))
			p.initialize()
			p.call("tools/list", `{}`)
			p.call("tools/call", bridgetest.ToolParams("echo", `{"text":"x"}`))
			p.call("resources/subscribe", `{"uri":"test://items/a"}`)
			p.send(`{"jsonrpc":"2.0","id":"listen","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + modern + `}}`)
			for id, tool := range map[string]string{"open": "sleep", "cancelled": "sleep", "open write": "slow_write"} {
				p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":%s}`, id, bridgetest.ToolParams(tool, `{"key":"k","ms":60000}`)))
			}
			p.call("ping", `{}`)
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"cancelled"}}`)
			p.stop(t)
			up.Close()
			goleak.VerifyNone(t, before)
		})
	}
	t.Run("server that does not answer", func(t *testing.T) {
		before := goleak.IgnoreCurrent()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p := startToStop(t, mustParse(t, "http://"+l.Addr().String()+"/mcp"))
		p.initialize()
		p.send(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
		p.send(`{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"echo"}}`)
		p.call("ping", `{}`)
		p.stop(t)
		goleak.VerifyNone(t, before)
	})
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// startToStop is startInProcess for a bridge that the test itself ends.
func startToStop(t *testing.T, u *url.URL) *stoppable {
	t.Helper()
	b, err := New(Config{URL: u, Drain: 50 * time.Millisecond, StateDir: t.TempDir()})
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
	p := &stoppable{inProcess: newInProcess(t, b, hostIn, hostOut), files: []*os.File{in, out, hostIn, hostOut}}
	go func() { p.ended <- b.Run(context.Background(), in, out) }()
	return p
}

// A stoppable is a bridge in this process that stop ends.
type stoppable struct {
	*inProcess
	files []*os.File
}

// stop leaves as a host does and waits for Run.
func (p *stoppable) stop(t *testing.T) {
	t.Helper()
	_ = p.in.Close()
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	for _, f := range p.files {
		_ = f.Close() // hostIn is closed
	}
}
