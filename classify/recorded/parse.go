// Package recorded reads an HTTP response that was written down as text, as
// `curl -si` prints it, into a capture that classify can judge.
package recorded

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/classify"
)

// Parse reads one raw HTTP response: a status line (HTTP/1.x, HTTP/2 or later),
// headers, an empty line and the body, with LF or CRLF. Heads in front of the
// last one, such as 100 Continue, the answer of a proxy to CONNECT, or what curl
// followed or answered, are skipped. The body counts as it stands: curl prints
// it without chunks.
//
// A body shorter than its Content-Length, and a head without its empty line,
// were cut, even if ended says otherwise. Nothing at all is a capture without a
// response, unless ended is Complete. The error says why the text is no HTTP
// response.
func Parse(raw []byte, ended classify.Ended) (classify.Capture, error) {
	c := classify.Capture{Ended: ended}
	if len(bytes.TrimSpace(raw)) == 0 {
		if ended == classify.Complete {
			return c, errors.New("read response: nothing there")
		}
		return c, nil
	}
	body, err := parseHeads(&c, raw)
	if err != nil {
		return c, fmt.Errorf("read response: %w", err)
	}
	if shorterThanDeclared(c.Header, body) && c.Ended == classify.Complete {
		c.Ended = classify.Cut
	}
	if c.Status/100 == 2 && isEventStream(c.Header) {
		addEvents(&c, body)
	} else {
		c.Body = body
	}
	return c, nil
}

// parseHeads reads heads up to the last one and returns what follows it.
func parseHeads(c *classify.Capture, raw []byte) ([]byte, error) {
	rest := raw
	for {
		line, after := cutLine(rest)
		status, err := parseStatus(line)
		if err != nil {
			return nil, err
		}
		c.Status, c.Header = status, http.Header{}
		body, whole, err := parseHeader(c.Header, after)
		if err != nil {
			return nil, err
		}
		if !whole && c.Ended == classify.Complete {
			c.Ended = classify.Cut
		}
		next, _ := cutLine(body)
		if _, err := parseStatus(next); err != nil {
			return body, nil
		}
		rest = body
	}
}

// parseStatus reads a status line such as "HTTP/1.1 200 OK" or "HTTP/2 200".
func parseStatus(line string) (int, error) {
	version, rest, _ := strings.Cut(line, " ")
	number, ok := strings.CutPrefix(version, "HTTP/")
	if _, err := strconv.ParseFloat(number, 64); !ok || err != nil {
		return 0, fmt.Errorf("no status line such as HTTP/1.1 200 OK but %q", classify.Excerpt([]byte(line)))
	}
	code, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	status, err := strconv.Atoi(code)
	if err != nil || status < 100 || status > 999 {
		return 0, fmt.Errorf("no status in %q", classify.Excerpt([]byte(line)))
	}
	return status, nil
}

// parseHeader reads header lines into h; whole says that the empty line was
// there.
func parseHeader(h http.Header, text []byte) (body []byte, whole bool, err error) {
	name := ""
	for len(text) > 0 {
		var line string
		line, text = cutLine(text)
		if line == "" {
			return text, true, nil
		}
		if name != "" && (line[0] == ' ' || line[0] == '\t') { // folded, as RFC 9112 calls obsolete
			last := h[name]
			last[len(last)-1] += " " + strings.TrimSpace(line)
			continue
		}
		key, value, found := strings.Cut(line, ":")
		key = strings.TrimSpace(key)
		if !found || key == "" {
			return nil, false, fmt.Errorf("no header but %q", classify.Excerpt([]byte(line)))
		}
		name = textproto.CanonicalMIMEHeaderKey(key)
		h[name] = append(h[name], strings.TrimSpace(value))
	}
	return nil, false, nil
}

// cutLine returns the first line without its LF or CRLF, and what follows.
func cutLine(text []byte) (line string, rest []byte) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	return string(bytes.TrimSuffix(first, []byte("\r"))), rest
}

// shorterThanDeclared compares a body with its Content-Length, which means
// nothing beside a transfer coding (RFC 9112, section 6.3) or where a content
// coding was undone.
func shorterThanDeclared(h http.Header, body []byte) bool {
	if h.Get("Transfer-Encoding") != "" || h.Get("Content-Encoding") != "" {
		return false
	}
	declared, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	return err == nil && int64(len(body)) < declared
}
