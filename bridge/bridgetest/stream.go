package bridgetest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// An item is one message on a stream.
type item struct {
	data   []byte
	status int  // HTTP status if the message is sent as plain JSON
	final  bool // the response that ends a stream of one request
	named  string
}

// A stream is an append-only list of messages that outlives the connection that
// reads it; so it can be resumed.
type stream struct {
	id   string // unique within the upstream; prefix of event ids
	once bool   // messages are forgotten as soon as they were read

	mu      sync.Mutex
	items   []item
	done    bool
	gone    bool // must not be resumed
	changed chan struct{}
	reader  *delivery
}

func newStream(id string) *stream { return &stream{id: id, changed: make(chan struct{})} }

func (s *stream) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// push appends a message; a stream that ended takes none.
func (s *stream) push(it item) {
	s.change(func() {
		if !s.done {
			s.items = append(s.items, it)
			s.done = it.final
		}
	})
}

// end ends the stream without a final message.
func (s *stream) end() { s.change(func() { s.done = true }) }

// lose ends the stream and keeps it from being resumed.
func (s *stream) lose() { s.change(func() { s.done, s.gone = true, true }) }

func (s *stream) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// length is the number of messages so far.
func (s *stream) length() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.items)
}

// await returns message i as soon as it is there. It returns false at the end
// of the stream, when ctx ends, or when another reader took over.
func (s *stream) await(ctx context.Context, d *delivery, i int) (item, bool) {
	for {
		s.mu.Lock()
		if s.reader != d {
			s.mu.Unlock()
			return item{}, false
		}
		if i < len(s.items) {
			it := s.items[i]
			if s.once {
				s.items[i].data = nil
			}
			s.mu.Unlock()
			return it, true
		}
		done, changed := s.done, s.changed
		s.mu.Unlock()
		if done {
			return item{}, false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return item{}, false
		}
	}
}

// attach makes d the one reader of the stream; an earlier one ends.
func (s *stream) attach(d *delivery) {
	s.change(func() { s.reader = d })
}

// detach leaves the stream without a reader, if d is still its reader.
func (s *stream) detach(d *delivery) {
	s.change(func() {
		if s.reader == d {
			s.reader = nil
		}
	})
}

// drop resets the connection of the reader, if there is one.
func (s *stream) drop() {
	s.mu.Lock()
	d := s.reader
	s.mu.Unlock()
	if d != nil && d.conn != nil {
		reset(d.conn.Conn)
	}
}

// eventID names message i of the stream; parseEventID reads it back.
func (s *stream) eventID(i int) string { return s.id + "_" + strconv.Itoa(i) }

func parseEventID(id string) (stream string, i int, ok bool) {
	stream, n, ok := strings.Cut(id, "_")
	i, err := strconv.Atoi(n)
	return stream, i, ok && err == nil
}

// answer writes the stream of one request as its response: plain JSON if the
// final message is the first, else events.
func (d *delivery) answer(s *stream, ids bool) {
	s.attach(d)
	defer s.detach(d)
	first, ok := s.await(d.r.Context(), d, 0)
	if !ok && d.r.Context().Err() != nil {
		return
	}
	if !ok || !first.final || d.mustStream() {
		d.events(s, 0, ids)
		return
	}
	if !d.loses(s) {
		d.body(first.status, "application/json", first.data)
	}
	s.lose() // no event id was given out: it cannot be resumed
}

func (d *delivery) mustStream() bool {
	if d.up.opts.AlwaysStream {
		return true
	}
	for _, name := range []string{"stream-end", "stream-cut-after", "crlf", "cr", "multi-data-lines", "comments", "priming-event"} {
		if d.has(name) {
			return true
		}
	}
	return false
}

// loses lets lost-reply happen where the final message would go out.
func (d *delivery) loses(s *stream) bool {
	if !d.has("lost-reply") {
		return false
	}
	s.lose()
	d.hangUp()
	return true
}

// events writes messages of a stream from number from onwards as events.
func (d *delivery) events(s *stream, from int, ids bool) {
	w := d.wire("text/event-stream")
	w.stream()
	if d.breaksAt(phaseHeaders) {
		return
	}
	f := d.format()
	if t := d.up.opts.Retry; ids && t > 0 {
		w.write([]byte("retry: " + strconv.FormatInt(t.Milliseconds(), 10) + f.eol + f.eol))
		w.flush()
	}
	if d.has("priming-event") || ids && d.up.opts.Priming {
		w.write(f.event("", s.eventID(from-1), nil))
		w.flush()
	}
	for i := from; ; i++ {
		it, ok := d.next(w, s, i)
		if !ok || !d.event(w, f, s, i, it, ids) {
			break
		}
	}
	w.close()
}

// next waits for message i, and keeps the connection alive by comments.
func (d *delivery) next(w *wire, s *stream, i int) (item, bool) {
	every := d.up.opts.KeepAlive
	for every > 0 {
		ctx, cancel := context.WithTimeout(d.r.Context(), every)
		it, ok := s.await(ctx, d, i)
		idle := !ok && ctx.Err() != nil && d.r.Context().Err() == nil
		cancel()
		if !idle {
			return it, ok
		}
		w.write([]byte(":\n\n"))
		w.flush()
	}
	return s.await(d.r.Context(), d, i)
}

// event writes one message; false ends the response.
func (d *delivery) event(w *wire, f format, s *stream, i int, it item, ids bool) bool {
	if n, ok := d.strike("stream-cut-after"); ok && d.written >= n.arg.(int) {
		d.reset()
		return false
	}
	if it.final && (d.has("stream-end") || d.loses(s)) {
		return false
	}
	id := ""
	if ids {
		id = s.eventID(i)
	}
	b := f.event(it.named, id, it.data)
	d.written++
	if !it.final {
		ok := w.write(b)
		w.flush()
		return ok
	}
	d.replied = w.last(b)
	w.flush()
	return false
}

// A format is how events are written down.
type format struct {
	eol      string
	split    bool // several data lines
	comments bool
}

func (d *delivery) format() format {
	f := format{eol: "\n", split: d.has("multi-data-lines"), comments: d.has("comments")}
	if d.has("crlf") {
		f.eol = "\r\n"
	}
	if d.has("cr") {
		f.eol = "\r"
	}
	return f
}

// event writes one event. Nil data is an empty data line.
func (f format) event(name, id string, data []byte) []byte {
	var b bytes.Buffer
	line := func(s string) { b.WriteString(s + f.eol) }
	if f.comments {
		line(": comment before " + id)
		line("")
	}
	if name != "" {
		line("event: " + name)
	}
	if id != "" {
		line("id: " + id)
	}
	for part := range bytes.SplitSeq(f.lines(data), []byte("\n")) {
		line("data: " + string(part))
	}
	line("")
	return b.Bytes()
}

// lines returns data with the line breaks that will separate data lines.
func (f format) lines(data []byte) []byte {
	if !f.split {
		return data
	}
	var b bytes.Buffer
	if json.Indent(&b, data, "", " ") != nil {
		return data
	}
	return b.Bytes()
}

// isStreamRequest reports whether the client accepts an event stream.
func isStreamRequest(r *http.Request) bool { return accepts(r, "text/event-stream") }

func accepts(r *http.Request, contentType string) bool {
	for _, v := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(v, ",") {
			name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(part)), ";")
			family, _, _ := strings.Cut(contentType, "/")
			if name == contentType || name == "*/*" || name == family+"/*" {
				return true
			}
		}
	}
	return false
}
