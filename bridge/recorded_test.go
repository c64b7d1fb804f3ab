package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/wire"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/recorded"
)

// A recording is one file of recorded replies.
type recording struct {
	asked   map[string]string
	raw     []byte // the response
	verdict []byte
}

func readRecording(t *testing.T, path string) recording {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rec := recording{asked: map[string]string{"method": "tools/call", "id": "1", "protocol": rev2026_07_28, "ended": "complete"}}
	part := ""
	for line := range bytes.Lines(text) {
		if name, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("-- ")); ok && bytes.HasSuffix(name, []byte(" --")) {
			part = strings.TrimSuffix(string(name), " --")
			continue
		}
		switch part {
		case "asked":
			name, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
			rec.asked[name] = value
		case "reply":
			rec.raw = append(rec.raw, line...)
		case "reply.quoted":
			bytes, err := strconv.Unquote(strings.TrimSpace(string(line)))
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			rec.raw = append(rec.raw, bytes...)
		case "verdict":
			rec.verdict = append(rec.verdict, line...)
		}
	}
	return rec
}

func (rec *recording) expectation() classify.Expectation {
	_, session := rec.asked["session"]
	e := classify.Expectation{Method: rec.asked["method"], ID: []byte(rec.asked["id"]), Protocol: rec.asked["protocol"], Session: session,
		OfferedTasks: rec.asked["offered"] == "tasks", UnknownExtension: rec.asked["offered"] == "unknown"}
	if strings.HasPrefix(e.Method, "notifications/") {
		e.ID = nil
	}
	return e
}

// notOnTheWire says why a recording cannot come over a connection to a bridge as
// it stands, "" if it can.
func (rec *recording) notOnTheWire(c *classify.Capture) string {
	_, proven := rec.asked["sent"]
	_, failed := rec.asked["failed"]
	_, elsewhere := rec.asked["elsewhere"]
	switch {
	case len(rec.raw) == 0 || c.Status == 0 || proven || failed:
		return "no response"
	case elsewhere:
		return "the reply comes on another stream"
	case rec.asked["ended"] != "complete" && rec.asked["ended"] != "cut":
		return "this side ends it"
	case c.Header.Get("Content-Encoding") != "":
		return "the client undoes codings, or refuses them"
	case c.Header.Get("Retry-After") != "" && strings.Contains(c.Header.Get("Retry-After"), "GMT") && c.Header.Get("Date") == "":
		return "a date counts from when the head came"
	case c.Status == http.StatusProxyAuthRequired, c.Status == http.StatusNoContent && len(rec.body()) > 0:
		return "HTTP has its own opinion of it"
	}
	return ""
}

// body is what follows the last head.
func (rec *recording) body() []byte {
	rest := rec.raw
	for {
		end := 0
		for line := range bytes.Lines(rest) {
			end += len(line)
			if len(bytes.TrimRight(line, "\r\n")) == 0 {
				break
			}
		}
		rest = rest[end:]
		if !bytes.HasPrefix(rest, []byte("HTTP/")) {
			return rest
		}
	}
}

// serve answers a request with the recording, cut where it was cut.
func (rec *recording) serve(w http.ResponseWriter, c *classify.Capture) error {
	body := rec.body()
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d Recorded\r\n", c.Status)
	for name, values := range c.Header {
		if !slices.Contains([]string{"Content-Length", "Transfer-Encoding", "Connection"}, name) {
			for _, v := range values {
				fmt.Fprintf(&head, "%s: %s\r\n", name, v)
			}
		}
	}
	length := len(body)
	if c.Ended == classify.Cut {
		length++
	}
	if c.Status != http.StatusNoContent {
		fmt.Fprintf(&head, "Content-Length: %d\r\n", length)
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write(append(append(head.Bytes(), "Connection: close\r\n\r\n"...), body...))
	return err
}

// What a recorded reply is judged to be, it is judged to be on the message path
// too: the capture made from a connection says the same as the one read from a
// file.
func TestRecordedRepliesOverAConnection(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "reply", "*.txtar"))
	if err != nil || len(paths) < 100 {
		t.Fatalf("%d recorded replies (%v)", len(paths), err)
	}
	recordings, captures := map[string]recording{}, map[string]classify.Capture{}
	for _, path := range paths {
		rec := readRecording(t, path)
		ended := classify.Complete
		if rec.asked["ended"] == "cut" {
			ended = classify.Cut
		}
		c, err := recorded.Parse(rec.raw, ended)
		if err == nil && rec.notOnTheWire(&c) == "" {
			name := strings.TrimSuffix(filepath.Base(path), ".txtar")
			recordings[name], captures[name] = rec, c
		}
	}
	if len(recordings) < 180 {
		t.Fatalf("only %d of %d recordings can be served", len(recordings), len(paths))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		rec, c := recordings[name], captures[name]
		if err := rec.serve(w, &c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}))
	t.Cleanup(server.Close)
	for name, rec := range recordings {
		at, err := url.Parse(server.URL + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{URL: at}.withDefaults()
		e, err := newEndpoint(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := e.send(t.Context(), &wire.Request{Method: http.MethodPost, Body: []byte("{}"), Write: true}, rec.expectation(), deaf{})
		r.judge()
		got, err := r.verdict.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if said, want := withoutWhy(t, got), withoutWhy(t, rec.verdict); said != want {
			t.Errorf("%s: over a connection it is\n%s\nand in the file\n%s", name, said, want)
		}
		r.done()
		e.wire.Close()
	}
}

// withoutWhy is a verdict as comparable text, but for the words about it.
func withoutWhy(t *testing.T, verdict []byte) string {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(verdict))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, verdict)
	}
	delete(v, "why")
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
