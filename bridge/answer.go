package bridge

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/retry"
)

// This file turns the last reply of an exchange into the line that the host
// gets: upstream's own words where there are any, else words of ours.

// answerTo is the answer to the host for the last reply r.
func (x *exchange) answerTo(r *reply) [][]byte {
	if m := x.theirWords(r); m != nil {
		if asked := x.urlRequired(m); asked != nil {
			return asked
		}
		parts := x.pair.reply(x.method, m, x.id, cacheHints{scope: "private"}, x.job.meta)
		if size, yes := x.bridge.tooLong(parts); yes {
			return x.tooLarge(&r.verdict, size)
		}
		return parts
	}
	if x.rounds.rpcError != nil {
		// design-eras, section 5: the exchange ends with the host's own error.
		return [][]byte{[]byte(`{"jsonrpc":"2.0","id":`), x.id, []byte(`,"error":`), x.rounds.rpcError, []byte("}")}
	}
	if empty := x.emptyForUnknownList(&r.verdict); empty != nil {
		return empty
	}
	if x.method == "tools/call" {
		return x.toolText(x.explain(r), &r.verdict)
	}
	return [][]byte{rpcErrorLine(x.id, x.code(&r.verdict), x.explain(r).String(), x.errorData(&r.verdict))}
}

// theirWords is upstream's response if the host is to have it: results, and
// JSON-RPC errors of a 2xx or 4xx. A 5xx says too little about a tools/call, and
// the refusal of a repeat too little about the delivery before it.
func (x *exchange) theirWords(r *reply) *jsonrpc.Message {
	v := &r.verdict
	if r.connecting != "" || v.Status == 401 || x.stepUp(r) || r.moot && x.class != retry.Read {
		return nil
	}
	switch v.Outcome {
	case classify.ToolSuccess, classify.ToolError, classify.Result, classify.TaskCreated, classify.JSONRPCError:
	case classify.InputRequired:
		if x.pair.host != x.pair.upstream {
			return nil
		}
	case classify.HTTPError:
		if v.RPCError == nil || v.Status >= 500 && x.method == "tools/call" || v.Status/100 == 3 {
			return nil
		}
	default:
		return nil
	}
	if v.RPCError != nil && v.RPCError.Code == codeMethodNotFound && emptyFor(x.method) && v.Status < 500 {
		return nil
	}
	if v.Reply.Kind == jsonrpc.Response {
		return &v.Reply
	}
	m, err := jsonrpc.Read(r.capture.Body)
	if err != nil || m.Kind != jsonrpc.Response {
		return nil
	}
	return &m
}

// stepUp reports whether a 403 asks for more scope (RFC 6750, section 3.1).
func (x *exchange) stepUp(r *reply) bool {
	return r.verdict.Status == 403 && strings.Contains(r.challenge, "insufficient_scope")
}

func length(parts [][]byte) (n int64) {
	for _, p := range parts {
		n += int64(len(p))
	}
	return n
}

// emptyFor names the lists that are answered empty where upstream has none.
func emptyFor(method string) bool {
	switch method {
	case "prompts/list", "resources/list", "resources/templates/list":
		return true
	}
	return false
}

func (x *exchange) emptyForUnknownList(v *classify.Verdict) [][]byte {
	if !emptyFor(x.method) || v.RPCError == nil || v.RPCError.Code != codeMethodNotFound || v.Status >= 500 {
		return nil
	}
	result := emptyResult(x.method)
	if x.profile.era == modernEra {
		result = jsonrpc.With(result, "resultType", []byte(`"complete"`))
		result = jsonrpc.With(result, "ttlMs", []byte("0"))
		result = jsonrpc.With(result, "cacheScope", []byte(`"private"`))
	}
	return resultLine(x.id, result)
}

// toolText is a tool result of ours, marked as an error and with the verdict.
func (x *exchange) toolText(n note, v *classify.Verdict) [][]byte {
	meta := x.metaWith(member{metaVerdict, x.verdictJSON(v)})
	text, structured := n.String(), []byte(nil)
	if job, ok := x.bridge.keeper.jobOf(x); ok {
		message := text + " Its handle is " + string(job.Handle) + "."
		if job.State == jobs.OutcomeUnknown {
			message = text + fmt.Sprintf(" Its handle is %s; settle it with %s once you know.", job.Handle, resolveTool)
		}
		text = message
		about := x.jobJSON(&job, text, false)
		meta = jsonrpc.With(meta, metaJob, about)
		structured = about
	}
	result := concat(`{"content":[`, textBlock(text), `],"isError":true,"_meta":`, meta, `}`)
	if structured != nil && !(x.tool != nil && x.tool.output) {
		result = jsonrpc.With(result, "structuredContent", structured)
	}
	return x.ownResult(result)
}

// verdictJSON is the object of `classify --json` with what the exchange adds.
func (x *exchange) verdictJSON(v *classify.Verdict) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte("{}")
	}
	deliveries, origin, by := x.evidence.counts()
	b = jsonrpc.With(b, "tool", quote(x.toolName))
	b = jsonrpc.With(b, "deliveries", strconv.AppendInt(nil, int64(deliveries), 10))
	b = jsonrpc.With(b, "retryOrigin", quote(origin))
	return jsonrpc.With(b, "endedBy", quote(by))
}

func (x *exchange) errorData(v *classify.Verdict) []byte {
	return concat(`{"source":"mcpbridge","verdict":`, x.verdictJSON(v), `}`)
}

// code is the JSON-RPC code of an error that the bridge originates.
func (x *exchange) code(v *classify.Verdict) int {
	switch {
	case v.Status == 401 || v.Status == 403 && v.RPCError == nil:
		return codeSignIn
	case v.Outcome == classify.TimedOut:
		return codeTimedOut
	case v.Outcome == classify.Unreachable:
		return codeUnreachable
	case v.Outcome == classify.MalformedJSON || v.Outcome == classify.InvalidEnvelope || v.Outcome == classify.InvalidToolResult:
		return codeInvalidReply
	case v.Outcome == classify.HTTPError && v.Status < 500 && v.Status != 408 && v.Status != 429:
		return codeInvalidReply
	case x.class == retry.Write && v.Effect != classify.None:
		return codeUnknown
	}
	return codeUnreachable
}

// doesNotFit reports whether a tool result is longer than a line to the host
// may be: it is then kept as a job.
func (x *exchange) doesNotFit(r *reply) bool {
	if x.method != "tools/call" || r.verdict.Outcome != classify.ToolSuccess && r.verdict.Outcome != classify.ToolError {
		return false
	}
	most := x.bridge.cfg.HostLineLimit
	most -= min(lineSlack, most/2)
	if int64(len(r.verdict.Reply.Raw))*growth < most {
		return false
	}
	return lineSize(x.pair.reply(x.method, &r.verdict.Reply, x.id, cacheHints{}, nil)) >= most
}

const (
	// lineSlack is how much the bridge may add to a tool result: its _meta.
	lineSlack = 64 << 10
	// growth is how many times longer a reply may be when it leaves toward the
	// host: characters become escapes, and structured content is told once more
	// as text.
	growth = 4
)

// tooLong reports whether the host cannot take a line of these parts, and its
// size in bytes.
func (b *Bridge) tooLong(parts [][]byte) (size int64, yes bool) {
	if size = length(parts); size*growth < b.cfg.HostLineLimit {
		return size, false
	}
	size = lineSize(parts)
	return size, size >= b.cfg.HostLineLimit
}

// noAnswerOf is about an answer whose size the host's line limit does not let
// through.
func (x *exchange) noAnswerOf(size int64) note {
	n := note{
		head: "NO ANSWER",
		what: fmt.Sprintf("the answer to %s of server %s has %d bytes, which is longer than this host can read (--host-line-limit %d)",
			x.method, x.bridge.cfg.Server, size, x.bridge.cfg.HostLineLimit),
		next: "ask for less (a filter, a page, a smaller range), or raise --host-line-limit if the host allows longer lines",
	}
	if x.method == "tools/call" && x.class != retry.Read {
		n.not = "do not call again to see the result: it may act twice"
	}
	return n
}

// tooLarge answers for a result that the host's line limit does not let
// through.
func (x *exchange) tooLarge(v *classify.Verdict, size int64) [][]byte {
	if x.job.given {
		if job, err := x.bridge.keeper.journal.Find(x.ctx, x.handle()); err == nil {
			return x.largeAnswer(&job, job.Result.Size, false)
		}
	}
	n := note{
		head: "NO ANSWER",
		what: fmt.Sprintf("server %s answered%s, but its reply of %d bytes is longer than this host can read (--host-line-limit %d)",
			x.bridge.cfg.Server, x.after(), size, x.bridge.cfg.HostLineLimit),
		next: "ask for less (a filter, a page, a smaller range), or raise --host-line-limit if the host allows longer lines",
	}
	switch {
	case v.Effect == classify.None:
		n.known = reason(v) + "; nothing was executed"
	case v.Outcome == classify.ToolSuccess || v.Outcome == classify.ToolError || v.Outcome == classify.Result:
		n.known = "the call was executed"
	default: // an error or a question that is too long
		n.known = reason(v)
		if x.class != retry.Read {
			n.unknown = "whether part of it took effect"
		}
	}
	if x.class != retry.Read && v.Effect != classify.None {
		n.not = "do not call again to see the result: it may act twice"
	}
	if x.method == "tools/call" {
		return x.toolText(n, v)
	}
	return [][]byte{rpcErrorLine(x.id, codeInvalidReply, n.String(), x.errorData(v))}
}
