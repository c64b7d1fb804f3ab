package bridge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// evidence is what an exchange's record says besides the verdict. Only the
// goroutine of the exchange and the timers under its lock touch it.
type evidence struct {
	mu          sync.Mutex
	deliveries  int
	open        bool // one more is under way
	statuses    []int
	contentType string
	events      int
	origin      string // retryOrigin
	by          string // endedBy
	why         string // of the last decision
	trace       string // traceparent sent
	version     string // of the upstream
}

// Who made a further delivery, or wanted one.
const (
	decisionOrigin = "bridge"
	hostOrigin     = "host"
)

// maxStatuses bounds how many statuses of one exchange are recorded.
const maxStatuses = 32

// begin makes a traceparent where the host gave none: W3C Trace Context,
// version 00, not sampled by anybody yet.
func (e *evidence) begin(x *exchange) {
	if meta := x.msg.Field(jsonrpc.Meta); len(meta) > 0 && meta[0] == '{' && len(jsonrpc.Get(meta, metaTraceparent)) > 0 {
		return
	}
	var b [24]byte
	rand.Read(b[:])
	var text [55]byte
	copy(text[:], "00-")
	hex.Encode(text[3:35], b[:16])
	text[35] = '-'
	hex.Encode(text[36:52], b[16:])
	copy(text[52:], "-00")
	e.trace = string(text[:])
}

func (e *evidence) noConnection(r *reply) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.verdict.Status != 0 {
		e.status(r.verdict.Status)
	}
}

func (e *evidence) status(status int) {
	if len(e.statuses) < maxStatuses {
		e.statuses = append(e.statuses, status)
	}
}

// sending notes that a delivery begins: whoever is told before it ends is told
// of it too.
func (e *evidence) sending() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = true
}

// delivered counts one delivery, and each redirect that it followed.
func (e *evidence) delivered(r *reply) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = false
	if r.connecting != "" {
		return
	}
	e.deliveries += 1 + r.hops
	e.seen(r)
}

func (e *evidence) resumed(r *reply) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen(r)
}

func (e *evidence) seen(r *reply) {
	if r.capture.Status != 0 {
		e.status(r.capture.Status)
	}
	e.contentType, e.version = r.contentType, r.expect.Protocol
	e.events += r.capture.Events
}

func (e *evidence) retried(origin string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.origin = origin
}

// decided keeps why the last decision was what it was.
func (e *evidence) decided(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.why = why
}

func (e *evidence) cancelled(string) { e.setBy(byHost) }
func (e *evidence) deadline()        { e.setBy(byBridge) }
func (e *evidence) ended(r *reply)   { e.setBy(r.endedBy) }

func (e *evidence) setBy(who string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.by = who
}

func (e *evidence) counts() (deliveries int, origin, by string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	origin = e.origin
	if origin == "" {
		origin = "none"
	}
	return e.countLocked(), origin, e.by
}

// countLocked is how many deliveries were made, with one that is under way.
func (e *evidence) countLocked() int {
	if e.open {
		return e.deliveries + 1
	}
	return e.deliveries
}

// record writes the exchange record: when the host is answered, and with
// message "settled" when a delivery ends after that.
func (b *Bridge) record(x *exchange, v *classify.Verdict, message string) {
	log := b.cfg.Log
	if !log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	who := x.identity()
	e := &x.evidence
	e.mu.Lock()
	defer e.mu.Unlock()
	origin := e.origin
	if origin == "" {
		origin = "none"
	}
	attrs := make([]slog.Attr, 0, 24)
	attrs = append(attrs,
		slog.String("client", x.host.clientName()),
		slog.String("hostProtocol", x.hostVersion()),
		slog.String("upstreamProtocol", e.version),
		slog.String("method", x.method),
		slog.String("tool", who.tool),
		slog.String("id", who.id),
		slog.String("handle", string(who.handle)),
		slog.Int("deliveries", e.countLocked()),
		slog.Any("httpStatuses", e.statuses),
		slog.String("contentType", e.contentType),
		slog.Int("sseEvents", e.events))
	attrs = append(attrs, verdictAttrs(v)...)
	attrs = append(attrs,
		slog.String("retryOrigin", origin),
		slog.Bool("deduplicated", who.deduplicated),
		slog.String("endedBy", e.by),
		slog.Int64("elapsedMs", time.Since(x.began).Milliseconds()),
		slog.Int64("remainingMs", x.remaining().Milliseconds()))
	log.LogAttrs(context.Background(), slog.LevelInfo, message, attrs...)
}

// An identity is what a record names of an exchange. Records are written by
// whoever ends the exchange, while its own goroutine may still be at work.
type identity struct {
	tool, id     string
	handle       jobs.Handle
	deduplicated bool
}

// hostVersion is the revision that the host speaks, "" where that could not be
// read.
func (x *exchange) hostVersion() string {
	if x.profile == nil {
		return ""
	}
	return x.profile.version
}

func (x *exchange) identity() identity {
	x.mu.Lock()
	defer x.mu.Unlock()
	return identity{x.toolName, string(x.id), x.job.handle, x.job.deduplicated}
}

func (x *exchange) remaining() time.Duration {
	x.mu.Lock()
	c := x.clock
	x.mu.Unlock()
	if c == nil {
		return 0
	}
	return c.remaining()
}

func verdictAttrs(v *classify.Verdict) []slog.Attr {
	if v == nil {
		return []slog.Attr{slog.Any("rpcErrorCode", nil), slog.String("resultType", ""),
			slog.String("layer", ""), slog.String("outcome", ""), slog.String("effect", classify.Possible.String())}
	}
	var code any
	if v.RPCError != nil {
		code = v.RPCError.Code
	}
	return []slog.Attr{
		slog.Any("rpcErrorCode", code),
		slog.String("resultType", v.ResultType),
		slog.String("layer", v.Layer.String()),
		slog.String("outcome", v.Outcome.String()),
		slog.String("effect", v.Effect.String()),
	}
}

// isFailure reports whether an outcome counts as a final failure of a tool.
func isFailure(o classify.Outcome) bool {
	switch o {
	case classify.Unreachable, classify.HTTPError, classify.StreamIncomplete, classify.TimedOut,
		classify.MalformedJSON, classify.InvalidEnvelope, classify.InvalidToolResult:
		return true
	}
	return false
}
