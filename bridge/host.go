package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/mcpbridge/mcpbridge/bridge/stdio"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// Bounds of the requests of the host that are open at once; subscriptions are
// not counted. A ping, which a host may take for a sign of life, is answered past
// the bound as well.
const (
	maxInFlight = 1024
	extraPings  = 64
)

// A host is the program on our stdin, in whichever dialect it speaks: the
// dialect is decided for each message.
type host struct {
	bridge *Bridge
	out    *stdio.Writer
	log    *slog.Logger
	work   sync.WaitGroup // exchanges and questions
	nextQ  atomic.Int64
	crew   *crew

	mu          sync.Mutex
	inFlight    map[string]*exchange // by id, as a JSON value
	counted     int                  // those that maxInFlight counts
	questions   map[string]chan *jsonrpc.Message
	handshake   *profile      // of initialize; nil before
	initialized bool          // notifications/initialized has come
	level       string        // logging/setLevel, "" if never set
	recent      *profile      // of the last modern request
	gone        chan struct{} // closed when the host is gone and calls go on without it
	leaving     bool          // no more requests are taken
	over        bool          // nothing is begun any more
}

func newHost(b *Bridge, out *stdio.Writer) *host {
	return &host{crew: newCrew(b.life), bridge: b, out: out, log: b.cfg.Log, inFlight: map[string]*exchange{}, questions: map[string]chan *jsonrpc.Message{}, gone: make(chan struct{})}
}

// accept takes one line. It never waits for the upstream.
func (h *host) accept(line []byte) {
	if jsonrpc.IsBatch(line) {
		h.acceptBatch(line)
		return
	}
	h.acceptOne(line, nil)
}

func (h *host) acceptOne(line []byte, b *batch) {
	m, err := jsonrpc.Read(line)
	if err == nil && len(m.Method) > maxMethod {
		err = notServed(m.MethodValue, fmt.Sprintf(`"method" is longer than %d bytes`, maxMethod))
	}
	if err != nil {
		h.refuse(&m, err, b)
		return
	}
	switch m.Kind {
	case jsonrpc.Response:
		h.answered(&m)
	case jsonrpc.Notification:
		h.notified(&m)
	case jsonrpc.Request:
		h.requested(&m, b)
	}
}

// acceptBatch splits an array where the host's revision has batches, or no
// revision was chosen yet: only 2025-03-26 defines them.
func (h *host) acceptBatch(line []byte) {
	h.mu.Lock()
	allowed := h.handshake == nil && h.recent == nil || h.handshake != nil && h.handshake.version == rev2025_03_26
	h.mu.Unlock()
	parts, err := jsonrpc.Split(line)
	switch {
	case err != nil:
		h.refuseBatch(err)
	case !allowed:
		h.write(rpcErrorLine(nil, codeInvalidRequest, "batch arrays exist in MCP 2025-03-26 only: send each message on a line of its own", nil))
	default:
		h.acceptMembers(parts)
	}
}

func (h *host) acceptMembers(parts [][]byte) {
	ids, silent := make([][]byte, len(parts)), make([]bool, len(parts))
	for i, part := range parts {
		m, err := jsonrpc.Read(part)
		silent[i] = err == nil && m.Kind != jsonrpc.Request
		if id := m.Bytes(m.ID); len(id) <= h.longestID() {
			ids[i] = id
		}
	}
	b, err := newBatch(ids, h)
	if err != nil {
		h.refuseBatch(err)
		return
	}
	for i, part := range parts {
		if silent[i] {
			b.less()
		}
		h.acceptOne(part, b)
	}
}

// refuseBatch answers an array of which no member is served: JSON-RPC 2.0,
// section 6, by one response that is no array.
func (h *host) refuseBatch(err error) {
	var wrong *jsonrpc.Error
	if errors.As(err, &wrong) && wrong.Class != jsonrpc.Envelope {
		h.write(rpcErrorLine(nil, codeParse, "this line is no valid JSON: "+err.Error(), nil))
		return
	}
	h.write(rpcErrorLine(nil, codeInvalidRequest, "this batch is not served: "+err.Error(), nil))
}

// refuse answers a line that is no message.
func (h *host) refuse(m *jsonrpc.Message, err error, b *batch) {
	code := codeParse
	var wrong *jsonrpc.Error
	if errors.As(err, &wrong) && wrong.Class == jsonrpc.Envelope {
		code = codeInvalidRequest
	}
	if m.MethodValue == (jsonrpc.Span{}) && h.spoilt(m.Bytes(m.ID), err.Error()) {
		if b != nil {
			b.less()
		}
		return
	}
	id := h.readableID(m.Bytes(m.ID))
	line := rpcErrorLine(id, code, err.Error(), nil)
	if b != nil {
		b.add(id, nil, line)
		return
	}
	h.write(line)
}

// readableID is the id of a message that is refused, if it is one under which
// the host can be answered: one that is in flight is another request's, which
// has its answer to come.
func (h *host) readableID(id []byte) []byte {
	if len(id) == 0 || len(id) > h.longestID() {
		return nil
	}
	if _, whole := jsonrpc.Integer(id); id[0] != '"' && !whole {
		return nil
	}
	if h.isInFlight(jsonrpc.IDKey(id)) {
		return nil
	}
	return id
}

// isInFlight reports whether a request with the id waits for its answer. Only
// the reader of stdin asks, and only it adds requests.
func (h *host) isInFlight(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inFlight[key] != nil
}

// Bounds of the id and the method of a request, in bytes: answers repeat the
// one, errors and records the other.
const (
	maxID     = 64 << 10
	maxMethod = 4 << 10
)

// notServed is what is wrong with a message that is one, but not for us.
func notServed(at jsonrpc.Span, why string) error {
	return &jsonrpc.Error{Class: jsonrpc.Envelope, Offset: at.Start, Why: why}
}

// longestID is maxID, or what leaves room for an answer in the host's line.
func (h *host) longestID() int { return int(min(maxID, h.bridge.cfg.HostLineLimit/4)) }

// tooLong answers a line above --max-message, of which only the id was kept.
func (h *host) tooLong(err *stdio.LineTooLongError) {
	why := fmt.Sprintf("this line is longer than %d bytes: raise --max-message, or send less at once", err.Limit)
	if err.Method == "" && h.spoilt(err.ID, why) {
		return
	}
	h.write(rpcErrorLine(h.readableID(err.ID), codeInvalidRequest, why, nil))
}

// spoilt reports whether id names an open question of ours. Then the line was
// meant as its answer: whoever asked hears that it cannot be read. A response
// is not answered, and the question would stay open otherwise.
func (h *host) spoilt(id []byte, why string) bool {
	if len(id) == 0 {
		return false
	}
	q := h.takeQuestion(id)
	if q == nil {
		return false
	}
	h.log.Warn("the host's answer to a question cannot be read", "id", string(id), "reason", why)
	q <- unreadableAnswer(why)
	return true
}

// unreadableAnswer is the error that stands for an answer of the host that is
// no message.
func unreadableAnswer(why string) *jsonrpc.Message {
	m, err := jsonrpc.Read(rpcErrorLine(nil, codeInternal, "the answer of the client cannot be read: "+why, nil))
	if err != nil {
		return &jsonrpc.Message{}
	}
	return &m
}

// write sends a line that answers nothing in flight.
func (h *host) write(parts ...[]byte) { h.writeLent(nil, parts...) }

// writeLent is write of parts that are needed until release is called.
func (h *host) writeLent(release func(), parts ...[]byte) {
	if err := h.out.Answer(h.bridge.life, release, parts...); err != nil {
		h.log.Debug("line to the host was not written", "error", err)
	}
}

// answered routes the host's response to the question it answers.
func (h *host) answered(m *jsonrpc.Message) {
	q := h.takeQuestion(m.Bytes(m.ID))
	if q == nil {
		h.log.Debug("response of the host to nothing that was asked", "id", string(m.Bytes(m.ID)))
		return
	}
	q <- m
}

// takeQuestion returns where the answer to the question id is awaited, nil if
// nobody waits; there is one answer to a question.
func (h *host) takeQuestion(id []byte) chan<- *jsonrpc.Message {
	key := jsonrpc.IDKey(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.questions[key]
	delete(h.questions, key)
	return q
}

// notified takes a notification of the host.
func (h *host) notified(m *jsonrpc.Message) {
	switch m.Method {
	case "notifications/initialized":
		h.mu.Lock()
		h.initialized = true
		h.mu.Unlock()
		h.bridge.offers.hostInitialized()
	case "notifications/cancelled":
		h.cancelled(m)
	default:
		h.bridge.forwardNotification(h.profileOf(m), m)
	}
}

// cancelled ends the exchange that a cancel names. One for an id that is not
// in flight, was answered or cancelled before is normal (opencode sends one
// after every call) and ignored; initialize is never cancelled.
func (h *host) cancelled(m *jsonrpc.Message) {
	id := m.Field(jsonrpc.RequestID)
	if len(id) == 0 {
		return
	}
	h.mu.Lock()
	x := h.inFlight[jsonrpc.IDKey(id)]
	h.mu.Unlock()
	if x != nil && x.method != "initialize" {
		reason, _ := jsonrpc.String(m.Field(jsonrpc.Reason))
		x.cancelledByHost(reason)
	}
}

// requested starts the exchange of one request.
func (h *host) requested(m *jsonrpc.Message, b *batch) {
	id := m.Bytes(m.ID)
	if longest := h.longestID(); len(id) > longest {
		h.refuse(m, notServed(m.ID, fmt.Sprintf(`"id" is longer than %d bytes`, longest)), b)
		return
	}
	x := newExchange(h, m, b)
	if h.isInFlight(x.key) {
		h.log.Warn("request dropped: its id is in flight already", "id", string(id), "method", m.Method)
		x.cancel(nil)
		if b != nil {
			b.less()
		}
		return
	}
	if code, why, data := x.readEra(); code != 0 {
		x.reject(code, why, data)
		return
	}
	if why := x.misnamed(); why != "" {
		x.reject(codeInvalidParams, why, nil)
		return
	}
	counted, most := m.Method != "subscriptions/listen", maxInFlight
	if m.Method == "ping" {
		most += extraPings
	}
	h.mu.Lock()
	switch {
	case counted && h.counted >= most:
		known := h.busyLocked()
		h.mu.Unlock()
		x.overloaded(known, "wait until some of them have ended, then call again")
		return
	case h.leaving:
		h.mu.Unlock()
		x.cancel(nil)
		return
	case !h.bridge.holds(len(m.Raw)):
		h.mu.Unlock()
		x.overloaded(fmt.Sprintf("there is no room for %d more bytes at the moment", len(m.Raw)), "wait until other requests have ended, or raise --max-memory")
		return
	}
	h.inFlight[x.key] = x
	if counted {
		h.counted++
	}
	h.work.Add(1)
	h.crew.run(func() {
		defer h.work.Done()
		defer h.finished(x, counted)
		x.run()
	})
	h.mu.Unlock()
}

// busyLocked says what is in flight; h.mu is held. A call that was answered with
// its handle counts until its delivery ends: a host that is told of handles at
// once could open any number of connections otherwise.
func (h *host) busyLocked() string {
	return fmt.Sprintf("%d requests are in flight already, %d of which have had a handle for an answer and go on",
		h.counted, max(0, h.counted-h.waitingLocked()))
}

// handOver lets the id of x stand for another exchange.
func (h *host) handOver(x, to *exchange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inFlight[x.key] == x {
		h.inFlight[x.key] = to
	}
}

func (h *host) finished(x *exchange, counted bool) {
	x.cancel(nil)
	h.mu.Lock()
	if h.inFlight[x.key] == x {
		delete(h.inFlight, x.key)
	}
	if counted {
		h.counted--
	}
	h.mu.Unlock()
	h.bridge.lets(len(x.asked.Raw))
}

// free lets go of an id whose request was answered while its delivery goes on.
func (h *host) free(x *exchange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inFlight[x.key] == x {
		delete(h.inFlight, x.key)
	}
}

// spawn runs f beside the exchanges, and reports whether it does: not when the
// bridge leaves.
func (h *host) spawn(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return false
	}
	h.work.Go(f)
	return true
}

// profileOf is the profile under which a message of the host is served.
func (h *host) profileOf(m *jsonrpc.Message) *profile {
	if p := modernProfile(m); p != nil {
		return h.remember(p)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.handshake != nil {
		return h.handshake
	}
	// A request of neither era is served as 2025-03-26.
	return legacyProfile(rev2025_03_26, nil, nil)
}

// remember returns the profile seen before if p says the same, so that equal
// requests share one.
func (h *host) remember(p *profile) *profile {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.recent; r != nil && r.version == p.version && r.key == p.key && bytes.Equal(r.clientInfo, p.clientInfo) {
		return r
	}
	h.recent = p
	return p
}

// anyProfile is the profile of the host that spoke last, of whichever era.
func (h *host) anyProfile() *profile {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.handshake != nil:
		return h.handshake
	case h.recent != nil:
		return h.recent
	}
	return legacyProfile(rev2025_03_26, nil, nil)
}

// clientName is the host's own name, for logs and its known limits.
func (h *host) clientName() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range []*profile{h.handshake, h.recent} {
		if p != nil {
			return p.name
		}
	}
	return ""
}

// errHostGone ends the wait for the answer of a host that is gone.
var errHostGone = errors.New("the host is gone")

// Ask puts a question of the upstream to a legacy host and waits for its
// answer. It returns the members of the response: one of result and rpcError; or
// errHostGone once nobody is there to answer.
func (h *host) Ask(ctx context.Context, method string, params []byte) (result, rpcError []byte, err error) {
	id := quote(fmt.Sprintf("mcpbridge-%d", h.nextQ.Add(1)))
	key := jsonrpc.IDKey(id)
	got := make(chan *jsonrpc.Message, 1)
	h.mu.Lock()
	h.questions[key] = got
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.questions, key)
		h.mu.Unlock()
	}()
	line := concat(`{"jsonrpc":"2.0","id":`, id, `,"method":`, quote(method))
	if len(params) > 0 {
		line = concat(line, `,"params":`, params)
	}
	if err := h.out.Answer(ctx, nil, line, []byte("}")); err != nil {
		var long *stdio.OversizeError
		if errors.As(err, &long) {
			h.log.Warn("a question of the server was not put: it is longer than the host can read", "method", method, "bytes", long.Size, "--host-line-limit", long.Limit)
		}
		return nil, nil, err
	}
	select {
	case m := <-got:
		return m.Bytes(m.Result), m.Bytes(m.Error), nil
	case <-h.gone:
		return nil, nil, errHostGone
	case <-ctx.Done():
		h.write(concat(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`, id, `}}`))
		return nil, nil, context.Cause(ctx)
	}
}

// tell sends a notification that belongs to no request to a legacy host that
// has finished its handshake. A modern host gets such things on its listens.
func (h *host) tell(parts ...[]byte) {
	h.mu.Lock()
	may := h.handshake != nil && h.initialized
	h.mu.Unlock()
	if may {
		h.out.Notify("", parts...)
	}
}

// leave takes no more requests and cancels what is open.
func (h *host) leave(e *ending) {
	h.mu.Lock()
	h.leaving, h.over = true, true
	open := make([]*exchange, 0, len(h.inFlight))
	for _, x := range h.inFlight {
		open = append(open, x)
	}
	h.mu.Unlock()
	for _, x := range open {
		x.cancel(e)
	}
}

// detach lets go of all exchanges: those that make a job's delivery go on with
// nobody waiting, the others end.
func (h *host) detach() {
	h.mu.Lock()
	h.leaving = true
	open := make([]*exchange, 0, len(h.inFlight))
	for _, x := range h.inFlight {
		open = append(open, x)
	}
	h.mu.Unlock()
	for _, x := range open {
		x.detach()
	}
	close(h.gone) // last: what is asked for a call that goes on is kept in its job
}

// idle reports whether no request waits for its answer.
func (h *host) idle() bool { return h.waiting() == 0 }

// waiting counts the requests that wait for their answer, subscriptions not
// counted. A call that was answered with a handle does not wait.
func (h *host) waiting() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waitingLocked()
}

func (h *host) waitingLocked() (n int) {
	for _, x := range h.inFlight {
		if x.method != "subscriptions/listen" {
			n++
		}
	}
	return n
}
