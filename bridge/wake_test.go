package bridge

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// After a sleep the stream for notices is opened anew: a network that forgot
// the connection meanwhile says nothing about it.
func TestWakeOpensNoticeStreamAnew(t *testing.T) {
	up, err := bridgetest.Start(bridgetest.Options{Era: bridgetest.Legacy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	target, err := url.Parse(up.URL())
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{URL: target})
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
	ended := make(chan error, 1)
	go func() { ended <- b.Run(context.Background(), in, out) }()
	if _, err := io.WriteString(hostIn, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(hostOut).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	gets := func(n int) func(*bridgetest.View) bool {
		return func(v *bridgetest.View) bool { return len(v.HTTP(http.MethodGet)) >= n }
	}
	if err := up.Ledger().Wait(ctx, gets(1)); err != nil {
		t.Fatalf("no stream was opened: %v", err)
	}
	b.woke()
	if err := up.Ledger().Wait(ctx, gets(2)); err != nil {
		t.Fatalf("the stream was not opened anew: %v", err)
	}
	hostIn.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
