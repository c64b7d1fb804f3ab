package faults

import (
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// What happened to the calls of each tool is counted, each call once, and told
// where the host can ask: also the failure of a call that became a job.
func TestCountersByTool(t *testing.T) {
	t.Parallel()
	bothEras(t, func(t *testing.T, era bridgetest.Era) {
		up := startUpstream(t, bridgetest.Options{Era: era})
		l := startLogged(t, era, up, "--answer-within=2s", "--job-timeout=3s", up.URL())
		l.knowTools()
		l.fault("status:503x1")
		l.as("retried", "echo", `{"text":"a"}`)
		l.as("plain", "echo", `{"text":"a"}`)
		l.fault("lost-reply@tools/callx1")
		l.as("lost", "write_note", `{"key":"k"}`)
		l.as("repeated", "write_note", `{"key":"k"}`)
		if said := l.as("slow", "slow_write", `{"key":"k","ms":600000,"effect_at":"START"}`); said.head != running {
			t.Fatalf("told %q", said.text)
		}
		l.awaitSettled("slow")
		text := read(l.call("mcpbridge_job", "{}")).text
		for _, want := range []string{
			"echo: 2 calls, 1 retried, 0 answered from an earlier call, 0 failed.",
			"write_note: 1 calls, 0 retried, 1 answered from an earlier call, 1 failed.",
			"slow_write: 1 calls, 0 retried, 0 answered from an earlier call, 1 failed.",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in %q", want, text)
			}
		}
	})
}
