package bridge

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/retry"
)

// This file prepares a tools/call: which tool it is, what may be done about
// it, and how long it may take.

// prepareCall looks the tool up. A tool that no catalogue knows yet is judged
// by its name alone.
func (x *exchange) prepareCall() {
	x.evidence.begin(x)
	if x.method != "tools/call" {
		return
	}
	name, _ := jsonrpc.String(x.msg.Field(jsonrpc.Name))
	t := x.bridge.offers.tool(x.profile, name)
	var class retry.Class
	if t != nil {
		class = t.class
	} else {
		class = x.bridge.offers.box.class(name, retry.Hints{})
	}
	x.mu.Lock()
	x.toolName, x.tool, x.class = name, t, class
	x.mu.Unlock()
	if t != nil && x.tool.name != x.toolName {
		x.rename(x.tool.name)
	}
}

// misnamed says why the tool of a tools/call can be no tool's name, "" if it
// can: MCP 2024-11-05 and later, tools, "Calling Tools", demands a string. The
// bounds are those of the journal.
func (x *exchange) misnamed() string {
	if x.method != "tools/call" {
		return ""
	}
	name, ok := jsonrpc.String(x.msg.Field(jsonrpc.Name))
	switch {
	case !ok || name == "":
		return "tools/call needs params.name, the name of a tool"
	case len(name) > jobs.MaxName || strings.IndexByte(name, 0) >= 0:
		return fmt.Sprintf("params.name is no tool's name: it is longer than %d bytes, or has a NUL", jobs.MaxName)
	}
	return ""
}

// rename puts upstream's own name of the tool into the request.
func (x *exchange) rename(name string) {
	raw := jsonrpc.AppendEdited(nil, x.msg.Raw, jsonrpc.Edit{Span: x.msg.FieldSpan(jsonrpc.Name), New: quote(name)})
	if m, err := jsonrpc.Read(raw); err == nil {
		x.setMessage(&m)
	}
}

// setMessage changes what the next delivery says.
func (x *exchange) setMessage(m *jsonrpc.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.msg = m
}

// message is what the next delivery says, for others than x's own goroutine.
func (x *exchange) message() *jsonrpc.Message {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.msg
}

// setTool names the tool that is called.
func (x *exchange) setTool(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.toolName = name
}

// notSent is the verdict about a request that the bridge itself kept back.
func (x *exchange) notSent(why string) *classify.Verdict {
	x.evidence.setBy(byBridge)
	v := new(classify.Verdict)
	v.Layer, v.Outcome, v.Effect, v.Why = classify.Transport, classify.Unreachable, classify.None, why
	return v
}

// overloaded refuses a request that the bridge has no room for.
func (x *exchange) overloaded(known, next string) {
	defer x.cancel(nil)
	v := x.notSent(known)
	if x.method != "tools/call" {
		x.answerOurs([][]byte{rpcErrorLine(x.id, codeOverloaded, known+": "+next, x.errorData(v))}, v)
		return
	}
	name, _ := jsonrpc.String(x.msg.Field(jsonrpc.Name))
	x.setTool(name)
	x.answerOurs(x.toolText(overloadNote(x, known, next), v), v)
}

func overloadNote(x *exchange, known, next string) note {
	return note{
		head:  "NOT SENT",
		what:  fmt.Sprintf("%s was not sent to server %s: mcpbridge has as much to do as it can (%d overloaded)", x.subject(), x.bridge.cfg.Server, codeOverloaded),
		known: known + "; nothing was executed",
		next:  next,
	}
}

// refusedByConfig says why configuration does not let this call out.
func (x *exchange) refusedByConfig() string {
	if x.method != "tools/call" || !x.bridge.offers.box.hidden(x.toolName) {
		return ""
	}
	return fmt.Sprintf("the tool %q is taken out by --ignore-tool or --only-tool", x.toolName)
}

// startClock starts the limits of the exchange: the answer deadline for all,
// the job limit for calls, whose delivery may outlive the answer.
func (x *exchange) startClock() {
	answer := x.bridge.answerWithin(x.host.clientName(), x.toolName)
	giveUp := answer
	if x.method == "tools/call" {
		giveUp = x.bridge.cfg.JobTimeout
		if x.bridge.keeper != nil && !x.mayHaveHandle() {
			answer = giveUp // no handle can be given: the call stays open
		}
	}
	answer = min(answer, giveUp)
	if unlimited(x.method) {
		answer, giveUp = x.bridge.cfg.JobTimeout, x.bridge.cfg.JobTimeout
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clock = newClock(x.began.Add(x.stood), answer, giveUp, x.answerDeadline,
		func() { x.cancel(limitReached("--job-timeout")) })
}

// unlimited names the requests that wait by design.
func unlimited(method string) bool {
	return method == "subscriptions/listen" || method == "tasks/result"
}

// answerWithin is until when a host has its answer.
func (b *Bridge) answerWithin(client, tool string) time.Duration {
	if t := b.toolConfig(tool); t.AnswerWithin > 0 {
		return t.AnswerWithin
	}
	if b.cfg.AnswerWithin > 0 {
		return b.cfg.AnswerWithin
	}
	return b.patience.answerWithin(client)
}

// classAsKeyed judges the class of a call that is about to be sent. A key that
// is configured makes a tool one that may be called twice, but only with that
// key in the call.
func (x *exchange) classAsKeyed() {
	if x.method != "tools/call" || !x.bridge.keyed(x.toolName) {
		return
	}
	hints := retry.Hints{}
	if x.tool != nil {
		hints = x.tool.hints
	}
	rules := &x.bridge.rules
	class := rules.Tool(x.toolName, hints, true)
	if class == retry.Idempotent && !x.job.keyed && rules.Tool(x.toolName, hints, false) != retry.Idempotent {
		class = retry.Write
	}
	x.settling.Lock()
	defer x.settling.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.class = class
}

// misplacedKey says why the configured idempotency key cannot be put into x's
// call, "" if it can.
func (x *exchange) misplacedKey() string {
	pointer := x.bridge.toolConfig(x.toolName).IdempotencyKey
	arguments := x.message().Field(jsonrpc.Arguments)
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	if pointer == "" || fitsPointer(arguments, pointer) {
		return ""
	}
	return fmt.Sprintf("its idempotency key belongs at %s of the arguments, as configured, and these arguments have no object there", strconv.Quote(pointer))
}

// keyRefused is the answer to a call that its key does not fit into.
func (x *exchange) keyRefused(why string) [][]byte {
	return x.toolText(note{
		head:  "NOT SENT",
		what:  fmt.Sprintf("%s was not sent to server %s", x.subject(), x.bridge.cfg.Server),
		known: why + "; nothing was executed",
		next:  "tell the user to correct idempotency_key of this tool in config.toml, or call again with arguments that it fits",
	}, x.notSent(why))
}

// keyed reports whether the bridge puts an idempotency key into calls of a tool.
func (b *Bridge) keyed(tool string) bool { return b.toolConfig(tool).IdempotencyKey != "" }

// toolConfig is what config.toml says of a tool; the first match wins.
func (b *Bridge) toolConfig(tool string) ToolConfig {
	if tool == "" {
		return ToolConfig{}
	}
	for _, t := range b.cfg.Tools {
		if retry.MatchGlob(t.Glob, tool) {
			return t
		}
	}
	return ToolConfig{}
}
