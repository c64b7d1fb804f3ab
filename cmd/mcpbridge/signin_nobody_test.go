package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// A call that ran for nobody stays in reach of the host that made it when a
// person signs in there, and of no other bridge that is signed in.
func TestCallOfNobodyAfterSignIn(t *testing.T) {
	p := &protected{}
	*p = *protect(t, authtest.Quirks{}, bridgetest.Options{Authorize: func(w http.ResponseWriter, r *http.Request) bool {
		return p.scope(r) == "" || p.auth.Allow(w, r, "")
	}})
	p.need = func(tool string) string {
		if tool == "echo" {
			return "any"
		}
		return "" // for everybody
	}
	host := p.bridge(p.env, "--answer-within=300ms", "--linger=0")
	r := p.call(host, "slow_write", `{"key":"a","ms":1500}`)
	handle := regexp.MustCompile(`job_[a-z0-9]+`).FindString(r.Text())
	if handle == "" {
		t.Fatalf("%s", r.Raw)
	}
	other := p.bridge(p.env, "--linger=0")
	p.echoes(other) // signs in
	if r := p.call(other, "mcpbridge_job", `{"handle":"`+handle+`"}`); !r.IsError() || !strings.Contains(r.Text(), "was not found") {
		t.Errorf("another host: %s", r.Raw)
	}
	for r = p.call(host, "mcpbridge_job", `{"handle":"`+handle+`"}`); strings.HasPrefix(r.Text(), "STILL RUNNING"); {
		r = p.call(host, "mcpbridge_job", `{"handle":"`+handle+`","wait_seconds":1}`)
	}
	if r.IsError() {
		t.Errorf("the host that made the call: %s", r.Raw)
	}
}
