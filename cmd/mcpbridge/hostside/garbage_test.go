package hostside

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// garbageLimit is --max-message of the garbage tests.
const garbageLimit = 64 << 10

// A garbage is what a server that has lost its mind sends in answer to a call:
// bytes on the connection, below HTTP.
type garbage struct {
	says string // in the text that the host gets; "": the result, for all that
	send func(w io.Writer, id string)
}

const (
	okHead     = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n"
	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
)

func goodReply(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"good"}]}}`
}

// bytesOf sends text in which ID stands for the id and LEN for the length of
// what follows the head.
func bytesOf(text string) func(io.Writer, string) {
	return func(w io.Writer, id string) {
		text := strings.ReplaceAll(text, "ID", id)
		_, body, _ := strings.Cut(text, "\r\n\r\n")
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "LEN", fmt.Sprint(len(body)))) // the client may have left
	}
}

// endless sends first, and then piece until the client leaves.
func endless(first, piece string) func(io.Writer, string) {
	return func(w io.Writer, _ string) {
		_, err := io.WriteString(w, first)
		for err == nil {
			_, err = io.WriteString(w, piece)
		}
	}
}

// bomb sends a body of 50 times the limit, compressed.
func bomb(head, first string) func(io.Writer, string) {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = io.WriteString(z, first)
	piece := bytes.Repeat([]byte("a"), garbageLimit)
	for range 50 {
		_, _ = z.Write(piece)
	}
	_ = z.Close()
	return func(w io.Writer, _ string) {
		_, _ = fmt.Fprintf(w, "%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", head, b.Len(), b.Bytes())
	}
}

func garbages() map[string]garbage {
	const reply = `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"good"}]}}`
	deep := strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)
	return map[string]garbage{
		"head without end":           {"response headers exceeded", endless("HTTP/1.1 200 OK\r\n", "X-A: "+strings.Repeat("a", 1000)+"\r\n")},
		"header line without end":    {"response headers exceeded", endless("HTTP/1.1 200 OK\r\nX-A: ", strings.Repeat("a", 1000))},
		"header of 1 MiB":            {"response headers exceeded", bytesOf(okHead + "X-A: " + strings.Repeat("a", 1<<20) + "\r\nContent-Length: LEN\r\n\r\n" + reply)},
		"early hints without end":    {"response headers exceeded", endless("", "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n")},
		"another protocol":           {"malformed HTTP", bytesOf("SSH-2.0-OpenSSH_9\r\n\r\n")},
		"a switch of protocols":      {"HTTP 101", bytesOf("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x05hello")},
		"status 000":                 {"status 000", bytesOf("HTTP/1.1 000 OK\r\nContent-Length: LEN\r\n\r\n" + reply)},
		"status 204":                 {"empty body", bytesOf("HTTP/1.1 204 No Content\r\n\r\n")},
		"status 304":                 {"HTTP 304", bytesOf("HTTP/1.1 304 Not Modified\r\n\r\n")},
		"NUL in a header":            {"malformed", bytesOf(okHead + "X-A: a\x00b\r\nContent-Length: LEN\r\n\r\n" + reply)},
		"negative length":            {"Content-Length", bytesOf(okHead + "Content-Length: -5\r\n\r\n" + reply)},
		"two lengths":                {"Content-Length", bytesOf(okHead + "Content-Length: LEN\r\nContent-Length: 3\r\n\r\n" + reply)},
		"length beyond the limit":    {"--max-message", bytesOf(okHead + "Content-Length: 99999999999999\r\n\r\n" + reply)},
		"length too short":           {"no JSON", bytesOf(okHead + "Content-Length: 20\r\n\r\n" + reply)},
		"length too long":            {"broke off", bytesOf(okHead + "Content-Length: 5000\r\n\r\n" + `{"jsonrpc":"2.0"`)},
		"chunk of no size":           {"chunk", bytesOf(okHead + "Transfer-Encoding: chunked\r\n\r\nZZZ\r\n" + reply)},
		"chunk longer than it says":  {"chunked", bytesOf(okHead + "Transfer-Encoding: chunked\r\n\r\n5\r\n" + reply + "\r\n0\r\n\r\n")},
		"chunk extension, endless":   {"too long", endless(okHead+"Transfer-Encoding: chunked\r\n\r\n5;", strings.Repeat("a", 1000))},
		"unknown transfer encoding":  {"unsupported transfer encoding", bytesOf(okHead + "Transfer-Encoding: br\r\n\r\n" + reply)},
		"trailers without end":       {"", endlessTrailers},
		"bomb":                       {"--max-message", bomb(okHead, `{"jsonrpc":"2.0","id":1,"result":{"x":"`)},
		"bomb in a stream":           {"--max-message", bomb(strings.TrimSuffix(streamHead, "\r\n"), `data: {"jsonrpc":"2.0","id":1,"result":{"x":"`)},
		"compressed twice":           {"Content-Encoding: gzip, gzip", bytesOf(okHead + "Content-Encoding: gzip, gzip\r\nContent-Length: LEN\r\n\r\n" + reply)},
		"not compressed at all":      {"Content-Encoding: gzip", bytesOf(okHead + "Content-Encoding: gzip\r\nContent-Length: LEN\r\n\r\n" + reply)},
		"body without end":           {"--max-message", endless(okHead+"\r\n", `{"a":"`+strings.Repeat("a", 1000))},
		"line of a stream, endless":  {"--max-message", endless(streamHead+"data: ", strings.Repeat("a", 1000))},
		"event of lines, endless":    {"--max-message", endless(streamHead, "data: "+strings.Repeat("a", 1000)+"\n")},
		"binary before the reply":    {"", bytesOf(streamHead + "\x00\x01\xfe\xff\r\x80\n\ndata: " + reply + "\n\n")},
		"reply that is no UTF-8":     {"UTF-8", bytesOf(streamHead + strings.Replace("data: "+reply+"\n\n", "good", "\xff", 1))},
		"byte order mark":            {"ufeff", bytesOf(okHead + "Content-Length: LEN\r\n\r\n\ufeff" + reply)},
		"nesting beyond measure":     {"depth", bytesOf(okHead + "Content-Length: LEN\r\n\r\n" + strings.Replace(reply, `"good"`, deep, 1))},
		"two replies in a body":      {"more bytes after", bytesOf(okHead + "Content-Length: LEN\r\n\r\n" + reply + reply)},
		"two replies in a stream":    {"", bytesOf(streamHead + "data: " + reply + "\n\ndata: " + strings.Replace(reply, "good", "second", 1) + "\n\n")},
		"error code without measure": {"code", bytesOf(okHead + "Content-Length: LEN\r\n\r\n" + `{"jsonrpc":"2.0","id":ID,"error":{"code":1e999,"message":"m"}}`)},
		"cookies without measure":    {"", bytesOf(okHead + strings.Repeat("Set-Cookie: c="+strings.Repeat("v", 200)+"\r\n", 2000) + "Content-Length: LEN\r\n\r\n" + reply)},
		"redirect to itself":         {"circle", bytesOf("HTTP/1.1 307 X\r\nLocation: /mcp\r\nContent-Length: 0\r\n\r\n")},
		"redirect to nowhere":        {"no Location", bytesOf("HTTP/1.1 308 X\r\nContent-Length: 0\r\n\r\n")},
		"redirect to no URL":         {"no URL", bytesOf("HTTP/1.1 308 X\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n")},
		"redirect to a file":         {"another server", bytesOf("HTTP/1.1 307 X\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n")},
		"redirect with a password":   {"another server", bytesOf("HTTP/1.1 307 X\r\nLocation: //u:p@127.0.0.1:1/mcp\r\nContent-Length: 0\r\n\r\n")},
		"nothing":                    {"connection closed", func(io.Writer, string) {}},
	}
}

// endlessTrailers sends a whole reply, and trailers behind it until the client
// leaves.
func endlessTrailers(w io.Writer, id string) {
	reply := goodReply(id)
	endless(fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n", okHead, len(reply), reply), "X-A: "+strings.Repeat("a", 1000)+"\r\n")(w, id)
}

// serveGarbage starts a legacy server whose tools are the names of garbages, and
// echo. A connection ends after each answer.
func serveGarbage(t testing.TB, all map[string]garbage) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	tools := []string{`{"name":"echo","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`}
	for name := range all {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
	}
	go func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go answerGarbage(conn, all, tools)
			}
		}
	}()
	return "http://" + l.Addr().String() + "/mcp"
}

func answerGarbage(conn net.Conn, all map[string]garbage, tools []string) {
	defer conn.Close()
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name, ProtocolVersion string }
	}
	if body, err := io.ReadAll(req.Body); err != nil || req.Method != http.MethodPost || json.Unmarshal(body, &m) != nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 405 Method Not Allowed\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		return
	}
	result := ""
	switch {
	case m.ID == nil:
		_, _ = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		return
	case m.Method == "initialize":
		result = fmt.Sprintf(`"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"garbage","version":"1"}}`, m.Params.ProtocolVersion)
	case m.Method == "tools/list":
		result = `"result":{"tools":[` + strings.Join(tools, ",") + `]}`
	case m.Method != "tools/call":
		result = `"error":{"code":-32601,"message":"method not found"}`
	case all[m.Params.Name].send != nil:
		all[m.Params.Name].send(conn, string(m.ID))
		return
	default:
		bytesOf(okHead+"Content-Length: LEN\r\n\r\n"+goodReply("ID"))(conn, string(m.ID))
		return
	}
	bytesOf(okHead+"Content-Length: LEN\r\n\r\n"+`{"jsonrpc":"2.0","id":ID,`+result+`}`)(conn, string(m.ID))
}

// Whatever a server sends, its call is answered once and at once, in words that
// say what was wrong, and the next call works.
func TestGarbageOfTheServer(t *testing.T) {
	t.Parallel()
	all := garbages()
	r := start(t, nil, setup{version: v2506, url: serveGarbage(t, all), args: []string{
		fmt.Sprintf("--max-message=%d", garbageLimit), "--retries=0", "--answer-within=50s",
	}})
	r.knowTools()
	for name, g := range all {
		got := r.tool(name, "{}")
		switch text := got.Text(); {
		case g.says == "" && (got.IsError() || text != "good"):
			t.Errorf("%s: %.400s", name, got.Raw)
		case g.says != "" && (!got.IsError() || !strings.HasPrefix(text, "OUTCOME UNKNOWN: ") || !strings.Contains(text, g.says)):
			t.Errorf("%s: the text does not say %q: %.600s", name, g.says, text)
		case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
			t.Errorf("%s: control characters: %q", name, text)
		}
		if got := r.tool("echo", "{}"); got.Text() != "good" {
			t.Fatalf("the call after %s: %.300s", name, got.Raw)
		}
	}
	if log := r.host.Stderr(); log != "" {
		t.Errorf("standard error: %.1000s", log)
	}
	r.quit()
}
