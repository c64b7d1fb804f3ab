package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// A worker that crashes when its host is gone writes its trace into the state
// directory. There is no secret in it, nor in anything else that it leaves.
func TestSecretsStayInsideAWorker(t *testing.T) {
	p := protect(t, authtest.Quirks{ClientID: "app", ClientSecret: "client-hush", NoRegistration: true, Subject: "ann"}, bridgetest.Options{})
	env := append(p.env, "MCPBRIDGE_CLIENT_SECRET=client-hush", "OTHER=other-hush")
	host := p.bridge(env, "--client-id=app", "--header=X-Other: ${OTHER}",
		"--log-level=debug", "--log-file="+filepath.Join(p.dir, "logs", "bridge.log"))
	started := children(t, host.PID())
	if len(started) != 1 {
		t.Fatalf("the front has %d children, want the worker", len(started))
	}
	worker := watchProcess(t, started[0])
	p.echoes(host)
	p.auth.ExpireAccess()
	p.echoes(host) // renewed
	if err := host.Request(host.NextID(), "tools/call", bridgetest.ToolParams("slow_write", `{"key":"k","ms":60000}`)); err != nil {
		t.Fatal(err)
	}
	err := p.up.Ledger().Wait(p.ctx, func(v *bridgetest.View) bool { return v.Deliveries("slow_write") == 1 })
	if err != nil {
		t.Fatal(err)
	}
	if err := host.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Wait(p.ctx); err != nil {
		t.Fatal(err)
	}
	worker.signal(t, syscall.SIGQUIT)
	if !worker.ended(awaitLimit) {
		t.Fatal("the worker lives on")
	}
	trace, err := os.ReadFile(filepath.Join(p.dir, crashFile))
	if err != nil || !strings.Contains(string(trace), "goroutine") {
		t.Fatalf("there is no trace to look at: %q, %v", trace, err)
	}
	p.checkLeft("client-hush", "other-hush")
}
