package bridgetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A FaultInfo tells a person about one fault.
type FaultInfo struct {
	Name     string // as in ParseFault
	Argument string // what the argument means; "" if there is none
	Default  string // requests befallen if neither method nor tool is given
	Line     string // what happens
}

// FaultNames lists all faults by name.
func FaultNames() []FaultInfo {
	var out []FaultInfo
	for _, d := range faultDefs() {
		out = append(out, FaultInfo{d.name, d.argument, d.scope, d.line})
	}
	slices.SortFunc(out, func(a, b FaultInfo) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// A point is where in the life of a request a fault strikes.
type point uint8

const (
	onRequest point = iota // before the request is handled
	onReply                // the reply's bytes are changed
	onWire                 // the way out is disturbed
	onAccept               // the connection is
)

type faultDef struct {
	name     string
	argument string
	scope    string
	point    point
	parse    func(string) (any, error) // nil: no argument
	line     string
}

func lookupFault(name string) (faultDef, bool) {
	for _, d := range faultDefs() {
		if d.name == name {
			return d, true
		}
	}
	return faultDef{}, false
}

const (
	calls = "tools/call"
	every = "*"
)

func faultDefs() []faultDef {
	return slices.Concat(refusals(), cuts(), lies(), streams(), connections(), eras())
}

// refusals answer instead of the tool, or in place of its answer.
func refusals() []faultDef {
	return []faultDef{
		{"status", "STATUS[,STATUS...][;retry-after=SECONDS|HTTP-DATE]; 200 is no fault, the last one stays", calls, onRequest, parseStatuses, "answer with the status, nothing is executed"},
		{"status-after-effect", "STATUS", calls, onReply, parseStatuses, "execute, then answer with the status"},
		{"html", "STATUS", calls, onRequest, parseStatus(502), "answer with 60 kB of HTML"},
		{"empty", "STATUS", calls, onRequest, parseStatus(200), "answer with an empty body, nothing is executed"},
		{"401", "", calls, onRequest, nil, "401 without a challenge"},
		{"401-bearer", "URL of the resource metadata", calls, onRequest, parseText, "401 with a Bearer challenge"},
		{"403-scope", "scope", calls, onRequest, parseText, "403 with insufficient_scope"},
		{"406", "", calls, onRequest, nil, "406"},
		{"429", "retry-after=SECONDS|HTTP-DATE", calls, onRequest, parseText, "429"},
		{"redirect", "STATUS,PATH", "POST", onRequest, parseRedirect, "redirect within the origin"},
		{"redirect-other-origin", "STATUS", "POST", onRequest, parseStatus(307), "redirect to the same port under another host name"},
		{"delay", "DURATION", calls, onRequest, parseDuration, "wait before the request is handled"},
	}
}

// cuts end the connection or leave it hanging.
func cuts() []faultDef {
	return []faultDef{
		{"cut", "BYTES", calls, onWire, parseCount(0), "reset the connection after so many bytes of the response"},
		{"cut-phase", phaseNames(), calls, onWire, parsePhase, "reset the connection at the phase"},
		{"stall", phaseNames(), calls, onWire, parsePhase, "hold still at the phase until the client leaves"},
		{"lost-reply", "", calls, onWire, nil, "execute, then close the connection without the reply"},
		{"trickle", "BYTES/INTERVAL", calls, onWire, parseTrickle, "write the response in small pieces"},
	}
}

// lies are replies that are none.
func lies() []faultDef {
	d := func(name, line string) faultDef { return faultDef{name, "", calls, onReply, nil, line} }
	return []faultDef{
		d("malformed", "the reply is no JSON"),
		d("truncated-json", "the reply ends in the middle, in good order"),
		d("wrong-id", "the reply has another id"),
		d("null-id", "the reply has the id null"),
		d("no-id", "the reply has no id"),
		d("both", "the reply has result and error"),
		d("not-2.0", "the reply is of JSON-RPC 1.0"),
		d("duplicate-names", "the reply names its result twice"),
		d("batch", "the reply is an array of one"),
		d("bad-error", "the reply's error is a string"),
		d("bad-content", "the result's content is a string"),
		d("bad-is-error", "the result's isError is a string"),
		d("unknown-result-type", "the result has a resultType nobody knows"),
		{"gzip", "lazy: without flushing", calls, onWire, parseOneOf("", "lazy"), "the body is compressed, asked or not"},
		{"bad-gzip", "length, br or garbage", calls, onWire, parseOneOf("length", "br", "garbage"), "the body is compressed wrongly"},
		{"charset", "", every, onWire, nil, "content types have odd case and a charset"},
	}
}

// streams are oddities of event streams.
func streams() []faultDef {
	d := func(name, line string) faultDef { return faultDef{name, "", every, onWire, nil, line} }
	return []faultDef{
		{"stream-end", "", calls, onWire, nil, "the stream ends in good order before the reply"},
		{"stream-cut-after", "EVENTS", calls, onWire, parseCount(0), "reset the connection after so many events"},
		d("crlf", "lines of events end with CR LF"),
		d("cr", "lines of events end with CR"),
		d("multi-data-lines", "each message takes several data lines"),
		d("comments", "comments stand between the events"),
		d("priming-event", "the first event has an id and no data"),
	}
}

// connections are faults of connections and of HTTP/2.
func connections() []faultDef {
	return []faultDef{
		{"close-idle", "DURATION", every, onAccept, parseDuration, "close a connection that was idle so long"},
		{"goaway", "", calls, onWire, nil, "answer, and say that the connection is over (HTTP/2: GOAWAY)"},
		{"h2", "refused, goaway or protocol-error", every, onAccept, parseOneOf("refused", "goaway", "protocol-error"), "HTTP/2: turn away the first request of a connection, unread"},
	}
}

// eras are faults of sessions, of the handshake, of discovery and of lists.
func eras() []faultDef {
	return []faultDef{
		{"session-lost", "", calls, onRequest, nil, "forget all sessions first"},
		{"session-400", "", calls, onRequest, nil, "forget all sessions first, and answer 400 to unknown ones"},
		{"session-503", "", calls, onRequest, nil, "forget all sessions first, and answer 503 to unknown ones"},
		{"slow-initialized", "DURATION", "notifications/initialized", onRequest, parseDuration, "take long over notifications/initialized"},
		{"get-405", "", "GET", onRequest, nil, "405 to GET"},
		{"no-get", "", "GET", onRequest, nil, "404 to GET"},
		{"get-200-text", "", "GET", onRequest, nil, "200 and plain text to GET"},
		{"get-close-at-once", "comment or retry0: sent before", "GET", onRequest, parseOneOf("", "comment", "retry0"), "the GET stream ends at once, in good order"},
		{"get-hang", "", "GET", onRequest, nil, "GET is never answered"},
		{"version-400", "newest revision known", "POST", onRequest, parseText, "400 in plain text to newer revisions (default 2025-06-18)"},
		{"initialize-header-400", "", "initialize", onRequest, nil, "400 to an initialize with MCP-Protocol-Version"},
		{"discover", strings.Join(discoverKinds(), ", "), "server/discover", onRequest, parseOneOf(discoverKinds()...), "answer the probe as old servers do"},
		{"no-cache-hints", "all: resultType too", every, onReply, parseOneOf("", "all"), "leave out ttlMs and cacheScope"},
		{"list-pages", "TOOLS of one page", "tools/list", onRequest, parseCount(1), "list the tools in pages"},
	}
}

func discoverKinds() []string {
	return []string{"-32601", "-32602", "-32600", "-32603", "-32000", "400-text", "404", "405", "406", "500", "close", "silent"}
}

// A phase is a moment in the life of a request.
type phase string

const (
	phaseAccept      phase = "accept"
	phaseHead        phase = "head-read"
	phaseBody        phase = "body-read"
	phaseBefore      phase = "before-effect"
	phaseAfter       phase = "after-effect"
	phaseHeaders     phase = "after-headers"
	phaseHalf        phase = "half-reply"
	phaseBeforeChunk phase = "before-last-chunk"
)

func phases() []phase {
	return []phase{phaseAccept, phaseHead, phaseBody, phaseBefore, phaseAfter, phaseHeaders, phaseHalf, phaseBeforeChunk}
}

func phaseNames() string {
	var names []string
	for _, p := range phases() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// statuses is the argument of status: a sequence and an optional Retry-After.
type statuses struct {
	codes      []int
	retryAfter string
}

// at returns the status of the n-th use; the last one stays.
func (s statuses) at(n int) int { return s.codes[min(n, len(s.codes)-1)] }

type redirect struct {
	status int
	path   string
}

type trickle struct {
	bytes    int
	interval time.Duration
}

func parseText(s string) (any, error) { return s, nil }

func parseDuration(s string) (any, error) {
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = errors.New("duration is negative")
	}
	return d, err
}

func parseCount(least int) func(string) (any, error) {
	return func(s string) (any, error) {
		if s == "" {
			return least, nil
		}
		n, err := strconv.Atoi(s)
		if err == nil && n < least {
			err = fmt.Errorf("less than %d", least)
		}
		return n, err
	}
}

func parseOneOf(names ...string) func(string) (any, error) {
	return func(s string) (any, error) {
		if s == "" {
			s = names[0]
		}
		if !slices.Contains(names, s) {
			return "", fmt.Errorf("is none of %s", strings.Join(names, ", "))
		}
		return s, nil
	}
}

func parsePhase(s string) (any, error) {
	if !slices.Contains(phases(), phase(s)) {
		return phase(""), fmt.Errorf("is none of %s", phaseNames())
	}
	return phase(s), nil
}

func parseCode(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && (n < 200 || n > 599) {
		err = errors.New("no status from 200 to 599")
	}
	return n, err
}

func parseStatus(fallback int) func(string) (any, error) {
	return func(s string) (any, error) {
		if s == "" {
			return fallback, nil
		}
		return parseCode(s)
	}
}

func parseStatuses(s string) (any, error) {
	list, rest, _ := strings.Cut(s, ";")
	out := statuses{retryAfter: strings.TrimPrefix(rest, "retry-after=")}
	for item := range strings.SplitSeq(list, ",") {
		code, err := parseCode(item)
		if err != nil {
			return out, err
		}
		out.codes = append(out.codes, code)
	}
	return out, nil
}

func parseRedirect(s string) (any, error) {
	code, path, _ := strings.Cut(s, ",")
	n, err := parseCode(code)
	if err == nil && path == "" {
		err = errors.New("no path")
	}
	return redirect{n, path}, err
}

func parseTrickle(s string) (any, error) {
	n, d, _ := strings.Cut(s, "/")
	size, err := strconv.Atoi(n)
	if err != nil || size < 1 {
		return trickle{}, errors.New("no number of bytes before the slash")
	}
	every, err := time.ParseDuration(d)
	return trickle{size, every}, err
}
