package cost

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// A server is a modern one with a reading and a writing tool, which do as little
// as possible. It counts the writes.
type server struct {
	url string

	mu     sync.Mutex
	writes int
}

const (
	catalogue = `{"resultType":"complete","tools":[` +
		`{"name":"echo","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},` +
		`{"name":"write_echo","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"destructiveHint":false}}` +
		`],"ttlMs":60000,"cacheScope":"public"}`
	discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":60000,"cacheScope":"public"}`
	echoed     = `{"resultType":"complete","content":[{"type":"text","text":"hello"}]}`
)

func startServer(tb testing.TB) *server {
	s := &server{}
	up := httptest.NewServer(s)
	tb.Cleanup(up.Close)
	s.url = up.URL
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	m, readErr := jsonrpc.Read(body)
	if err != nil || readErr != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	result := echoed
	switch m.Method {
	case "server/discover":
		result = discovered
	case "tools/list":
		result = catalogue
	case "tools/call":
		if name, _ := jsonrpc.String(m.Field(jsonrpc.Name)); name == "write_echo" {
			s.mu.Lock()
			s.writes++
			s.mu.Unlock()
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.Bytes(m.ID), result)
}

func (s *server) written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// A host is the program with a host on its pipes.
type host struct {
	tb    testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader

	mu sync.Mutex // of in
	id int
}

// startHost starts the program for a server with a state directory.
func startHost(tb testing.TB, url, state string, args ...string) *host {
	tb.Helper()
	home := tb.TempDir()
	cmd := exec.Command(program(), append(append([]string{"--state-dir=" + state, "--server-id=crm"}, args...), url)...)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "SYSTEMROOT=" + os.Getenv("SYSTEMROOT")}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	h := &host{tb: tb, cmd: cmd, in: in, lines: bufio.NewReaderSize(out, 1<<20)}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(h.stop)
	return h
}

// stop lets the program end.
func (h *host) stop() {
	_ = h.in.Close()
	_, _ = io.Copy(io.Discard, h.lines)
	_ = h.cmd.Wait() // a second one says only that there was a first
}

// initialize shakes hands and gets the tools.
func (h *host) initialize() {
	h.tb.Helper()
	h.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"cost","version":"1"}}`)
	h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// knowTools waits until the tools are known, and with them their classes.
func (h *host) knowTools() {
	h.tb.Helper()
	for !strings.Contains(h.call("tools/list", `{}`), `"write_echo"`) {
		continue
	}
}

// call sends a request and returns the line that answers it. Nothing else may be
// in flight.
func (h *host) call(method, params string) string {
	h.tb.Helper()
	h.id++
	h.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, h.id, method, params))
	for {
		line := h.line()
		if answers(line) == h.id {
			return line
		}
	}
}

func (h *host) send(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := io.WriteString(h.in, line+"\n"); err != nil {
		h.tb.Fatal(err)
	}
}

func (h *host) line() string {
	h.tb.Helper()
	line, err := h.lines.ReadString('\n')
	if err != nil {
		h.tb.Fatalf("no more lines: %v", err)
	}
	return line
}

// answers is the id that a line answers, 0 for none.
func answers(line string) int {
	m, err := jsonrpc.Read([]byte(line))
	if err != nil || m.Kind != jsonrpc.Response {
		return 0
	}
	id, _ := strconv.Atoi(string(m.Bytes(m.ID)))
	return id
}

// tool calls a tool with a number.
func (h *host) tool(name string, n int) {
	h.tb.Helper()
	got := h.call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"text":"hello","n":%d}}`, name, n))
	if !strings.Contains(got, `"text":"hello"`) {
		h.tb.Fatalf("%s: %s", name, got)
	}
}
