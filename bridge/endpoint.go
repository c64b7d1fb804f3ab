package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/wire"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/classify/sse"
)

// An endpoint makes deliveries to one URL and captures what comes back. Every
// dialect is built on it.
type endpoint struct {
	wire   *wire.Client
	memory *memory
	access *access
	cfg    *Config
	log    *slog.Logger

	sleepers sleepers

	// keepSessions says that another process may go on with an answer of a
	// session of ours, which DELETE would end.
	keepSessions atomic.Bool
}

const (
	contentJSON = "application/json"
	acceptBoth  = "application/json, text/event-stream"
	acceptSSE   = "text/event-stream"

	// drainBytes and drainTime bound what is read of a stream after its
	// terminal reply, so that the connection can be used again.
	drainBytes = 64 << 10
	drainTime  = 200 * time.Millisecond
)

// send makes one delivery and captures the answer to it.
func (e *endpoint) send(ctx context.Context, req *wire.Request, expect classify.Expectation, s sink) *reply {
	return e.collect(ctx, req, &reply{expect: expect}, s)
}

// sendOwn is send for a request of the bridge's own: if credentials were refused
// and could be renewed, it is made once more.
func (e *endpoint) sendOwn(ctx context.Context, req *wire.Request, expect classify.Expectation, s sink) *reply {
	again := *req
	again.Header = req.Header.Clone() // without what was presented
	r := e.send(ctx, req, expect, s)
	if !e.access.mended(ctx, r) {
		return r
	}
	r.done()
	return e.send(ctx, &again, expect, s)
}

// collect is send into a reply that says what is expected.
func (e *endpoint) collect(ctx context.Context, req *wire.Request, r *reply, s sink) *reply {
	r.endedBy = byUpstream
	ctx, idle := e.idleWatch(ctx, s)
	ctx, shown := e.access.watch(ctx)
	resp, err := e.wire.Do(ctx, req)
	if err != nil {
		idle.stop()
		r.failed(ctx, err)
		return r
	}
	r.head(resp)
	e.access.heard(r, shown)
	body := io.Reader(resp.Body)
	if idle != nil {
		body = idle.reader(resp.Body)
	}
	if r.isStream() {
		if o, ok := s.(opener); ok {
			o.opened()
		}
		e.readStream(ctx, body, r, s)
	} else {
		e.readBody(ctx, body, resp.ContentLength, r)
	}
	idle.stop()
	closeBody, finish := resp.Body, r.finish
	r.finish = func() {
		if finish != nil {
			finish()
		}
		if r.capture.Ended == classify.Complete && r.isStream() {
			drain(closeBody)
		}
		closeBody.Close()
	}
	return r
}

// failed records a delivery of which no response head arrived.
func (r *reply) failed(ctx context.Context, err error) {
	var f *wire.Failure
	if errors.As(err, &f) {
		r.hops = f.Hops
		r.capture.Sent, r.capture.Failed, r.capture.Detail = f.Sent, f.Stage, f.Detail
	} else {
		r.capture.Failed, r.capture.Detail = classify.Exchange, err.Error()
	}
	r.endedBy = byNetwork
	r.interrupted(ctx)
}

// interrupted notes that the context, and not the peer, ended the observation.
func (r *reply) interrupted(ctx context.Context) {
	if e := endingOf(ctx); e != nil {
		r.capture.Ended, r.capture.Detail, r.endedBy = e.ended, e.why, e.by
	}
}

func (r *reply) head(resp *wire.Response) {
	r.hops = resp.Hops
	r.capture.Status, r.capture.Header, r.capture.Received = resp.Status, resp.Header, resp.Received
	r.capture.Detail = resp.Redirect
	r.contentType = resp.Header.Get("Content-Type")
	r.challenge = strings.Join(resp.Header.Values("Www-Authenticate"), ", ")
}

// isStream reports whether the answer is an event stream, whatever the case
// and parameters of its content type.
func (r *reply) isStream() bool {
	if strings.HasPrefix(r.contentType, "application/json") {
		return false
	}
	kind, _, err := mime.ParseMediaType(r.contentType)
	if err != nil {
		kind, _, _ = strings.Cut(strings.ToLower(r.contentType), ";")
	}
	return strings.TrimSpace(kind) == "text/event-stream" && r.capture.Status/100 == 2
}

// readBody captures a body that is no event stream.
func (e *endpoint) readBody(ctx context.Context, body io.Reader, length int64, r *reply) {
	limit := e.cfg.MaxMessage
	if r.capture.Status/100 != 2 {
		limit = min(limit, maxErrorBody)
	}
	held, err := e.memory.read(body, length, limit)
	r.capture.Body = held.bytes
	r.keep(held.release)
	switch {
	case err == nil:
		r.capture.Ended = classify.Complete
	case errors.Is(err, errTooLarge) && r.capture.Status/100 != 2:
		r.capture.Ended = classify.Complete // an error page: its beginning will do
	case errors.Is(err, errTooLarge):
		r.tooLarge, r.endedBy = true, byBridge
		r.capture.Detail = fmt.Sprintf("the reply is larger than --max-message (%d bytes)", e.cfg.MaxMessage)
	default:
		r.brokeOff(ctx, err)
	}
}

// brokeOff records a body that could not be read to its end.
func (r *reply) brokeOff(ctx context.Context, err error) {
	r.capture.Detail, r.endedBy = readDetail(err), byNetwork
	var spool *spoolError
	var store *sse.StoreError
	if errors.As(err, &spool) || errors.As(err, &store) {
		r.endedBy = byBridge
	}
	r.interrupted(ctx)
}

// maxErrorBody bounds what is read of the body below a status outside 2xx.
const maxErrorBody = 1 << 20

// readStream reads an event stream to the terminal reply. Notifications and
// requests go to the sink as they come.
func (e *endpoint) readStream(ctx context.Context, body io.Reader, r *reply, s sink) {
	events := e.events(body)
	for {
		ev, err := events.Next()
		if err != nil {
			r.streamEnded(ctx, err, e.cfg.MaxMessage)
			return
		}
		if ev.HasID && !ev.Unfinished {
			r.lastEvent = ev.ID
			if h, ok := s.(idHearer); ok {
				h.heardID(ev.ID)
			}
		}
		if ev.HasRetry {
			r.pause = ev.Retry
		}
		if len(ev.Data) == 0 || ev.Type != "" && ev.Type != "message" {
			free(ev.Release)
			continue // a priming event, or of a type that MCP does not use
		}
		strays := r.strays
		if r.held(ev, s) {
			r.capture.Ended = classify.Complete
			return
		}
		if r.strays > strays && isNews(r.strays) {
			e.log.Warn("a reply of the server to no request of this stream was skipped", "method", r.expect.Method, "replies", r.strays)
		}
	}
}

// An opener is a sink that wants to know when its stream is open.
type opener interface{ opened() }

// A stander is a sink during whose open questions no silence counts.
type stander interface{ standing() bool }

// held is event for one that takes room: it is given back at once if r does not
// refer to the event.
func (r *reply) held(ev sse.Event, s sink) (terminal bool) {
	before := len(r.capture.Replies) + len(r.capture.Broken)
	terminal = r.event(ev, s)
	if len(r.capture.Replies)+len(r.capture.Broken) > before {
		r.keep(ev.Release)
	} else {
		free(ev.Release)
	}
	return terminal
}

// free calls a release that may be nil.
func free(release func()) {
	if release != nil {
		release()
	}
}

// An idHearer is a sink that wants to know from where a stream can be resumed.
type idHearer interface{ heardID(id string) }

// event takes one event with data and reports whether it was the terminal
// reply.
func (r *reply) event(ev sse.Event, s sink) (terminal bool) {
	if jsonrpc.IsBatch(ev.Data) && r.expect.Protocol == rev2025_03_26 {
		// 2025-03-26, transports, "Sending Messages to the Server": a stream
		// may carry batches.
		if parts, err := jsonrpc.Split(ev.Data); err == nil {
			for _, part := range parts {
				terminal = r.event(sse.Event{Data: part, Unfinished: ev.Unfinished}, s) || terminal
			}
			return terminal
		}
	}
	m, err := jsonrpc.Read(ev.Data)
	if ev.Unfinished {
		// An event without its blank line counts only as the whole reply.
		if err == nil && m.Kind == jsonrpc.Response && r.matches(&m) {
			r.capture.Events++
			r.capture.Replies = append(r.capture.Replies, m)
			return true
		}
		return false
	}
	r.capture.Events++
	switch {
	case err != nil:
		if len(r.capture.Broken) < maxBrokenEvents {
			r.capture.Broken = append(r.capture.Broken, classify.Event{Data: ev.Data, Err: err})
		}
	case m.Kind == jsonrpc.Response:
		if r.matches(&m) {
			r.capture.Replies = append(r.capture.Replies, m)
			return true
		}
		r.strays++
		if len(r.capture.Replies) < maxBrokenEvents {
			r.capture.Replies = append(r.capture.Replies, m)
		}
	case m.Kind == jsonrpc.Notification:
		s.notification(&m)
	case m.Kind == jsonrpc.Request:
		s.request(&m, nil)
	}
	return false
}

// maxBrokenEvents bounds how many useless events of one stream are kept.
const maxBrokenEvents = 8

func (r *reply) matches(m *jsonrpc.Message) bool {
	if r.anyID {
		r.expect.ID = bytes.Clone(m.Bytes(m.ID))
		return true
	}
	return r.expect.ID != nil && jsonrpc.SameID(m.Bytes(m.ID), r.expect.ID)
}

// streamEnded records how a stream ended before its terminal reply.
func (r *reply) streamEnded(ctx context.Context, err error, limit int64) {
	var tooLong *sse.TooLongError
	switch {
	case errors.Is(err, io.EOF):
		r.capture.Ended = classify.Complete
	case errors.As(err, &tooLong):
		r.tooLarge, r.endedBy = true, byBridge
		r.capture.Detail = fmt.Sprintf("an event is larger than --max-message (%d bytes)", limit)
	default:
		r.brokeOff(ctx, err)
		return
	}
	r.interrupted(ctx)
}

// readDetail is one line about a body that broke off.
func readDetail(err error) string {
	var f *wire.Failure
	if errors.As(err, &f) {
		return f.Detail
	}
	return err.Error()
}

// drain reads the little that may follow a terminal reply, so that an HTTP/1.1
// connection can be used again; a stream that goes on is closed.
func drain(body io.ReadCloser) {
	timer := time.AfterFunc(drainTime, func() { body.Close() })
	io.CopyN(io.Discard, body, drainBytes)
	timer.Stop()
}

// idleTimer ends a stream on which not a single byte came for a while.
type idleTimer struct {
	after time.Duration
	timer *time.Timer
}

// idleWatch starts the idle limit, if there is one.
func (e *endpoint) idleWatch(ctx context.Context, s sink) (context.Context, *idleTimer) {
	if e.cfg.IdleTimeout <= 0 || ctx.Value(noIdleLimit{}) != nil {
		return ctx, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	t := &idleTimer{after: e.cfg.IdleTimeout}
	question, _ := s.(stander)
	t.timer = time.AfterFunc(t.after, func() {
		if question != nil && question.standing() {
			t.timer.Reset(t.after)
			return
		}
		cancel(limitReached("--idle-timeout"))
	})
	return ctx, t
}

// noIdleLimit marks contexts of streams that may be silent for ever.
type noIdleLimit struct{}

func (t *idleTimer) stop() {
	if t != nil {
		t.timer.Stop()
	}
}

func (t *idleTimer) reader(r io.Reader) io.Reader { return &idleReader{r, t} }

type idleReader struct {
	io.Reader
	idle *idleTimer
}

func (r *idleReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.idle.timer.Reset(r.idle.after)
	}
	return n, err
}

// canonical header names are written directly into http.Header maps.
const (
	hdrAccept      = "Accept"
	hdrContentType = "Content-Type"
	hdrSession     = "Mcp-Session-Id"
	hdrVersion     = "Mcp-Protocol-Version"
	hdrMethod      = "Mcp-Method"
	hdrName        = "Mcp-Name"
	hdrLastEvent   = "Last-Event-Id"
)

// deadlineHeader adds the time until the delivery is given up.
func (e *endpoint) deadlineHeader(h http.Header, d *delivery) {
	if e.cfg.DeadlineHeader == "" || d.giveUp.IsZero() {
		return
	}
	left := max(0, wallUntil(d.giveUp, time.Now()).Milliseconds()) // also right after the machine slept
	h[http.CanonicalHeaderKey(e.cfg.DeadlineHeader)] = []string{fmt.Sprint(left)}
}
