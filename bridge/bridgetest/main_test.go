package bridgetest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if how := os.Getenv("BRIDGETEST_CHILD"); how != "" {
		child(how)
		return
	}
	goleak.VerifyTestMain(m)
}

// child is the process that the tests of Host drive. It answers every request
// by an empty result, unless the method or how says otherwise.
func child(how string) {
	fmt.Fprintln(os.Stderr, "child is up")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		m, err := parseMessage(in.Bytes())
		if err != nil || !m.isRequest() {
			continue
		}
		switch m.Method {
		case "twice":
			fmt.Printf("%s\n%s\n", encodeResult(m.ID, object{}), encodeResult(m.ID, object{}))
		case "noise":
			fmt.Println("hello there")
			fmt.Printf("%s\n", encodeResult(m.ID, object{}))
		case "duplicate":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"a":1,"a":2}}`+"\n", m.ID)
		case "stranger":
			fmt.Printf("%s\n%s\n", encodeResult(json.RawMessage(`"x"`), object{}), encodeResult(m.ID, object{}))
		case "question":
			fmt.Printf("%s\n", encodeRequest("q1", "ping", nil))
			in.Scan()
			fmt.Printf("%s\n", encodeResult(m.ID, json.RawMessage(in.Bytes())))
		case "exit":
			os.Exit(7)
		default:
			fmt.Printf("%s\n", encodeNotification("notifications/seen", object{"method": m.Method}))
			fmt.Printf("%s\n", encodeResult(m.ID, object{"params": m.Params}))
		}
	}
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, o Options) *Upstream {
	t.Helper()
	u, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

func startFaulty(t *testing.T, era Era, faults ...string) *Upstream {
	t.Helper()
	u := start(t, Options{Era: era})
	if err := u.SetFault(faults...); err != nil {
		t.Fatal(err)
	}
	return u
}

// A peer speaks to an upstream by net/http, one message at a time.
type peer struct {
	t       *testing.T
	url     string
	up      *Upstream // only where the test needs it
	client  *http.Client
	header  http.Header
	session string
}

func newPeer(t *testing.T, url string) *peer {
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &peer{t: t, url: url, client: &http.Client{Transport: tr, CheckRedirect: noRedirect}, header: http.Header{}}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (p *peer) request(ctx context.Context, method, body string, header http.Header) *http.Request {
	p.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, p.url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.GetBody = nil
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		r.Header[k] = v
	}
	if p.session != "" {
		r.Header.Set("Mcp-Session-Id", p.session)
	}
	return r
}

// do sends a request and reads the whole response; an error of either is err.
func (p *peer) do(method, body string, header http.Header) (res *http.Response, got []byte, err error) {
	p.t.Helper()
	res, err = p.client.Do(p.request(testContext(p.t), method, body, header))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	got, err = io.ReadAll(res.Body)
	return res, got, err
}

// must is do for a response that has to come whole.
func (p *peer) must(method, body string, header http.Header) (*http.Response, []byte) {
	p.t.Helper()
	res, got, err := p.do(method, body, header)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, body, err)
	}
	return res, got
}

// initialize does the legacy handshake.
func (p *peer) initialize(version string) {
	p.t.Helper()
	res, got := p.must("POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"t","version":"1"}}}`, nil)
	if res.StatusCode != 200 {
		p.t.Fatalf("initialize: %d %s", res.StatusCode, got)
	}
	p.session = res.Header.Get("Mcp-Session-Id")
	if res, got = p.must("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil); res.StatusCode != 202 {
		p.t.Fatalf("initialized: %d %s", res.StatusCode, got)
	}
}

func callBody(id, tool, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
}

// modernBody is a request with the _meta of 2026-07-28; params is the inside of
// an object.
func modernBody(id, method, params string) string {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	if params != "" {
		meta += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + meta + params + `}}`
}

func modernHeader(method, name string) http.Header {
	h := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}}
	if name != "" {
		h.Set("Mcp-Name", name)
	}
	return h
}

// modern sends a modern request that is right in all respects.
func (p *peer) modern(id, method, name, params string) (*http.Response, []byte, error) {
	p.t.Helper()
	return p.do("POST", modernBody(id, method, params), modernHeader(method, name))
}

// modernCall calls a tool statelessly.
func (p *peer) modernCall(tool, args string) (*http.Response, []byte, error) {
	p.t.Helper()
	return p.modern("1", "tools/call", tool, `"name":"`+tool+`","arguments":`+args)
}

// code returns the code of the JSON-RPC error in a body, 0 if there is none.
func code(body []byte) int {
	var m struct{ Error struct{ Code int } }
	_ = json.Unmarshal(body, &m)
	return m.Error.Code
}
