package faults

import (
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

func bothEras(t *testing.T, f func(t *testing.T, era bridgetest.Era)) {
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			f(t, era)
		})
	}
}

// took checks that something ended at its limit: not before, and not long after.
func took(t *testing.T, began time.Time, limit time.Duration) {
	t.Helper()
	const slack = 3 * time.Second // of a busy machine
	if d := time.Since(began); d < limit || d > limit+slack {
		t.Errorf("it took %v, the limit is %v", d, limit)
	}
}

// A method that is no call is given up at the answer deadline, and the server
// is told.
func TestAnswerWithinOfOtherMethods(t *testing.T) {
	t.Parallel()
	bothEras(t, func(t *testing.T, era bridgetest.Era) {
		up := startUpstream(t, bridgetest.Options{Era: era})
		l := startLogged(t, era, up, "--answer-within=600ms", up.URL())
		l.knowTools()
		l.fault("stall:before-effect@resources/read")
		began := time.Now()
		r, err := l.host.CallID(l.ctx, `"read"`, "resources/read", `{"uri":"note://greeting"}`)
		if err != nil {
			t.Fatal(err)
		}
		took(t, began, 600*time.Millisecond)
		said := read(r)
		if r.Error == nil || r.Error.Code != -31010 || said.verdict == nil || said.verdict.EndedBy != "bridge" || said.verdict.Outcome != "TIMEOUT" {
			t.Errorf("told %+v, %+v", r.Error, said.verdict)
		}
		if !strings.HasPrefix(said.text, noAnswer+": ") || !strings.Contains(said.text, "--answer-within") {
			t.Errorf("text %q", said.text)
		}
		cancelledUpstream(l.lane, "resources/read")
		find(t, l.records(), "exchange", "read").want(t, record{"method": "resources/read", "tool": "", "outcome": "TIMEOUT", "endedBy": "bridge", "deliveries": 1})
	})
}

// cancelledUpstream waits until the server knows that nobody waits any more: by
// a notice of a legacy session, by the end of the stream else.
func cancelledUpstream(l *lane, method string) {
	l.t.Helper()
	err := l.up.Ledger().Wait(l.ctx, func(v *bridgetest.View) bool {
		requests := v.Requests(method)
		if len(requests) == 0 {
			return false
		}
		if l.era == bridgetest.Modern {
			return requests[len(requests)-1].Has(bridgetest.MarkClosed)
		}
		for _, e := range v.Requests("notifications/cancelled") {
			if strings.Contains(e.Body, `"requestId":`+string(requests[len(requests)-1].ID)) {
				return true
			}
		}
		return false
	})
	if err != nil {
		l.t.Errorf("the server was not told that %s was given up: %v", method, err)
	}
}

// A call that is not answered by the job limit is given up and its outcome is
// unknown; the host had its handle long before.
func TestJobTimeout(t *testing.T) {
	t.Parallel()
	bothEras(t, func(t *testing.T, era bridgetest.Era) {
		up := startUpstream(t, bridgetest.Options{Era: era})
		l := startLogged(t, era, up, "--answer-within=300ms", "--job-timeout=1200ms", up.URL())
		l.knowTools()
		began := time.Now()
		if said := l.as("slow", "slow_write", `{"key":"k","ms":600000,"effect_at":"START"}`); said.head != running {
			t.Fatalf("told %q", said.text)
		}
		took(t, began, 300*time.Millisecond)
		l.awaitSettled("slow")
		took(t, began, 1200*time.Millisecond)
		cancelledUpstream(l.lane, "tools/call")
		if said := read(l.call("mcpbridge_job", "{}")); !strings.Contains(said.text, "outcome_unknown") && !strings.Contains(said.text, unknown) {
			t.Errorf("mcpbridge_job says %q", said.text)
		}
		find(t, l.records(), "settled", "slow").want(t, record{"outcome": "TIMEOUT", "effect": "possible", "endedBy": "bridge", "deliveries": 1})
		if n := up.Ledger().Deliveries("slow_write"); n != 1 {
			t.Errorf("%d deliveries", n)
		}
	})
}

// Silence on a call's stream ends it if --idle-timeout says so; bytes, however
// few, keep it.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	bothEras(t, func(t *testing.T, era bridgetest.Era) {
		up := startUpstream(t, bridgetest.Options{Era: era})
		l := startLogged(t, era, up, "--idle-timeout=500ms", up.URL())
		l.knowTools()
		l.fault("stall:after-headers@write_note")
		began := time.Now()
		said := l.as("silent", "write_note", `{"key":"silent"}`)
		took(t, began, 500*time.Millisecond)
		if said.head != unknown || !strings.Contains(said.text, "--idle-timeout") || said.verdict.EndedBy != "bridge" {
			t.Errorf("told %q, %+v", said.text, said.verdict)
		}
		l.fault("trickle:10/60ms@echo")
		began = time.Now()
		if said := l.as("trickle", "echo", `{"text":"a text that is long enough to take a second in pieces, and then some more of it"}`); said.head != told {
			t.Errorf("told %q", said.text)
		}
		if d := time.Since(began); d < 500*time.Millisecond {
			t.Errorf("the reply took only %v: the test proves nothing", d)
		}
		find(t, l.records(), "exchange", "silent").want(t, record{"outcome": "TIMEOUT", "effect": "possible", "endedBy": "bridge", "deliveries": 1})
		if n := up.Ledger().Deliveries("write_note"); n != 1 {
			t.Errorf("%d deliveries of a write", n)
		}
	})
}

// The server is told how long the bridge goes on, less with each delivery.
func TestDeadlineHeader(t *testing.T) {
	t.Parallel()
	bothEras(t, func(t *testing.T, era bridgetest.Era) {
		up := startUpstream(t, bridgetest.Options{Era: era})
		l := startLane(t, era, up, "--deadline-header=X-Time-Left", "--job-timeout=1m", "--answer-within=20s", up.URL())
		l.knowTools()
		l.fault("status:503,503,200")
		l.call("echo", `{"text":"a"}`)
		falling(t, up, "tools/call", 3, 59_000, 60_000)
		l.fault("status:503,503,200@resources/read")
		l.request("resources/read", `{"uri":"note://greeting"}`)
		falling(t, up, "resources/read", 3, 19_000, 20_000)
	})
}

// falling checks the header of n deliveries; the first lies between two values.
func falling(t *testing.T, up *bridgetest.Upstream, method string, n, least, most int) {
	t.Helper()
	requests := up.Ledger().Requests(method)
	if len(requests) != n {
		t.Fatalf("%d deliveries of %s, want %d", len(requests), method, n)
	}
	const shortestWait = 50 // of a retry, in milliseconds
	for i, e := range requests {
		left, err := strconv.Atoi(e.Header.Get("X-Time-Left"))
		if err != nil {
			t.Fatalf("%s: header %q", method, e.Header.Get("X-Time-Left"))
		}
		if i == 0 && (left < least || left > most) || i > 0 && left > most {
			t.Errorf("%s, delivery %d: %d ms left", method, i+1, left)
		}
		most = left - shortestWait
	}
}

// An address that swallows every packet is given up within --connect-timeout.
func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(testing.TB) string{"backlog": fullBacklog, "handshake": muteTLS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := url(t)
			if u == "" {
				t.Skip("this system's listener cannot be filled")
			}
			l := startLane(t, bridgetest.Legacy, nil, "--connect-timeout=400ms", "--answer-within=15s", u)
			began := time.Now()
			said := read(l.call("write_note", `{"key":"k"}`))
			if said.head != notSent || said.verdict.Effect != "none" {
				t.Errorf("told %q, %+v", said.text, said.verdict)
			}
			if d := time.Since(began); d > 8*time.Second {
				t.Errorf("told after %v", d)
			}
		})
	}
}

// muteTLS accepts connections and never says a word.
func muteTLS(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // the system accepts; nobody answers
	return "https://" + l.Addr().String() + "/mcp"
}

// Who ended an exchange is said in the verdict.
func TestEndedBy(t *testing.T) {
	t.Parallel()
	bothEras(t, func(t *testing.T, era bridgetest.Era) {
		up := startUpstream(t, bridgetest.Options{Era: era})
		l := startLane(t, era, up, up.URL())
		l.knowTools()
		for spec, want := range map[string]string{
			"stream-end": "upstream", "status:500": "upstream", "malformed": "upstream", "truncated-json": "upstream",
			"stream-cut-after:0": "network", "cut-phase:half-reply": "network", "cut-phase:before-effect": "network", "lost-reply": "network",
		} {
			l.fault(spec)
			said := read(l.call("write_note", `{"key":`+quoted(t, spec)+`}`))
			if said.verdict == nil || said.verdict.EndedBy != want {
				t.Errorf("%s: told %q, %+v, want ended by %s", spec, said.text, said.verdict, want)
			}
		}
	})
}

func quoted(t *testing.T, s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
