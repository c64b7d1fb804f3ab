package recorded_test

import (
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/recorded"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw    string
		status int
		body   string
		ended  classify.Ended
	}{
		{"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody\r\n", 200, "body\r\n", classify.Complete},
		{"HTTP/1.0 404 Not Found\n\n", 404, "", classify.Complete},
		{"HTTP/2 503 \nretry-after: 5\n\nx", 503, "x", classify.Complete},
		{"HTTP/3 200\n\nx", 200, "x", classify.Complete},
		{"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/2 200\r\n\r\nx", 200, "x", classify.Complete},
		{"HTTP/1.1 302 Found\nLocation: /x\n\nHTTP/1.1 200 OK\n\nHTTP/1 is a protocol", 200, "HTTP/1 is a protocol", classify.Complete},
		{"HTTP/1.1 200 OK\nContent-Length: 10\n\nshort", 200, "short", classify.Cut},
		{"HTTP/1.1 200 OK\nContent-Length: 5\n\nshort\n", 200, "short\n", classify.Complete},
		{"HTTP/1.1 200 OK\nContent-Length: 10\nTransfer-Encoding: chunked\n\nshort", 200, "short", classify.Complete},
		{"HTTP/1.1 200 OK\nContent-Length: 10\nContent-Encoding: gzip\n\nshort", 200, "short", classify.Complete},
		{"HTTP/1.1 200 OK", 200, "", classify.Cut},
		{"HTTP/1.1 200 OK\nA: b", 200, "", classify.Cut},
		{"HTTP/1.1 500 No\nContent-Type: text/event-stream\n\ndata: 1\n\n", 500, "data: 1\n\n", classify.Complete},
	} {
		got, err := recorded.Parse([]byte(c.raw), classify.Complete)
		if err != nil || got.Status != c.status || string(got.Body) != c.body || got.Ended != c.ended {
			t.Errorf("Parse(%q) = %d %q %v, %v", c.raw, got.Status, got.Body, got.Ended, err)
		}
	}
}

func TestParseHeaders(t *testing.T) {
	t.Parallel()
	c, err := recorded.Parse([]byte("HTTP/1.1 200 OK\nretry-AFTER:  5 \nX: a\n b\nx: c:d\nEmpty:\n\n"), classify.Complete)
	if err != nil {
		t.Fatal(err)
	}
	if c.Header.Get("Retry-After") != "5" || strings.Join(c.Header.Values("X"), "|") != "a b|c:d" || c.Header.Get("Empty") != "" {
		t.Errorf("headers are %v", c.Header)
	}
}

func TestParseEvents(t *testing.T) {
	t.Parallel()
	const reply = `{"jsonrpc":"2.0","id":1,"result":{}}`
	raw := "HTTP/1.1 200 OK\nContent-Type: Text/Event-Stream; charset=utf-8\n\n" +
		"id: 1\ndata:\n\nevent: ping\ndata: x\n\n" + strings.Repeat("data: {broken\n\n", 20) +
		`data: {"jsonrpc":"2.0","method":"m"}` + "\n\ndata: " + reply + "\n\ndata: " + reply + "\n"
	c, err := recorded.Parse([]byte(raw), classify.Cut)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Broken) != 8 || len(c.Replies) != 2 || c.Events != 23 || c.Body != nil || string(c.Replies[1].Raw) != reply {
		t.Errorf("%d broken, %d replies, %d events, body %q", len(c.Broken), len(c.Replies), c.Events, c.Body)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", " \n", "{}", "HTTP/1.1", "HTTP/1.1 OK", "HTTP/x 200 OK", "HTTP/1.1 20 OK", "HTTP/1.1 1000 OK",
		"HTTP/1.1 200 OK\nno header\n\n", "HTTP/1.1 200 OK\n: x\n\n", "GET / HTTP/1.1\n\n"} {
		if c, err := recorded.Parse([]byte(raw), classify.Complete); err == nil {
			t.Errorf("Parse(%q) = %d", raw, c.Status)
		} else if len(err.Error()) > 400 || strings.Contains(err.Error(), "\n") {
			t.Errorf("Parse(%q): %v", raw, err)
		}
	}
	for _, ended := range []classify.Ended{classify.Timeout, classify.Cut, classify.Cancelled} {
		if c, err := recorded.Parse([]byte("\n"), ended); err != nil || c.Status != 0 || c.Ended != ended {
			t.Errorf("nothing that ended by %v: %+v, %v", ended, c, err)
		}
	}
}
