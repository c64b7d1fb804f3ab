package bridgetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

func startProxy(t *testing.T, u *Upstream) (*TCPProxy, *peer) {
	t.Helper()
	host := strings.TrimSuffix(strings.TrimPrefix(u.URL(), "http://"), "/mcp")
	x, err := StartProxy(host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x, newPeer(t, "http://"+x.Addr()+"/mcp")
}

func TestProxyPasses(t *testing.T) {
	t.Parallel()
	u := start(t, Options{Era: Modern})
	x, p := startProxy(t, u)
	x.SetFault(ProxyFault{Latency: time.Millisecond})
	for range 3 {
		if res, b, err := noteCall(p); err != nil || res.StatusCode != 200 {
			t.Fatalf("%v, %s, %v", res, b, err)
		}
	}
	if _, b, err := p.modernCall("blob", `{"bytes":2000000}`); err != nil || len(b) < 2_000_000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if n, open := x.Connections(); n != 1 || open != 1 {
		t.Errorf("%d connections, %d open, want 1 and 1", n, open)
	}
}

func TestProxyBreaks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   ProxyFault
		effects int
	}{
		"refuse":     {ProxyFault{Refuse: true}, 0},
		"reset up":   {ProxyFault{ResetUp: 30}, 0},
		"reset down": {ProxyFault{ResetDown: 30}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := start(t, Options{Era: Modern})
			x, p := startProxy(t, u)
			x.SetFault(c.fault)
			if res, b, err := noteCall(p); err == nil {
				t.Errorf("%v, %s", res, b)
			}
			if n := u.Ledger().Effects("write_note"); n != c.effects {
				t.Errorf("%d effects, want %d", n, c.effects)
			}
			x.SetFault(ProxyFault{})
			if _, _, err := noteCall(p); err != nil {
				t.Errorf("after the fault: %v", err)
			}
		})
	}
}

// TestProxyHolds: a frozen or half-open connection hangs, and a freeze thaws.
func TestProxyHolds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   ProxyFault
		arrives bool
	}{
		"freeze":       {ProxyFault{Freeze: true}, false},
		"swallow up":   {ProxyFault{SwallowUp: true}, false},
		"swallow down": {ProxyFault{SwallowDn: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := start(t, Options{Era: Modern})
			x, p := startProxy(t, u)
			x.SetFault(c.fault)
			ctx, cancel := context.WithTimeout(testContext(t), 100*time.Millisecond)
			if c.arrives {
				ctx, cancel = context.WithCancel(testContext(t))
			}
			defer cancel()
			var watch sync.WaitGroup
			if c.arrives {
				watch.Go(func() {
					defer cancel()
					if err := u.Ledger().Wait(ctx, func(v *View) bool { return v.Effects("write_note") == 1 }); err != nil {
						t.Error(err)
					}
				})
			}
			r := p.request(ctx, "POST", modernBody("1", "tools/call", `"name":"write_note","arguments":{}`), modernHeader("tools/call", "write_note"))
			res, err := p.client.Do(r)
			watch.Wait()
			if err == nil {
				_ = res.Body.Close()
				t.Fatalf("answered with %d", res.StatusCode)
			}
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				t.Errorf("did not hang: %v", err)
			}
			if !c.arrives && len(u.Ledger().Entries()) != 0 {
				t.Error("the request arrived")
			}
		})
	}
	u := start(t, Options{Era: Modern})
	x, p := startProxy(t, u)
	x.SetFault(ProxyFault{Freeze: true})
	done := make(chan error, 1)
	go func() {
		_, _, err := noteCall(p)
		done <- err
	}()
	x.SetFault(ProxyFault{})
	if err := <-done; err != nil {
		t.Errorf("after the thaw: %v", err)
	}
	x.Drop()
	if _, _, err := noteCall(newPeer(t, p.url)); err != nil {
		t.Errorf("after the drop: %v", err)
	}
}
