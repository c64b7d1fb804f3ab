package bridgetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

const (
	maxHostLine   = 64 << 20 // bytes of one line from the process
	maxStderrKept = 1 << 20  // bytes of stderr kept, the last ones
	outputGrace   = 2 * time.Second
)

// HostOptions say what a Host starts.
type HostOptions struct {
	Command []string // program and arguments
	Env     []string // nil: the environment of this process
	Dir     string
	Stderr  io.Writer // gets a copy of stderr; may be nil

	// Answer, if set, answers requests of the process (elicitation and so on):
	// with a result, or with an error. Without it they are answered -32601,
	// ping by an empty result.
	Answer func(method string, params json.RawMessage) (any, error)
	// Batches accepts lines that are arrays of messages (2025-03-26).
	Batches bool
	// NoAnswer leaves all requests of the process unanswered.
	NoAnswer bool

	Version      string // modern revision for _meta; "" is 2026-07-28
	Capabilities string // JSON object of the client's capabilities; "" is {}
	Name         string // client name; "" is "bridgetest-host"
}

// A Host is an MCP host that drives a server process over pipes. It checks every
// line the process writes and records what no line may be. All methods are safe
// for concurrent use.
type Host struct {
	opts  HostOptions
	cmd   *exec.Cmd
	stdin io.WriteCloser

	write  sync.Mutex // one line at a time
	mu     sync.Mutex
	change chan struct{} // closed and replaced at every line and at the end

	next       int
	modern     bool
	lines      [][]byte
	answers    map[string][]Reply // by id, as JSON
	asked      map[string]bool
	requests   []HostMessage
	notes      []HostMessage
	violations []string
	stderr     []byte
	ended      bool // stdout has ended
	killed     bool // by us: its last line may be cut
	over       bool // the process and both outputs have ended
	exited     chan struct{}
	code       int
}

// A Reply is one response of the process.
type Reply struct {
	ID     json.RawMessage
	Result json.RawMessage // nil if it is an error
	Error  *ReplyError     // nil if it is a result
	Raw    []byte          // the line
}

// A ReplyError is the error object of a Reply.
type ReplyError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// A HostMessage is a request or notification of the process.
type HostMessage struct {
	ID     json.RawMessage // nil for a notification
	Method string
	Params json.RawMessage
	Raw    []byte
}

// StartHost starts the process in a process group of its own.
func StartHost(o HostOptions) (*Host, error) {
	if len(o.Command) == 0 {
		return nil, errors.New("start host: no command")
	}
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Env, cmd.Dir = o.Env, o.Dir
	cmd.SysProcAttr = ownGroup()
	h := &Host{
		opts: o, cmd: cmd, change: make(chan struct{}), exited: make(chan struct{}),
		answers: map[string][]Reply{}, asked: map[string]bool{},
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start host: %w", err)
	}
	h.stdin = stdin
	stdout, stderr, err := h.start()
	if err != nil {
		return nil, fmt.Errorf("start host: %w", err)
	}
	go h.run(stdout, stderr)
	return h, nil
}

// start starts the process with pipes whose reading ends are ours: what the
// process leaves behind may hold the other ends longer than it lives.
func (h *Host) start() (stdout, stderr *os.File, err error) {
	stdout, outEnd, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = outEnd.Close() }()
	stderr, errEnd, err := os.Pipe()
	if err != nil {
		_ = stdout.Close()
		return nil, nil, err
	}
	defer func() { _ = errEnd.Close() }()
	h.cmd.Stdout, h.cmd.Stderr = outEnd, errEnd
	if err := h.cmd.Start(); err != nil {
		_ = stdout.Close()
		_ = stderr.Close()
		return nil, nil, err
	}
	return stdout, stderr, nil
}

// run collects the exit code and both outputs. Output that stays open after the
// process has ended is a violation: hosts wait for its end.
func (h *Host) run(stdout, stderr *os.File) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		var both sync.WaitGroup
		both.Go(func() { h.readLines(stdout) })
		both.Go(func() { h.readStderr(stderr) })
		both.Wait()
	}()
	_ = h.cmd.Wait() // the state below tells
	h.note(func() { h.code = h.cmd.ProcessState.ExitCode() })
	timer := time.NewTimer(outputGrace)
	defer timer.Stop()
	select {
	case <-read:
	case <-timer.C:
		h.note(func() {
			h.violations = append(h.violations, fmt.Sprintf("output is still open %v after the process ended", outputGrace))
		})
	}
	_ = stdout.Close()
	_ = stderr.Close()
	<-read
	close(h.exited)
	h.note(func() { h.over = true })
}

func (h *Host) note(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.change)
	h.change = make(chan struct{})
}

func (h *Host) readLines(r io.Reader) {
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(br)
		if len(line) > 0 {
			h.line(bytes.TrimSuffix(line, []byte("\n")), err == nil)
		}
		if err != nil {
			h.note(func() { h.ended = true })
			_, _ = io.Copy(io.Discard, br) // so that the process is not blocked
			return
		}
	}
}

func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxHostLine {
			return line, errors.New("line is too long")
		}
	}
}

func (h *Host) readStderr(r io.Reader) {
	buf := make([]byte, 8<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			h.note(func() {
				h.stderr = append(h.stderr, buf[:n]...)
				if over := len(h.stderr) - maxStderrKept; over > 0 {
					h.stderr = append([]byte(nil), h.stderr[over:]...)
				}
			})
			if h.opts.Stderr != nil {
				_, _ = h.opts.Stderr.Write(buf[:n]) // a copy, for people
			}
		}
		if err != nil {
			return
		}
	}
}

// line takes one line of stdout.
func (h *Host) line(b []byte, whole bool) {
	line := bytes.Clone(b)
	h.note(func() { h.lines = append(h.lines, line) })
	var batch []json.RawMessage
	if h.opts.Batches && whole && json.Unmarshal(line, &batch) == nil && len(batch) > 0 {
		for _, one := range batch {
			h.message(one, true)
		}
		return
	}
	h.message(line, whole)
}

func (h *Host) message(line []byte, whole bool) {
	m, err := checkLine(line, whole)
	h.note(func() {
		if !whole && h.killed {
			return
		}
		if err != nil {
			h.violations = append(h.violations, fmt.Sprintf("%v: %.200q", err, line))
			return
		}
		h.sort(m, line)
	})
	if err == nil && m.isRequest() && !h.opts.NoAnswer {
		h.answer(m)
	}
}

// sort files a valid message. The caller holds the mutex.
func (h *Host) sort(m message, line []byte) {
	switch {
	case m.isRequest():
		h.requests = append(h.requests, HostMessage{m.ID, m.Method, m.Params, line})
	case m.Method != "":
		h.notes = append(h.notes, HostMessage{nil, m.Method, m.Params, line})
	default:
		h.answered(m, line)
	}
}

func (h *Host) answered(m message, line []byte) {
	id := string(m.ID)
	r := Reply{ID: m.ID, Result: m.Result, Raw: line}
	if m.Error != nil {
		r.Error = new(ReplyError)
		if err := json.Unmarshal(m.Error, r.Error); err != nil {
			h.violations = append(h.violations, fmt.Sprintf("error object cannot be read: %.200q", line))
		}
	}
	h.answers[id] = append(h.answers[id], r)
	if id != "null" && !h.asked[id] {
		h.violations = append(h.violations, fmt.Sprintf("answer to an id that was not asked: %.200q", line))
	}
	if id != "null" && len(h.answers[id]) > 1 {
		h.violations = append(h.violations, fmt.Sprintf("%d answers for id %s", len(h.answers[id]), id))
	}
}

// answer answers a request of the process.
func (h *Host) answer(m message) {
	answer := h.opts.Answer
	if answer == nil {
		answer = noAnswer
	}
	go func() { // the process may not be reading
		result, err := answer(m.Method, m.Params)
		if err != nil {
			_ = h.Send(encodeError(m.ID, asRPCError(err))) // it may have ended
			return
		}
		_ = h.Send(encodeResult(m.ID, result))
	}()
}

func noAnswer(method string, _ json.RawMessage) (any, error) {
	if method == "ping" {
		return object{}, nil
	}
	return nil, rpcErrorf(codeMethodNotFound, "method %q is not known", method)
}

// Send writes one line. Requests in it are not waited for; Call does that.
func (h *Host) Send(line []byte) error {
	if m, err := parseMessage(line); err == nil && m.isRequest() {
		h.note(func() { h.asked[string(m.ID)] = true })
	}
	return h.SendRaw(append(bytes.Clone(line), '\n'))
}

// SendRaw writes bytes as they are.
func (h *Host) SendRaw(b []byte) error {
	h.write.Lock()
	defer h.write.Unlock()
	if _, err := h.stdin.Write(b); err != nil {
		return fmt.Errorf("write to the process: %w", err)
	}
	return nil
}

// Expect makes an id known that was sent by SendRaw, so that its answer is no
// violation. id is JSON.
func (h *Host) Expect(id string) { h.note(func() { h.asked[id] = true }) }

// NextID returns a fresh id.
func (h *Host) NextID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	return strconv.Itoa(h.next)
}

// Call sends a request with a fresh id and waits for the answer. params is a
// JSON object, "" for none.
func (h *Host) Call(ctx context.Context, method, params string) (Reply, error) {
	return h.CallID(ctx, h.NextID(), method, params)
}

// CallID is Call with an id of the caller's, as JSON.
func (h *Host) CallID(ctx context.Context, id, method, params string) (Reply, error) {
	if err := h.Request(id, method, params); err != nil {
		return Reply{}, err
	}
	return h.WaitReply(ctx, id)
}

// Request sends a request and does not wait.
func (h *Host) Request(id, method, params string) error {
	return h.Send(line(id, method, h.params(params)))
}

// Notify sends a notification.
func (h *Host) Notify(method, params string) error {
	return h.Send(line("", method, params))
}

// line spells a message out, so that params keep their bytes.
func line(id, method, params string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0"`)
	if id != "" {
		b.WriteString(`,"id":` + id)
	}
	b.WriteString(`,"method":` + strconv.Quote(method))
	if params != "" {
		b.WriteString(`,"params":` + params)
	}
	b.WriteString("}")
	return b.Bytes()
}

// SetModern switches to requests that carry the _meta of 2026-07-28, or back.
func (h *Host) SetModern(on bool) { h.note(func() { h.modern = on }) }

// params adds what a modern request carries in _meta. Keys that are there stay.
func (h *Host) params(params string) string {
	h.mu.Lock()
	modern := h.modern
	h.mu.Unlock()
	if !modern {
		return params
	}
	f := open(json.RawMessage(params)).fields
	if f == nil {
		f = fields{}
	}
	meta := h.meta()
	for k, v := range open(f["_meta"]).fields {
		meta[k] = v
	}
	f["_meta"] = encode(meta)
	return string(encode(f))
}

func (h *Host) meta() fields {
	return fields{
		metaVersion:      encode(or(h.opts.Version, modernVersion)),
		metaClientInfo:   encode(h.clientInfo()),
		metaCapabilities: json.RawMessage(or(h.opts.Capabilities, "{}")),
	}
}

func (h *Host) clientInfo() object {
	return object{"name": or(h.opts.Name, "bridgetest-host"), "version": "1.0.0"}
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// Initialize does the handshake of the legacy revisions: initialize, its answer,
// notifications/initialized. capabilities is a JSON object, "" for that of the
// options.
func (h *Host) Initialize(ctx context.Context, version, capabilities string) (Reply, error) {
	h.SetModern(false)
	caps := or(capabilities, or(h.opts.Capabilities, "{}"))
	params := encode(object{"protocolVersion": version, "capabilities": json.RawMessage(caps), "clientInfo": h.clientInfo()})
	r, err := h.Call(ctx, "initialize", string(params))
	if err != nil {
		return r, err
	}
	if r.Error != nil {
		return r, fmt.Errorf("initialize: error %d: %s", r.Error.Code, r.Error.Message)
	}
	return r, h.Notify("notifications/initialized", "")
}

// Discover switches to modern requests and sends server/discover.
func (h *Host) Discover(ctx context.Context) (Reply, error) {
	h.SetModern(true)
	return h.Call(ctx, "server/discover", "")
}

// CallTool calls a tool. arguments is a JSON object, "" for none.
func (h *Host) CallTool(ctx context.Context, name, arguments string) (Reply, error) {
	return h.Call(ctx, "tools/call", ToolParams(name, arguments))
}

// ToolParams spells out the params of tools/call.
func ToolParams(name, arguments string) string {
	return `{"name":` + strconv.Quote(name) + `,"arguments":` + or(arguments, "{}") + `}`
}

// Text returns the text of the first content block of a tool result.
func (r Reply) Text() string {
	var t struct {
		Content []struct{ Text string }
	}
	_ = json.Unmarshal(r.Result, &t) // no tool result: ""
	if len(t.Content) == 0 {
		return ""
	}
	return t.Content[0].Text
}

// IsError reports whether a tool result has isError.
func (r Reply) IsError() bool {
	var t struct{ IsError bool }
	_ = json.Unmarshal(r.Result, &t) // no tool result: false
	return t.IsError
}

// wait waits until ok, which is called with the mutex held, or until stdout has
// ended and ok will not come true any more; past the end of stdout if told so.
func (h *Host) wait(ctx context.Context, what string, past bool, ok func() bool) error {
	for {
		h.mu.Lock()
		done, ended, change := ok(), h.over || h.ended && !past, h.change
		h.mu.Unlock()
		switch {
		case done:
			return nil
		case ended:
			return fmt.Errorf("wait for %s: the output of the process has ended", what)
		}
		select {
		case <-change:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		}
	}
}

// WaitReply waits for the answer to an id, as JSON.
func (h *Host) WaitReply(ctx context.Context, id string) (Reply, error) {
	var r Reply
	err := h.wait(ctx, "the answer to id "+id, false, func() bool {
		if len(h.answers[id]) == 0 {
			return false
		}
		r = h.answers[id][0]
		return true
	})
	return r, err
}

// WaitNotification waits for a notification of the method, also one that came
// before, and returns the first.
func (h *Host) WaitNotification(ctx context.Context, method string) (HostMessage, error) {
	return h.WaitMessage(ctx, method, func(m HostMessage) bool { return m.ID == nil && m.Method == method })
}

// WaitRequest waits for a request of the process with the method, also one that
// came before, and returns the first.
func (h *Host) WaitRequest(ctx context.Context, method string) (HostMessage, error) {
	return h.WaitMessage(ctx, method, func(m HostMessage) bool { return m.ID != nil && m.Method == method })
}

// WaitMessage waits for a notification or request that match accepts. what names
// it in the error.
func (h *Host) WaitMessage(ctx context.Context, what string, match func(HostMessage) bool) (HostMessage, error) {
	var found HostMessage
	err := h.wait(ctx, what, false, func() bool {
		for _, list := range [][]HostMessage{h.notes, h.requests} {
			for _, m := range list {
				if match(m) {
					found = m
					return true
				}
			}
		}
		return false
	})
	return found, err
}

// Notifications returns the notifications that keep accepts, all if it is nil.
func (h *Host) Notifications(keep func(HostMessage) bool) []HostMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []HostMessage
	for _, m := range h.notes {
		if keep == nil || keep(m) {
			out = append(out, m)
		}
	}
	return out
}

// Requests returns the requests that the process sent.
func (h *Host) Requests() []HostMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]HostMessage(nil), h.requests...)
}

// Replies returns all answers to an id, as JSON.
func (h *Host) Replies(id string) []Reply {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Reply(nil), h.answers[id]...)
}

// Lines returns all lines of stdout without their line ends.
func (h *Host) Lines() [][]byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([][]byte(nil), h.lines...)
}

// Violations returns what the process wrote on stdout and must not: lines that
// are not one JSON-RPC message, second answers, answers to nothing.
func (h *Host) Violations() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.violations...)
}

// Stderr returns what the process wrote on stderr, the last MiB of it.
func (h *Host) Stderr() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.stderr)
}

// WaitStderr waits until stderr contains the text.
func (h *Host) WaitStderr(ctx context.Context, text string) error {
	return h.wait(ctx, strconv.Quote(text)+" on stderr", true, func() bool { return bytes.Contains(h.stderr, []byte(text)) })
}

// PID returns the process id.
func (h *Host) PID() int { return h.cmd.Process.Pid }

// CloseStdin ends the input of the process, as a host does that quits.
func (h *Host) CloseStdin() error { return h.stdin.Close() }

// Signal sends a signal to the process alone.
func (h *Host) Signal(s os.Signal) error {
	if s == os.Kill {
		h.note(func() { h.killed = true })
	}
	return h.cmd.Process.Signal(s)
}

// Exited is closed when the process has ended and its output was read.
func (h *Host) Exited() <-chan struct{} { return h.exited }

// Wait waits for the end of the process and returns its exit code, -1 if a
// signal ended it.
func (h *Host) Wait(ctx context.Context) (int, error) {
	select {
	case <-h.exited:
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.code, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the process: %w", context.Cause(ctx))
	}
}

// Kill ends the process group at once and waits for the process. Killing one
// that has ended is no error.
func (h *Host) Kill() {
	select {
	case <-h.exited: // the group's number may be another's by now
	default:
		h.note(func() { h.killed = true })
		h.killGroup()
	}
	_ = h.stdin.Close()
	<-h.exited
}
