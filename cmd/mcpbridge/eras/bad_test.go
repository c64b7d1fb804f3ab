package eras

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// Servers that break the rules: a clear word, a bounded reaction, no hang.

// modernCall answers tools/call of a modern stub by f, the rest as it does.
func modernCall(t *testing.T, f func(w http.ResponseWriter, m request)) *stub {
	t.Helper()
	return startStub(t, func(_ *stub, w http.ResponseWriter, _ *http.Request, m request) bool {
		if m.Method == "tools/call" {
			f(w, m)
		}
		return m.Method == "tools/call"
	})
}

// TestAsksWhatWasNotDeclared: nobody is asked, and the host reads why.
func TestAsksWhatWasNotDeclared(t *testing.T) {
	t.Parallel()
	for _, question := range []string{
		`{"method":"elicitation/create","params":{"mode":"url","url":"https://example.com","message":"m"}}`,
		`{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}}`,
		`{"method":"example/unknown","params":{}}`, `{}`, `7`,
	} {
		s := modernCall(t, func(w http.ResponseWriter, m request) {
			result(w, m, `{"resultType":"input_required","inputRequests":{"q":`+question+`}}`)
		})
		r := start(t, nil, rigOptions{version: v2511, url: s.URL, capabilities: `{"elicitation":{},"sampling":{}}`})
		got := r.tool("act", "{}")
		want(t, question, string(got.Raw), "did not offer")
		if len(r.questions()) > 0 || len(s.requests("tools/call")) != 1 {
			t.Errorf("%s: asked %v, %d calls", question, r.questions(), len(s.requests("tools/call")))
		}
	}
}

func TestTooManyQuestionsAtOnce(t *testing.T) {
	t.Parallel()
	var all string
	for i := range 17 {
		all += fmt.Sprintf(`,"q%d":{"method":"roots/list"}`, i)
	}
	s := modernCall(t, func(w http.ResponseWriter, m request) {
		result(w, m, `{"resultType":"input_required","inputRequests":{`+all[1:]+`}}`)
	})
	r := start(t, nil, rigOptions{version: v2511, url: s.URL})
	want(t, "call", string(r.tool("act", "{}").Raw), "more than 16")
}

func TestInvalidInputRequired(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		`{"resultType":"input_required"}`,
		`{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list"},"q":{"method":"roots/list"}}}`,
		`{"resultType":"input_required","requestState":"s","requestState":"s"}`,
	} {
		for _, v := range []string{v2511, modern} {
			s := modernCall(t, func(w http.ResponseWriter, m request) { result(w, m, bad) })
			r := start(t, nil, rigOptions{version: v, url: s.URL})
			r.ok(r.call("tools/list", "")) // that it only reads is known from there
			got := r.tool("act", "{}")
			want(t, v+" "+bad, got.Text(), "NO ANSWER")
			if len(r.questions()) > 0 {
				t.Errorf("%s: asked", bad)
			}
		}
	}
}

// TestListenAnsweredWithJSON: lived without, with growing pauses, and said.
func TestListenAnsweredWithJSON(t *testing.T) {
	t.Parallel()
	s := startStub(t, func(_ *stub, w http.ResponseWriter, _ *http.Request, m request) bool {
		if m.Method == "subscriptions/listen" {
			result(w, m, `{"resultType":"complete"}`)
		}
		return m.Method == "subscriptions/listen"
	})
	for _, v := range []string{v2511, modern} {
		r := start(t, nil, rigOptions{version: v, url: s.URL})
		r.ok(r.call("tools/list", ""))
		if v == modern {
			r.listen(`"l"`, `{"toolsListChanged":true}`)
		}
		if err := r.host.WaitStderr(r.step(), "did not acknowledge"); err != nil {
			t.Fatal(err)
		}
		r.call("ping", "") // answered in either era, after what was sent before
		if v == modern && len(r.host.Replies(`"l"`)) > 0 {
			t.Error("the host's listen was ended")
		}
	}
	if n := len(s.requests("subscriptions/listen")); n > 6 {
		t.Errorf("%d listens", n)
	}
}

// TestRequestOnAModernStream: said, and the call goes on.
func TestRequestOnAModernStream(t *testing.T) {
	t.Parallel()
	for _, v := range []string{v2511, modern} {
		s := modernCall(t, func(w http.ResponseWriter, m request) {
			events(w, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`,
				`{"jsonrpc":"2.0","id":"nobody","result":{"content":[]}}`,
				`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}}`)
		})
		r := start(t, nil, rigOptions{version: v, url: s.URL})
		want(t, v, r.ok(r.tool("act", "{}")), "done")
		if err := r.host.WaitStderr(r.step(), "a request of the server on a modern stream was ignored"); err != nil {
			t.Error(err)
		}
		if n := len(r.questions()); n > 0 {
			t.Errorf("%s: asked %d questions", v, n)
		}
	}
}

// TestNoticesWithoutEnd: a server that says at each look at its list that the
// list has changed is looked at less and less often.
func TestNoticesWithoutEnd(t *testing.T) {
	t.Parallel()
	again := make(chan struct{}, 1)
	s := startStub(t, func(_ *stub, w http.ResponseWriter, r *http.Request, m request) bool {
		switch m.Method {
		case "tools/list":
			select {
			case again <- struct{}{}:
			default:
			}
			return false
		case "subscriptions/listen":
			tag := `"_meta":{"` + subscriptionID + `":` + string(m.ID) + `}`
			events(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+tag+`,"notifications":{"toolsListChanged":true}}}`)
			for {
				select {
				case <-again:
					events(w, `{"jsonrpc":"2.0","method":"`+toolsChanged+`","params":{`+tag+`}}`)
				case <-r.Context().Done():
					return true
				}
			}
		}
		return false
	})
	r := start(t, nil, rigOptions{version: modern, url: s.URL})
	r.ok(r.call("tools/list", ""))
	r.listen(`"l"`, `{"toolsListChanged":true}`)
	r.untilMore("the first notice", 0, about(toolsChanged, `"l"`), func() {})
	began := time.Now()
	for time.Since(began) < 2500*time.Millisecond {
		r.moment()
	}
	// After the host's own: three at once, and then after 1 s, 2 s, 4 s.
	if n := len(s.requests("tools/list")); n > 8 {
		t.Errorf("%d times tools/list in %v", n, time.Since(began))
	}
}

// TestReplyToNobody: skipped, on a stream of its own as on the GET stream.
func TestReplyToNobody(t *testing.T) {
	t.Parallel()
	s := startStub(t, func(_ *stub, w http.ResponseWriter, r *http.Request, m request) bool {
		switch {
		case m.HTTP == http.MethodGet:
			events(w, `{"jsonrpc":"2.0","id":4711,"result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"m"}}`)
			<-r.Context().Done()
		case m.Method == "initialize":
			result(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"stub","version":"1"}}`)
		case m.Method == "tools/call":
			events(w, `{"jsonrpc":"2.0","id":"nobody","result":{"content":[]}}`, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"content":[{"type":"text","text":"done"}]}}`)
		default:
			return legacyStub(w, m)
		}
		return true
	})
	for _, v := range []string{v2511, modern} {
		r := start(t, nil, rigOptions{version: v, url: s.URL})
		want(t, v, r.ok(r.tool("act", "{}")), "done")
		for _, stream := range []string{`"method":"tools/call","replies":1`, `"method":"","replies":1`} {
			if err := r.host.WaitStderr(r.step(), `to no request of this stream was skipped",`+stream); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestBadListen: requests, replies to nobody and what is no JSON on the bridge's
// own listen reach no host; the notice behind them does.
func TestBadListen(t *testing.T) {
	t.Parallel()
	for _, v := range []string{v2511, modern} {
		listed := make(chan struct{}) // a host that has no list yet need not look again
		s := startStub(t, func(_ *stub, w http.ResponseWriter, r *http.Request, m request) bool {
			if m.Method != "subscriptions/listen" {
				return false
			}
			select {
			case <-listed:
			case <-r.Context().Done():
				return true
			}
			tag := func(id string) string { return `"_meta":{"` + subscriptionID + `":` + id + `}` }
			events(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+tag(string(m.ID))+`,"notifications":{"promptsListChanged":true}}}`,
				`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, `{"jsonrpc":"2.0","id":"nobody","result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"m"}}`,
				`no JSON`, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}`,
				`{"jsonrpc":"2.0","method":"`+toolsChanged+`","params":{`+tag(string(m.ID))+`}}`)
			<-r.Context().Done()
			return true
		})
		r := start(t, nil, rigOptions{version: v, url: s.URL})
		r.ok(r.call("tools/list", ""))
		close(listed)
		mine := func(m bridgetest.HostMessage) bool { return m.Method == toolsChanged }
		if v == modern {
			r.listen(`"l"`, `{"toolsListChanged":true}`)
			mine = about(toolsChanged, `"l"`)
		}
		if _, err := r.host.WaitMessage(r.step(), "the notice behind all that", mine); err != nil {
			t.Fatalf("%s: %v\n%s", v, err, r.host.Stderr())
		}
		for _, said := range []string{"a request of the server on a modern stream was ignored", "to no request of this stream was skipped"} {
			if err := r.host.WaitStderr(r.step(), said); err != nil {
				t.Error(err)
			}
		}
		if n := len(r.questions()); n > 0 {
			t.Errorf("%s: asked %d questions", v, n)
		}
		r.ok(r.call("tools/list", ""))
	}
}

// TestAsksDuringLists: a question where none belongs is answered at once.
func TestAsksDuringLists(t *testing.T) {
	t.Parallel()
	s := startStub(t, func(_ *stub, w http.ResponseWriter, r *http.Request, m request) bool {
		switch m.Method {
		case "tools/list":
			events(w, `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}`,
				`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"tools":[]}}`)
			return true
		case "tools/call":
			result(w, m, `{"content":[]}`)
			return true
		}
		return legacyStub(w, m)
	})
	r := start(t, nil, rigOptions{version: modern, url: s.URL})
	r.ok(r.call("tools/list", ""))
	r.ok(r.tool("act", "{}"))
	r.untilStub("the answer to the question", func() bool {
		for _, m := range s.requests("") {
			if string(m.ID) == `"q"` && rawAt([]byte(m.Body), "result", "action") == `"cancel"` {
				return true
			}
		}
		return false
	})
}

// untilStub waits until a stub has seen something.
func (r *rig) untilStub(what string, ok func() bool) {
	r.t.Helper()
	for range 100 {
		if ok() {
			return
		}
		r.moment()
	}
	r.t.Fatalf("never: %s\n%s", what, r.host.Stderr())
}

// TestOddCancels: malformed, unknown, of initialize; all without consequence.
func TestOddCancels(t *testing.T) {
	t.Parallel()
	for _, era := range bothEras() {
		r := start(t, startUpstream(t, bridgetest.Options{Era: era}), rigOptions{version: v2511})
		for _, params := range []string{`{}`, `{"requestId":null}`, `{"requestId":{}}`, `{"requestId":"unknown"}`, `[]`, `{"requestId":1,"reason":7}`} {
			if err := r.host.Notify("notifications/cancelled", params); err != nil {
				t.Fatal(err)
			}
		}
		r.ok(r.tool("now", "{}"))
		if n := r.count("notifications/cancelled"); n > 0 {
			t.Errorf("%d cancels at the server", n)
		}
	}
}
