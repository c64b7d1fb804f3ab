package bridgetest

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const maxRequest = 64 << 20 // bytes of one request body

// A delivery is one HTTP request to an MCP endpoint, from its head to the last
// byte of the response, with the faults that befall it.
type delivery struct {
	up      *Upstream
	w       http.ResponseWriter
	r       *http.Request
	conn    *conn
	replica int
	entry   int // in the ledger

	raw     []byte
	msg     message
	tool    string
	strikes []strike

	status  int
	replied bool        // the whole reply went out
	broken  atomic.Bool // a fault ended the connection
	written int         // events of a stream
}

func (u *Upstream) deliver(w http.ResponseWriter, r *http.Request, replica int) *delivery {
	d := &delivery{up: u, w: w, r: r, conn: connOf(r.Context()), replica: replica}
	e := Entry{
		Replica: replica, Proto: r.Proto, HTTP: r.Method, Path: r.URL.RequestURI(),
		Header: r.Header.Clone(), Session: r.Header.Get("Mcp-Session-Id"),
	}
	if d.conn != nil {
		e.Conn = d.conn.n
	}
	d.entry = u.ledger.open(e)
	return d
}

// finish writes the last mark of the request into the ledger.
func (d *delivery) finish() {
	d.up.ledger.update(d.entry, func(e *Entry) { e.Status = d.status })
	switch {
	case d.replied:
		d.up.ledger.mark(d.entry, MarkReply, "")
	case d.broken.Load():
	case d.r.Context().Err() != nil:
		d.up.ledger.mark(d.entry, MarkClosed, "")
	}
}

// read reads the body and arms the faults that befall the request. It reports
// whether the request is still there to be answered.
func (d *delivery) read() bool {
	head := subject{d.r.Method, d.r.Header.Get("Mcp-Method"), d.r.Header.Get("Mcp-Name")}
	early := d.r.Method != http.MethodPost || head.method != ""
	if early && d.strikeHead(head) {
		return false
	}
	raw, err := io.ReadAll(http.MaxBytesReader(d.w, d.r.Body, maxRequest))
	if err != nil {
		d.text(http.StatusBadRequest, "the body could not be read")
		return false
	}
	d.raw = raw
	d.msg, err = parseMessage(raw)
	if d.msg.Method == "tools/call" {
		d.tool = open(d.msg.Params).string("name")
	}
	sub := subject{d.r.Method, d.msg.Method, d.tool}
	if !early && d.strikeHead(sub) {
		return false
	}
	d.up.ledger.body(d.entry, d.msg, d.tool, raw)
	d.arm(sub)
	if d.breaksAt(phaseBody) {
		return false
	}
	if d.r.Method == http.MethodPost && err != nil {
		d.malformed(err)
		return false
	}
	return true
}

func (d *delivery) strikeHead(sub subject) bool {
	d.strikes = d.up.faults.strikes(sub, atHead)
	return d.breaksAt(phaseHead)
}

func (d *delivery) arm(sub subject) {
	d.strikes = d.up.faults.strikes(sub, atRequest)
	for _, s := range d.strikes {
		d.up.ledger.mark(d.entry, MarkFault, s.name)
		if s.name == "cut" && d.conn != nil {
			d.conn.cutAfter(s.arg.(int))
			d.broken.Store(true)
		}
	}
}

func (d *delivery) malformed(err error) {
	code := codeInvalidRequest
	if d.msg.ID == nil && d.msg.Method == "" && d.msg.Result == nil {
		code = codeParse
	}
	d.refuse(http.StatusBadRequest, rpcErrorf(code, "invalid message: %v", err))
}

// strike returns the fault of the name that befalls the request.
func (d *delivery) strike(name string) (strike, bool) {
	for _, s := range d.strikes {
		if s.name == name {
			return s, true
		}
	}
	return strike{}, false
}

func (d *delivery) has(name string) bool {
	_, ok := d.strike(name)
	return ok
}

// breaksAt lets cut-phase and stall happen if they belong to the phase. It
// reports whether the request is over.
func (d *delivery) breaksAt(p phase) bool {
	if s, ok := d.strike("stall"); ok && s.arg == p {
		d.up.ledger.mark(d.entry, MarkFault, "stalled at "+string(p))
		d.hold()
		return true
	}
	if s, ok := d.strike("cut-phase"); ok && s.arg == p {
		d.up.ledger.mark(d.entry, MarkFault, "cut at "+string(p))
		d.reset()
		return true
	}
	return false
}

// hold waits until the client leaves or the upstream ends.
func (d *delivery) hold() {
	select {
	case <-d.r.Context().Done():
	case <-d.up.ctx.Done():
	}
}

// reset ends the connection by RST.
func (d *delivery) reset() {
	d.broken.Store(true)
	if d.conn != nil {
		reset(d.conn.Conn)
	}
}

// hangUp ends the connection by FIN.
func (d *delivery) hangUp() {
	d.broken.Store(true)
	if d.conn != nil {
		_ = d.conn.Close() // the client sees it or has left
	}
}

// pause waits for t; false if the client left first.
func (d *delivery) pause(t time.Duration) bool {
	return wait(d.r.Context(), t) == nil
}

func wait(ctx context.Context, t time.Duration) error {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// text answers with a line of plain text.
func (d *delivery) text(status int, line string) {
	d.body(status, "text/plain; charset=utf-8", []byte(line+"\n"))
}

// refuse answers with a JSON-RPC error and an HTTP status.
func (d *delivery) refuse(status int, e *RPCError) {
	d.body(status, "application/json", d.twist(encodeError(d.msg.ID, e)))
}

// body answers with a whole body.
func (d *delivery) body(status int, contentType string, b []byte) {
	w := d.wire(contentType)
	w.send(status, b)
}

// injected answers in place of the server where a fault says so. It reports
// whether the request is over.
func (d *delivery) injected() bool {
	for _, s := range d.strikes {
		if d.instead(s) {
			return true
		}
	}
	return d.breaksAt(phaseBefore)
}

func (d *delivery) instead(s strike) bool {
	switch s.name {
	case "delay", "slow-initialized":
		return !d.pause(s.arg.(time.Duration))
	case "status":
		a := s.arg.(statuses)
		return d.fail(a.at(s.n), a.retryAfter)
	case "429":
		return d.fail(http.StatusTooManyRequests, strings.TrimPrefix(s.arg.(string), "retry-after="))
	case "406":
		return d.fail(http.StatusNotAcceptable, "")
	case "html":
		d.body(s.arg.(int), "text/html; charset=utf-8", htmlPage(s.arg.(int)))
	case "empty":
		d.body(s.arg.(int), "", nil)
	case "401", "401-bearer", "403-scope":
		d.challenge(s)
	case "redirect":
		return d.redirect(s.arg.(redirect))
	case "redirect-other-origin":
		d.redirectAway(s.arg.(int))
	default:
		return d.insteadOfEra(s)
	}
	return true
}

// fail answers with a status; 200 is no failure.
func (d *delivery) fail(status int, retryAfter string) bool {
	if status == http.StatusOK {
		return false
	}
	if retryAfter != "" {
		d.w.Header().Set("Retry-After", retryAfter)
	}
	d.text(status, http.StatusText(status))
	return true
}

func htmlPage(status int) []byte {
	var b strings.Builder
	title := strconv.Itoa(status) + " " + http.StatusText(status)
	b.WriteString("<!DOCTYPE html>\n<html><head><title>" + title + "</title></head><body><h1>" + title + "</h1>\n")
	for b.Len() < 60_000 {
		b.WriteString("<p class=\"filler\">The gateway could not reach the application server.</p>\n")
	}
	b.WriteString("</body></html>\n")
	return []byte(b.String())
}

func (d *delivery) challenge(s strike) {
	h := d.w.Header()
	switch arg, _ := s.arg.(string); s.name {
	case "401-bearer":
		v := "Bearer"
		if arg != "" {
			v += ` resource_metadata="` + arg + `"`
		}
		h.Set("WWW-Authenticate", v)
	case "403-scope":
		h.Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+arg+`"`)
		d.text(http.StatusForbidden, "insufficient scope")
		return
	}
	d.text(http.StatusUnauthorized, "unauthorized")
}

// redirect sends the client to the path, unless it is there already. A redirect
// to the endpoint's own path is the loop that the fault asks for.
func (d *delivery) redirect(to redirect) bool {
	target, err := d.r.URL.Parse(to.path)
	if err != nil || target.Path == d.r.URL.Path && to.path != "/mcp" && to.path != "/sse" {
		return false
	}
	d.w.Header().Set("Location", to.path)
	d.text(to.status, "moved")
	return true
}

// redirectAway sends the client to the same port under another name of loopback,
// so that the ledger shows whether it went.
func (d *delivery) redirectAway(status int) {
	_, port, _ := strings.Cut(d.r.Host, ":")
	scheme, host := "http", "localhost"
	if d.r.TLS != nil {
		scheme = "https"
	}
	if strings.HasPrefix(d.r.Host, host) {
		host = "127.0.0.1"
	}
	d.w.Header().Set("Location", scheme+"://"+host+":"+port+d.r.URL.RequestURI())
	d.text(status, "moved")
}
