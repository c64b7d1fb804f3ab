package bridge

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// A lane does things in order, a few at a time, and turns away what it has no
// room for.
func TestLane(t *testing.T) {
	t.Parallel()
	var told []int64
	l := newLane(1, 2, func(n int64) { told = append(told, n) })
	var order []int
	hold, begun := make(chan struct{}), make(chan struct{})
	do := func(n int) bool { return l.do(func() { order = append(order, n) }) }
	l.do(func() { close(begun); <-hold; order = append(order, 0) })
	<-begun
	if !do(1) || !do(2) {
		t.Error("no room for two")
	}
	for n := 3; n < 8; n++ {
		if do(n) {
			t.Errorf("room for errand %d", n)
		}
	}
	done := make(chan struct{})
	close(hold)
	for !l.do(func() { close(done) }) { // until there is room again
	}
	<-done
	if want := []int{0, 1, 2}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if len(told) < 3 || !slices.Equal(told[:3], []int64{1, 2, 4}) {
		t.Errorf("told at %v", told)
	}
	l.close()
	if do(9) {
		t.Error("taken after close")
	}
	l.wait()
}

// A floodServer is a legacy server that says on its streams whatever a test
// wants, and keeps what is posted to it.
type floodServer struct {
	*httptest.Server
	onGet  func(say func(string))                    // nil: no GET stream
	onCall func(id []byte, say func(string))         // of tools/call
	onPost func(*jsonrpc.Message, *http.Request) int // of anything else; 0 is 202
}

func newFloodServer(t *testing.T, s *floodServer) *floodServer {
	t.Helper()
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *floodServer) serve(w http.ResponseWriter, r *http.Request) {
	say := func(message string) {
		fmt.Fprintf(w, "data: %s\n\n", message)
		w.(http.Flusher).Flush()
	}
	if r.Method == http.MethodGet && s.onGet != nil {
		w.Header().Set("Content-Type", "text/event-stream")
		s.onGet(say)
		<-r.Context().Done()
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Read(body)
	id := m.Bytes(m.ID)
	switch {
	case r.Method != http.MethodPost || err != nil:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.Method == "initialize":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "s"+string(id))
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"flood","version":"1"}}}`, id)
	case m.Method == "tools/list":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}}`, id)
	case m.Method == "tools/call":
		w.Header().Set("Content-Type", "text/event-stream")
		if s.onCall != nil {
			s.onCall(id, say)
		}
		say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id))
	case m.Kind == jsonrpc.Request:
		w.WriteHeader(http.StatusNotFound) // server/discover: the server is old
	default:
		status := 0
		if s.onPost != nil {
			status = s.onPost(&m, r)
		}
		w.WriteHeader(max(status, http.StatusAccepted))
	}
}

// A server that pings without end and takes no answer costs one connection, and
// its answers to calls come all the same.
func TestFloodOfPings(t *testing.T) {
	t.Parallel()
	const pings = 5000
	var mu sync.Mutex
	open, most := 0, 0
	said := make(chan struct{})
	s := newFloodServer(t, &floodServer{
		onGet: func(say func(string)) {
			for i := range pings {
				say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p%d","method":"ping"}`, i))
			}
			close(said)
		},
		onPost: func(m *jsonrpc.Message, r *http.Request) int {
			if m.Kind != jsonrpc.Response {
				return 0
			}
			mu.Lock()
			open++
			most = max(most, open)
			mu.Unlock()
			<-r.Context().Done()
			mu.Lock()
			open--
			mu.Unlock()
			return 0
		},
	})
	r := newBoundsRig(t, s.URL, nil)
	r.shakeHands(`{}`)
	<-said
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}`)
	if line := r.answer("1"); !strings.Contains(line, `"content":[]`) {
		t.Error(line)
	}
	mu.Lock()
	defer mu.Unlock()
	if most > 1 {
		t.Errorf("%d answers to pings were under way at once", most)
	}
}

// Of the questions that come with one answer only so many are put to the host;
// the others are answered at once.
func TestFloodOfQuestions(t *testing.T) {
	t.Parallel()
	const asked = 40
	var mu sync.Mutex
	answers := map[string]int{}
	turned, all, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := newFloodServer(t, &floodServer{
		onCall: func(_ []byte, say func(string)) {
			for i := range asked {
				say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`, i))
			}
			select {
			case <-all:
			case <-over:
			}
		},
		onPost: func(m *jsonrpc.Message, _ *http.Request) int {
			if m.Kind == jsonrpc.Response {
				mu.Lock()
				defer mu.Unlock()
				answers[string(jsonrpc.Get(m.Bytes(m.Result), "action"))]++
				if answers[`"cancel"`] == asked-maxQuestions && answers[`"accept"`] == 0 {
					close(turned)
				}
				if answers[`"cancel"`]+answers[`"accept"`] == asked {
					close(all)
				}
			}
			return 0
		},
	})
	t.Cleanup(func() { close(over) })
	r := newBoundsRig(t, s.URL, nil)
	r.shakeHands(`{"elicitation":{}}`)
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}`)
	questions := 0
	r.wait("all questions", func(line string) bool {
		m, err := jsonrpc.Read([]byte(strings.TrimSpace(line)))
		if err == nil && m.Kind == jsonrpc.Request {
			questions++
		}
		return questions == maxQuestions
	})
	select {
	case <-turned: // before an answer makes room for one more
	case <-time.After(boundsLimit):
		t.Fatal("what is too much was not answered")
	}
	r.mu.Lock()
	lines := slices.Clone(r.lines)
	r.mu.Unlock()
	for _, line := range lines {
		if m, err := jsonrpc.Read([]byte(strings.TrimSpace(line))); err == nil && m.Kind == jsonrpc.Request {
			r.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{}}}`, m.Bytes(m.ID))
		}
	}
	r.answer("1")
	mu.Lock()
	defer mu.Unlock()
	if answers[`"accept"`] != maxQuestions || answers[`"cancel"`] != asked-maxQuestions {
		t.Errorf("answers %v", answers)
	}
}

// Notifications of the host arrive one after the other, in the order in which
// it sent them.
func TestNoticesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	const notices = 100
	var mu sync.Mutex
	var order []string
	all := make(chan struct{})
	s := newFloodServer(t, &floodServer{onPost: func(m *jsonrpc.Message, _ *http.Request) int {
		if m.Method != "notifications/custom" {
			return 0
		}
		mu.Lock()
		defer mu.Unlock()
		if order = append(order, string(jsonrpc.Get(m.Bytes(m.Params), "n"))); len(order) == notices {
			close(all)
		}
		return 0
	}})
	r := newBoundsRig(t, s.URL, nil)
	r.shakeHands(`{}`)
	for i := range notices {
		r.send(`{"jsonrpc":"2.0","method":"notifications/custom","params":{"n":%d}}`, i)
	}
	<-all
	mu.Lock()
	defer mu.Unlock()
	for i, n := range order {
		if n != fmt.Sprint(i) {
			t.Fatalf("notice %s came at place %d", n, i)
		}
	}
}

// peek reads the message of a request, and returns its body to be read again.
func peek(r *http.Request) (io.ReadCloser, jsonrpc.Message) {
	body, _ := io.ReadAll(r.Body)
	m, _ := jsonrpc.Read(body)
	return io.NopCloser(bytes.NewReader(body)), m
}
