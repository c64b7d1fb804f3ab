package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// An outServer is a modern server whose answers a test chooses by method.
type outServer struct{ url *url.URL }

// newOutServer answers a method by what results makes of the request: a result,
// or a whole body if that begins with "data:".
func newOutServer(t *testing.T, results map[string]func(m *jsonrpc.Message) string) *outServer {
	t.Helper()
	s := &outServer{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		m, readErr := jsonrpc.Read(body)
		if err != nil || readErr != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		result := `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"logging":{}},"ttlMs":60000,"cacheScope":"public"}`
		if f := results[m.Method]; f != nil {
			result = f(&m)
		} else if m.Method == "tools/list" {
			result = `{"resultType":"complete","tools":[{"name":"big","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}],"ttlMs":60000,"cacheScope":"public"}`
		}
		if strings.HasPrefix(result, "data:") {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, result)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		reply := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.Bytes(m.ID), result)
		if m.Method == "tools/call" && len(result)%2 == 0 {
			w.Header().Set("Content-Length", fmt.Sprint(len(reply)))
		}
		io.WriteString(w, reply)
	}))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.url = u
	return s
}

// A logBook keeps what was logged.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBook) has(all ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(all, func(s string) bool { return !strings.Contains(line, s) }) {
			return true
		}
	}
	return false
}

func (l *logBook) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (p *inProcess) handshake(version string) {
	p.t.Helper()
	p.call("initialize", `{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
}

// until waits for a condition that no channel tells.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not in 20 s: %s", what)
		}
	}
}

// Answers for which there is no memory wait in files for a host that does not
// read, and arrive whole. What they took is given back, and the limit holds at
// any moment.
func TestSpooledAnswersArriveWhole(t *testing.T) {
	t.Parallel()
	const calls, limit = 24, 64 << 10
	text := func(n int) string { return strings.Repeat(fmt.Sprintf("%02d’", n), 300_000+n*7_001) }
	var served sync.WaitGroup
	served.Add(calls)
	s := newOutServer(t, map[string]func(*jsonrpc.Message) string{"tools/call": func(m *jsonrpc.Message) string {
		defer served.Done()
		n, _ := jsonrpc.Integer(jsonrpc.Get(jsonrpc.Get(m.Bytes(m.Params), "arguments"), "n"))
		result := `{"resultType":"complete","content":[{"type":"text","text":"` + text(int(n)) + `"}]}`
		if n%3 == 0 {
			return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", m.Bytes(m.ID), result)
		}
		return result
	}})
	dir := t.TempDir()
	p := startInProcess(t, Config{URL: s.url, MaxMemory: limit, StateDir: dir})
	p.handshake("2025-11-25")
	p.call("tools/list", "{}")
	for n := range calls {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","method":"tools/call","params":{"name":"big","arguments":{"n":%d}}}`, n, n))
	}
	served.Wait()
	until(t, "the host is waited for", func() bool { _, yes := p.bridge.host.out.Blocked(); return yes })
	mem := p.bridge.link.endpoint.memory
	p.out.SetReadDeadline(time.Now().Add(60 * time.Second))
	seen := map[string]bool{}
	for len(seen) < calls {
		line, err := p.lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		if used := mem.used.Load(); used > 2*limit { // a refused reservation counts for a moment
			t.Errorf("%d bytes of %d are in use", used, limit)
		}
		m, err := jsonrpc.Read(line)
		if err != nil || m.Kind != jsonrpc.Response {
			t.Fatalf("%.100s: %v", line, err)
		}
		var n int
		id, _ := jsonrpc.String(m.Bytes(m.ID))
		fmt.Sscanf(id, "c%d", &n)
		if seen[id] || !bytes.Contains(line, []byte(`"text":"`+text(n)+`"`)) {
			t.Errorf("answer %s of %d bytes is torn or came twice", id, len(line))
		}
		seen[id] = true
	}
	until(t, "all memory is given back", func() bool { return mem.used.Load() == 0 })
	if left, err := filepath.Glob(filepath.Join(dir, "spool", "*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %q, %v", left, err)
	}
}

// Nothing as long as --host-line-limit leaves, however it came to be so long,
// and every request is answered all the same.
func TestLineLimitOfTheHost(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	separators := strings.Repeat("\u2028", 12_000) // 36 kB in, 72 kB out
	pad := strings.Repeat("x", limit)
	tool := func(name, description string) string {
		return `{"name":"` + name + `","description":"` + description + `","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`
	}
	s := newOutServer(t, map[string]func(*jsonrpc.Message) string{
		"tools/list": func(*jsonrpc.Message) string {
			return `{"resultType":"complete","tools":[` + tool("big", "") + `,` + tool("verbose", pad[:40_000]) + `,` + tool("small", "") + `],"ttlMs":60000,"cacheScope":"public"}`
		},
		"tools/call": func(m *jsonrpc.Message) string {
			return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"error\",\"data\":\"%s\"}}\n\n"+
				"data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"%s\"}]}}\n\n", pad, m.Bytes(m.ID), separators)
		},
		"resources/read": func(*jsonrpc.Message) string {
			return `{"resultType":"complete","contents":[{"uri":"x:","text":"` + separators + `"}],"ttlMs":0,"cacheScope":"private"}`
		},
	})
	book := &logBook{}
	p := startInProcess(t, Config{URL: s.url, HostLineLimit: limit, Log: book.log()})
	p.handshake("2025-11-25")
	list := p.call("tools/list", "{}")
	for range 5 { // a slow server is known later
		if strings.Contains(string(list.Raw), `"small"`) {
			break
		}
		list = p.call("tools/list", "{}")
	}
	if text := string(list.Raw); !strings.Contains(text, `"small"`) || !strings.Contains(text, `"big"`) || strings.Contains(text, `"verbose"`) {
		t.Errorf("listed: %.300s", text)
	}
	if !book.has("not listed", "verbose") {
		t.Error("no warning about the tool")
	}
	call := p.call("tools/call", `{"name":"big","arguments":{}}`)
	if text := string(call.Raw); !strings.Contains(text, "NO ANSWER") || !strings.Contains(text, "--host-line-limit") {
		t.Errorf("the call: %.300s", text)
	}
	if !book.has("a notification was dropped") || p.bridge.host.out.Dropped() != 1 {
		t.Errorf("%d notifications were dropped", p.bridge.host.out.Dropped())
	}
	read := p.call("resources/read", `{"uri":"x:"}`)
	if code := string(read.Field(jsonrpc.Code)); code != "-31004" {
		t.Errorf("the resource: %.300s", read.Raw)
	}
}

// An answer that only stdout finds too long becomes an error for its id.
func TestAnswerThatOnlyTheWriterMeasures(t *testing.T) {
	t.Parallel()
	s := newOutServer(t, map[string]func(*jsonrpc.Message) string{"server/discover": func(*jsonrpc.Message) string {
		return `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"` + strings.Repeat("i", 20_000) + `","ttlMs":60000,"cacheScope":"public"}`
	}})
	book := &logBook{}
	p := startInProcess(t, Config{URL: s.url, HostLineLimit: 16 << 10, Log: book.log()})
	var got *jsonrpc.Message
	for range 20 { // until the server's own words are known
		got = p.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
		if got.Error != (jsonrpc.Span{}) {
			break
		}
	}
	if code := string(got.Field(jsonrpc.Code)); code != "-31004" || !book.has("longer than the host can read", "initialize") {
		t.Errorf("%.300s", got.Raw)
	}
}

// The answers to an array fit one line together: one that does not is an error,
// the others are as they are.
func TestBatchFitsALine(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	s := newOutServer(t, map[string]func(*jsonrpc.Message) string{"resources/read": func(m *jsonrpc.Message) string {
		size, _ := jsonrpc.Integer(jsonrpc.Get(m.Bytes(m.Params), "size"))
		return `{"resultType":"complete","contents":[{"uri":"x:","text":"` + strings.Repeat("x", int(size)) + `"}],"ttlMs":0,"cacheScope":"private"}`
	}})
	p := startInProcess(t, Config{URL: s.url, HostLineLimit: limit})
	p.handshake("2025-03-26")
	for _, tt := range []struct {
		sizes []int
		want  int
	}{{[]int{40_000, 40_000, 10}, 1}, {[]int{30_000, 30_000, 10}, 0}, {[]int{limit - 400}, 0}, {[]int{limit}, 1}} {
		sizes := tt.sizes
		var members []string
		for i, size := range sizes {
			members = append(members, fmt.Sprintf(`{"jsonrpc":"2.0","id":"m%d","method":"resources/read","params":{"uri":"x:","size":%d}}`, i, size))
		}
		p.send("[" + strings.Join(members, ",") + `,{"jsonrpc":"2.0","method":"notifications/x"}]`)
		p.out.SetReadDeadline(time.Now().Add(20 * time.Second))
		line, err := p.lines.ReadBytes('\n')
		if err != nil || len(line) > limit {
			t.Fatalf("%d bytes, %v", len(line), err)
		}
		parts, err := jsonrpc.Split(line)
		if err != nil || len(parts) != len(sizes) {
			t.Fatalf("%d answers, %v", len(parts), err)
		}
		refused := 0
		for _, part := range parts {
			m, err := jsonrpc.Read(part)
			if err != nil {
				t.Fatal(err)
			}
			if code := string(m.Field(jsonrpc.Code)); code == "-31004" {
				refused++
			} else if code != "" {
				t.Errorf("%s", part)
			}
		}
		if refused != tt.want {
			t.Errorf("%v: %d members were refused, want %d", sizes, refused, tt.want)
		}
	}
}

// An array that is no batch is an invalid request, not a text that cannot be
// parsed.
func TestBatchThatIsRefused(t *testing.T) {
	t.Parallel()
	s := newOutServer(t, nil)
	p := startInProcess(t, Config{URL: s.url, HostLineLimit: 64 << 10})
	ping := `{"jsonrpc":"2.0","id":"` + strings.Repeat("p", 100) + `","method":"ping"}`
	for what, line := range map[string]string{
		"empty":                   `[]`,
		"too many members":        `[` + strings.Repeat("1,", jsonrpc.MaxBatch) + `1]`,
		"answers that cannot fit": `[` + strings.Repeat(ping+",", 300) + ping + `]`,
		"no array":                `[1`,
	} {
		p.send(line)
		p.out.SetReadDeadline(time.Now().Add(20 * time.Second))
		got, err := p.lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		m, err := jsonrpc.Read(got)
		want := "-32600"
		if what == "no array" {
			want = "-32700"
		}
		if code := string(m.Field(jsonrpc.Code)); err != nil || code != want {
			t.Errorf("%s: %s, %v", what, got, err)
		}
	}
}

// A list that is served without its end says so in the log.
func TestListWithoutItsEnd(t *testing.T) {
	t.Parallel()
	s := newOutServer(t, map[string]func(*jsonrpc.Message) string{"tools/list": func(*jsonrpc.Message) string {
		return `{"resultType":"complete","tools":[{"name":"again","inputSchema":{"type":"object"}}],"nextCursor":"same","ttlMs":60000,"cacheScope":"public"}`
	}})
	book := &logBook{}
	p := startInProcess(t, Config{URL: s.url, Log: book.log()})
	p.handshake("2025-11-25")
	p.call("tools/list", "{}")
	until(t, "it is logged", func() bool { return book.has("without its end", "tools/list", "one cursor twice") })
	for bound, got := range map[string]string{
		"1000 pages": pageBound(maxPages, 0, false), "67108864 bytes": pageBound(1, maxListBytes+1, false), "": pageBound(maxPages-1, maxListBytes, false),
	} {
		if got != bound {
			t.Errorf("bound %q, want %q", got, bound)
		}
	}
}

// What cannot be held in a file either is cut by the bridge, with what had
// arrived before, and nothing stays reserved.
func TestSpoolThatFails(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	body := bytes.Repeat([]byte("0123456789abcdef"), 32<<10)
	closed := func() (*spool, error) { // takes nothing
		f, err := newSpool(t.TempDir())
		if err == nil {
			f.File.Close()
		}
		return f, err
	}
	for name, make := range map[string]func() (*spool, error){"no file": func() (*spool, error) { return nil, full }, "no room in it": closed} {
		m := &memory{limit: 100_000, spool: make}
		h, err := m.read(iotest.HalfReader(bytes.NewReader(body)), -1, 1<<20)
		var spool *spoolError
		if !errors.As(err, &spool) || name == "no file" && !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
		if len(h.bytes) == 0 || !bytes.HasPrefix(body, h.bytes) {
			t.Errorf("%s: %d bytes are left", name, len(h.bytes))
		}
		free(h.release)
		if used := m.used.Load(); used != 0 {
			t.Errorf("%s: %d bytes stay reserved", name, used)
		}
		r := &reply{}
		r.brokeOff(t.Context(), err)
		if r.endedBy != byBridge {
			t.Errorf("%s: ended by %s", name, r.endedBy)
		}
	}
}

// A body takes no more than the limit, however it comes, and is whole.
func TestBodiesBeyondTheMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, limit := range []int64{0, 20_000, 100_000, 600_000, 4 << 20} {
		m := &memory{limit: limit, spool: func() (*spool, error) { return newSpool(dir) }}
		for _, size := range []int{0, 1, 4 << 10, 16 << 10, 17_000, 300_000} {
			body := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
			for _, length := range []int64{-1, int64(size)} {
				h, err := m.read(bytes.NewReader(body), length, 1<<20)
				if err != nil || !bytes.Equal(h.bytes, body) {
					t.Errorf("limit %d, %d bytes of length %d: %d bytes, %v", limit, size, length, len(h.bytes), err)
				}
				if used := m.used.Load(); used > limit {
					t.Errorf("limit %d: %d bytes are in use", limit, used)
				}
				free(h.release)
				if used := m.used.Load(); used != 0 {
					t.Errorf("limit %d: %d bytes stay reserved", limit, used)
				}
			}
		}
	}
}

// What the stream of an HTTP+SSE server brings counts like any body: it goes to
// files where there is no room, and is given back, taken or not.
func TestSSEEventsBeyondTheMemory(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{0, 1 << 20} {
		var files atomic.Int64
		text := strings.Repeat("text ", 10_000)
		s := &sseServer{endpoint: "/m", version: rev2025_03_26}
		s.post = func(w http.ResponseWriter, _ *jsonrpc.Message, id string) {
			w.WriteHeader(http.StatusAccepted)
			mine := strings.Replace(toolResult(id), "did it", text, 1)
			s.say(strings.Replace(toolResult("99999"), "did it", text, 1))                                              // nobody's
			s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + text + `"}}`) // a notice
			s.say(`{"jsonrpc":"2.0","id":"q","method":"ping","params":{"x":"` + text + `"}}`)                           // a question
			s.say(strings.Replace(toolResult(`"?"`), "did it", text, 1) + " ")                                          // of no id of ours
			s.say(`[` + mine + `,{"jsonrpc":"2.0","method":"notifications/x"},` + toolResult("77777") + `]`)            // a batch
			s.say(strings.Replace(toolResult(id), "did it", text, 1))                                                   // too late
		}
		s = newSSEServer(t, s)
		c := newSSEClient(t, s, "/sse")
		mem, dir := c.endpoint.memory, t.TempDir()
		mem.limit, mem.spool = limit, func() (*spool, error) { files.Add(1); return newSpool(dir) }
		m, err := jsonrpc.Read([]byte(`{"jsonrpc":"2.0","id":"host","method":"tools/call","params":{"name":"t"}}`))
		if err != nil {
			t.Fatal(err)
		}
		if failed := c.prepare(c.ctx, c.p); failed != nil {
			t.Fatal(failed.verdict.Why)
		}
		r := c.deliver(c.ctx, &delivery{msg: &m, method: m.Method, id: c.newID(), write: true, profile: c.p}, deaf{})
		r.judge()
		if got := string(r.verdict.Reply.Raw); !strings.Contains(got, text) {
			t.Errorf("limit %d: the reply is %.100s (%s)", limit, got, r.verdict.Why)
		}
		if limit > 0 && mem.used.Load() == 0 || limit == 0 && files.Load() == 0 {
			t.Errorf("limit %d: %d bytes are in use, %d files were made", limit, mem.used.Load(), files.Load())
		}
		r.done()
		until(t, "all is given back", func() bool { return mem.used.Load() == 0 })
		if mem.used.Load() < 0 || limit > 0 && files.Load() > 0 {
			t.Errorf("limit %d: %d bytes are in use, %d files were made", limit, mem.used.Load(), files.Load())
		}
	}
}

// A host that reads gets every progress there is.
func TestAllProgressArrives(t *testing.T) {
	t.Parallel()
	const steps = 3000
	s := newOutServer(t, map[string]func(*jsonrpc.Message) string{"tools/call": func(m *jsonrpc.Message) string {
		token := jsonrpc.Get(jsonrpc.Get(m.Bytes(m.Params), "_meta"), "progressToken")
		var b strings.Builder
		for n := range steps {
			fmt.Fprintf(&b, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":%d}}\n\n", token, n+1)
		}
		fmt.Fprintf(&b, "data: %s\n\n", toolResult(string(m.Bytes(m.ID))))
		return b.String()
	}})
	p := startInProcess(t, Config{URL: s.url})
	p.handshake("2025-11-25")
	p.send(`{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"big","arguments":{},"_meta":{"progressToken":"p"}}}`)
	until(t, "the host is waited for", func() bool { _, yes := p.bridge.host.out.Blocked(); return yes })
	for n := 0; ; n++ {
		p.out.SetReadDeadline(time.Now().Add(20 * time.Second)) // a limit on silence; a busy machine may take its time
		line, err := p.lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		m, err := jsonrpc.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == jsonrpc.Response {
			if n != steps {
				t.Errorf("%d steps came", n)
			}
			return
		}
		if got := string(m.Field(jsonrpc.Progress)); got != fmt.Sprint(n+1) {
			t.Fatalf("step %s came as number %d", got, n+1)
		}
	}
}

// A verdict outlives the bytes that it was made from.
func TestVerdictWithoutItsBytes(t *testing.T) {
	t.Parallel()
	s := newOutServer(t, map[string]func(*jsonrpc.Message) string{"tools/call": func(m *jsonrpc.Message) string {
		return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32000,\"message\":\"no\",\"data\":\"%s\"}}\n\n", m.Bytes(m.ID), strings.Repeat("d", 50_000))
	}})
	cfg := Config{URL: s.url, MaxMemory: 1, StateDir: t.TempDir()}.withDefaults()
	e, err := newEndpoint(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.wire.Close()
	m, err := jsonrpc.Read([]byte(`{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{"name":"big"}}`))
	if err != nil {
		t.Fatal(err)
	}
	up := &modern{endpoint: e, revision: rev2026_07_28}
	r := up.deliver(t.Context(), &delivery{msg: &m, method: m.Method, name: "big", id: 1, profile: legacyProfile(rev2025_11_25, nil, nil)}, deaf{})
	r.judge()
	r.done()
	if r.verdict.RPCError == nil || len(r.verdict.RPCError.Data) != 50_002 || r.verdict.Reply.Raw != nil {
		t.Errorf("%v: %.100s", r.verdict.Outcome, r.verdict.Why)
	}
}
