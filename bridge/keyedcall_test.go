package bridge

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/retry"
)

// A callServer is a modern server with the tool "act", which answers as asked.
type callServer struct {
	at     *url.URL
	answer func(n int, w http.ResponseWriter, id []byte, params []byte)

	mu    sync.Mutex
	calls []string // their params
}

func newCallServer(t *testing.T, answer func(n int, w http.ResponseWriter, id, params []byte)) *callServer {
	t.Helper()
	s := &callServer{answer: answer}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	var err error
	if s.at, err = url.Parse(h.URL); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *callServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Read(body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	id := m.Bytes(m.ID)
	switch m.Method {
	case "server/discover":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}`, id)
	case "tools/list":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","tools":[{"name":"act","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}}],"ttlMs":0,"cacheScope":"private"}}`, id)
	case "tools/call":
		s.mu.Lock()
		s.calls = append(s.calls, string(m.Bytes(m.Params)))
		n := len(s.calls)
		s.mu.Unlock()
		s.answer(n, w, id, m.Bytes(m.Params))
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not known"}}`, id)
	}
}

func (s *callServer) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

func callResult(w io.Writer, id []byte) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}}`, id)
}

// keyIn is the key at /requestId of a call's arguments.
func keyIn(params string) string {
	key, _ := jsonrpc.String(getPointer([]byte(params), "/arguments/requestId"))
	return key
}

func withKey(pointer string, more ...func(*Config)) func(*Config) {
	return func(c *Config) {
		c.Server = "s"
		c.Tools = []ToolConfig{{Glob: "act", IdempotencyKey: pointer}}
		for _, f := range more {
			f(c)
		}
	}
}

// A key that is configured makes a call that may have had its effect one that is
// sent again only if the key was in it.
func TestKeyMakesRepeatableOnlyInTheCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Config)
		want   int
	}{
		"journaled":          {nil, 2},
		"no journal":         {func(c *Config) { c.Jobs = nil }, 1},
		"journal off":        {func(c *Config) { c.Journal = JournalOff }, 1},
		"idempotent anyway":  {func(c *Config) { c.Jobs, c.Classes = nil, []retry.Rule{{Glob: "act", Class: retry.Idempotent}} }, 2},
		"idempotent, no key": {func(c *Config) { c.Tools, c.Classes = nil, []retry.Rule{{Glob: "act", Class: retry.Idempotent}} }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newCallServer(t, func(n int, w http.ResponseWriter, id, _ []byte) {
				if n == 1 {
					panic(http.ErrAbortHandler) // it has the call, and its answer is lost
				}
				callResult(w, id)
			})
			change := func(*Config) {}
			if c.change != nil {
				change = c.change
			}
			r := newBoundsRig(t, s.at.String(), withKey("/requestId", change))
			r.shakeHands(`{}`)
			r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"act","arguments":{"a":1}}}`)
			line := r.answer("1")
			calls := s.got()
			if len(calls) != c.want {
				t.Errorf("%d deliveries, want %d: %s", len(calls), c.want, line)
			}
			if name == "journaled" && (keyIn(calls[0]) == "" || keyIn(calls[0]) != keyIn(calls[len(calls)-1])) {
				t.Errorf("keys in %q", calls)
			}
		})
	}
}

// A key that does not fit into a call's arguments is no reason to send it
// without.
func TestKeyThatDoesNotFit(t *testing.T) {
	t.Parallel()
	s := newCallServer(t, func(_ int, w http.ResponseWriter, id, _ []byte) { callResult(w, id) })
	r := newBoundsRig(t, s.at.String(), withKey("/options/requestId"))
	r.shakeHands(`{}`)
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"act","arguments":{"options":[1]}}}`)
	if line := r.answer("1"); !strings.Contains(line, "NOT SENT") || !strings.Contains(line, "/options/requestId") || len(s.got()) != 0 {
		t.Errorf("%s; sent: %q", line, s.got())
	}
	r.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act","arguments":{"a":1}}}`)
	r.answer("2")
	if calls := s.got(); len(calls) != 1 || len(getPointer([]byte(calls[0]), "/arguments/options/requestId")) == 0 {
		t.Errorf("sent: %q", calls)
	}
}

// The next round of a call has its key; the same round again, which a host sends
// that did not wait for the answer, is answered from the job and not sent.
func TestRoundHasItsKeyAndIsSentOnce(t *testing.T) {
	t.Parallel()
	came, gate := make(chan struct{}, 9), make(chan struct{})
	s := newCallServer(t, func(_ int, w http.ResponseWriter, id, params []byte) {
		if len(jsonrpc.Get(params, "requestState")) > 0 {
			came <- struct{}{}
			<-gate
			callResult(w, id)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","requestState":"step","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":"sure?","requestedSchema":{"type":"object","properties":{}}}}}}}`, id)
	})
	r := newBoundsRig(t, s.at.String(), withKey("/requestId"))
	ask := func(id, arguments, more string) {
		r.send(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"act","arguments":%s%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"b","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`, id, arguments, more)
	}
	const answers = `,"requestState":"step","inputResponses":{"q":{"action":"accept","content":{}}}`
	ask("1", `{"a":1}`, "")
	if line := r.answer("1"); !strings.Contains(line, `"input_required"`) {
		t.Fatal(line)
	}
	ask("2", `{"a":1}`, answers)
	<-came
	r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	r.send(`{"jsonrpc":"2.0","id":"read","method":"ping"}`)
	r.answer(`"read"`) // the cancel has been read
	ask("3", `{"a":1}`, answers)
	close(gate)
	if line := r.answer("3"); !strings.Contains(line, `"done"`) || !strings.Contains(line, `"deduplicated":true`) {
		t.Errorf("the round while it runs: %s", line)
	}
	ask("4", `{"a":1}`, answers)
	if line := r.answer("4"); !strings.Contains(line, "COMPLETED") {
		t.Errorf("the round after its end: %s", line)
	}
	calls := s.got()
	if len(calls) != 2 {
		t.Fatalf("sent: %q", calls)
	}
	if first, second := keyIn(calls[0]), keyIn(calls[1]); first == "" || first != second {
		t.Errorf("keys %q and %q", first, second)
	}
	// Another call with a state that this one was given begins as a call.
	ask("5", `{"a":2}`, answers)
	if line := r.answer("5"); !strings.Contains(line, `"done"`) || len(s.got()) != 3 {
		t.Errorf("%s; sent: %q", line, s.got())
	}
}
