package bridge

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/retry"
)

// A note is what a model or a person reads in place of a result: what it is,
// what is known, what is not, what to do next, what not to do.
type note struct {
	head    string // STILL RUNNING, OUTCOME UNKNOWN, NOT SENT, NO ANSWER, SIGN-IN NEEDED, FAILED
	what    string
	known   string
	unknown string
	next    string
	not     string
}

// maxNote bounds a note, in characters; only the quoted reason is cut.
const maxNote = 900

func (n note) String() string {
	var b strings.Builder
	if strings.HasSuffix(n.head, ")") {
		b.WriteString(n.head + ". " + strings.ToUpper(n.what[:1]) + n.what[1:] + ".")
	} else {
		b.WriteString(n.head + ": " + n.what + ".")
	}
	for _, part := range []struct{ label, text string }{
		{"Known", n.known}, {"Not known", n.unknown}, {"Next", n.next}, {"Do not", strings.TrimPrefix(n.not, "do not ")},
	} {
		if part.text != "" {
			b.WriteString(" " + part.label + ": " + part.text + ".")
		}
	}
	return b.String()
}

// explain is the note about the last reply of an exchange.
func (x *exchange) explain(r *reply) note {
	v := &r.verdict
	switch {
	case r.moot && x.class != retry.Read:
		return x.refusedLater(r)
	case v.Status == 401 || x.stepUp(r):
		return x.credentialsRefused(r)
	case v.Outcome == classify.InputRequired:
		return x.inputRequired()
	case r.tooLarge && r.connecting == "":
		return x.overLimit(v)
	case r.local:
		return note{
			head:  "NOT SENT",
			what:  fmt.Sprintf("%s cannot be sent to server %s as it is", x.subject(), x.bridge.cfg.Server),
			known: reason(v) + "; nothing was executed",
			next:  "correct the arguments and call again",
		}
	}
	switch retry.Settle(*v, x.class, r.moot) {
	case retry.Unknown:
		return x.outcomeUnknown(v)
	case retry.Unanswered:
		return x.noAnswer(v)
	default:
		if v.Effect != classify.None {
			return x.failed(v)
		}
		n := x.notExecuted(v)
		if r.tooLarge {
			n.next = "tell the user to raise --max-message"
		}
		return n
	}
}

// after says how long the call has taken, and how often it was delivered.
func (x *exchange) after() string {
	deliveries, _, _ := x.evidence.counts()
	s := " after " + age(time.Since(x.began))
	if deliveries > 1 {
		s += fmt.Sprintf(" and %d deliveries", deliveries)
	}
	return s
}

// age writes a duration for people.
func age(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(max(1, d.Milliseconds()), 10) + " ms"
	case d < 2*time.Minute:
		return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + " s"
	}
	s := d.Round(time.Second).String() // 2m0s, 1h0m0s
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// reason is the verdict's one line, cut to what a note has room for.
func reason(v *classify.Verdict) string {
	return strings.TrimRight(cut(v.Why, 320), ". ")
}

// cut shortens s to n bytes at most, at a character's edge.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

// subject names the call: the tool, or the method where there is none.
func (x *exchange) subject() string {
	if x.toolName != "" {
		return fmt.Sprintf("the call of %q", cut(x.toolName, 80))
	}
	return x.method
}

func (x *exchange) outcomeUnknown(v *classify.Verdict) note {
	return note{
		head:    "OUTCOME UNKNOWN",
		what:    fmt.Sprintf("%s to server %s ended without a usable answer%s", x.subject(), x.bridge.cfg.Server, x.after()),
		known:   reason(v) + askedToWait(v),
		unknown: "whether it took effect",
		next:    "look at the current state with a tool that only reads, then decide, or tell the user",
		not:     "do not simply call it again: it may have been executed",
	}
}

// refusedLater is about a call whose last delivery was refused, and one before it
// was not.
func (x *exchange) refusedLater(r *reply) note {
	n := x.outcomeUnknown(&r.verdict)
	if r.verdict.Status == 401 || x.stepUp(r) {
		n.next = x.credentialsRefused(r).next + "; then " + n.next
	}
	return n
}

func (x *exchange) noAnswer(v *classify.Verdict) note {
	return note{
		head:  "NO ANSWER",
		what:  fmt.Sprintf("%s to server %s got no usable answer%s", x.subject(), x.bridge.cfg.Server, x.after()),
		known: reason(v) + "; it only reads, nothing was changed",
		next:  x.nextTry(v),
	}
}

func (x *exchange) notExecuted(v *classify.Verdict) note {
	if v.Outcome == classify.Unreachable || v.Status == 0 {
		return note{
			head:  "NOT SENT",
			what:  fmt.Sprintf("%s did not reach server %s%s", x.subject(), x.bridge.cfg.Server, x.after()),
			known: reason(v) + "; nothing was executed",
			next:  x.nextTry(v),
		}
	}
	return note{
		head:  "FAILED",
		what:  fmt.Sprintf("server %s refused %s%s, without executing it", x.bridge.cfg.Server, x.subject(), x.after()),
		known: reason(v) + "; nothing was executed",
		next:  x.nextTry(v),
	}
}

// askedToWait names the wait that the server asked for, if it did.
func askedToWait(v *classify.Verdict) string {
	if v.RetryAfter == nil || *v.RetryAfter <= 0 {
		return ""
	}
	return "; the server asks to wait " + age(*v.RetryAfter) + " before it is called again"
}

// nextTry says when to call again.
func (x *exchange) nextTry(v *classify.Verdict) string {
	if v.RetryAfter != nil && *v.RetryAfter > 0 {
		return fmt.Sprintf("call again in %s, as the server asks", age(*v.RetryAfter))
	}
	if v.Outcome == classify.HTTPError && v.Status < 500 && v.Status != 408 && v.Status != 429 {
		return "correct what the server complains about, or tell the user"
	}
	return "call again later; if it goes on, tell the user that this server cannot be reached"
}

func (x *exchange) failed(v *classify.Verdict) note {
	n := note{
		head:  "FAILED",
		what:  fmt.Sprintf("server %s rejected %s%s", x.bridge.cfg.Server, x.subject(), x.after()),
		known: reason(v),
		next:  "correct what the server complains about, or tell the user",
	}
	if x.class != retry.Read {
		n.unknown = "whether part of it took effect"
		n.not = "do not repeat it unchanged before you have looked"
	}
	return n
}

// credentialsRefused is about a 401, or a 403 that asks for more.
func (x *exchange) credentialsRefused(r *reply) note {
	status := fmt.Sprintf(" (HTTP %d)", r.verdict.Status)
	d := x.refusal.decision
	switch {
	case x.bridge.cfg.Login != "" && (d.Action != auth.Stop || r.verdict.Status == 401):
		n := x.signInNote(status)
		if d.Action == auth.Stop {
			n.known += "; " + cut(d.Why, 300)
		}
		return n
	case x.bridge.cfg.Login != "":
		return note{
			head:  "FAILED",
			what:  fmt.Sprintf("server %s refused %s for want of a permission%s%s", x.bridge.cfg.Server, x.subject(), status, x.after()),
			known: "nothing was executed" + because(d.Why),
			next:  "tell the user that this account may not do it",
		}
	}
	return note{
		head:  "SIGN-IN NEEDED",
		what:  fmt.Sprintf("server %s wants credentials%s for %s%s", x.bridge.cfg.Server, status, x.subject(), x.after()),
		known: "nothing was executed" + because(d.Why),
		next:  "tell the user to give mcpbridge valid credentials for this server (--header, --header-file, --bearer-env or --token-command) and to restart it in the host",
		not:   "do not call again before that",
	}
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return "; " + cut(why, 300)
}

func (x *exchange) inputRequired() note {
	known := "the server has not finished the call"
	if x.rounds.why != "" {
		known += "; " + cut(x.rounds.why, 300)
	}
	return note{
		head:  "FAILED",
		what:  fmt.Sprintf("server %s wants an answer from the user before it goes on with %s, and there was none%s", x.bridge.cfg.Server, x.subject(), x.after()),
		known: known,
		next:  "tell the user, or give the tool everything it needs in its arguments",
	}
}

// overLimit is about a reply that was larger than we read.
func (x *exchange) overLimit(v *classify.Verdict) note {
	n := note{
		head:  "NO ANSWER",
		what:  fmt.Sprintf("the reply of server %s to %s is too large%s", x.bridge.cfg.Server, x.subject(), x.after()),
		known: reason(v),
		next:  "ask for less, or raise --max-message",
	}
	if x.class != retry.Read {
		n.head, n.unknown = "OUTCOME UNKNOWN", "what the reply said"
		n.not = "do not simply call it again: it was probably executed"
	}
	return n
}

// openPastDeadline answers for a call whose delivery is still open when the
// host must have an answer.
func (x *exchange) openPastDeadline(v *classify.Verdict) [][]byte {
	return x.toolText(note{
		head:    "OUTCOME UNKNOWN",
		what:    fmt.Sprintf("%s to server %s was sent and has not been answered%s", x.subject(), x.bridge.cfg.Server, x.after()),
		known:   "the server may still be working on it; mcpbridge keeps the connection open for it",
		unknown: "whether it takes effect",
		next:    "look at the current state with a tool that only reads, after a while, or tell the user",
		not:     "do not simply call it again: it may be executed twice",
	}, v)
}

// notOffered answers a call of a tool that configuration hides.
func (x *exchange) notOffered(why string) [][]byte {
	return x.toolText(note{
		head:  "NOT SENT",
		what:  fmt.Sprintf("%s, so nothing was sent to server %s", why, x.bridge.cfg.Server),
		known: "nothing was executed",
		next:  "use another tool, or tell the user to change the configuration",
	}, x.notSent(why))
}
