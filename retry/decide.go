package retry

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
)

// An Action is what follows a delivery.
type Action uint8

const (
	Stop          Action = iota // hand on what there is; the zero value
	Again                       // deliver again after Wait
	Resume                      // reopen the stream of the answer with Last-Event-ID
	RenewSession                // make a new session, then deliver again
	RefreshSchema               // list the tools, compute the headers anew, then deliver again
	PickVersion                 // choose a revision that both sides know, then deliver again
	SignIn                      // get credentials, then deliver again
	StepUp                      // get a wider scope, then deliver again
	CollectInput                // ask, and send the next round; not a retry
)

// String names the action in records.
func (a Action) String() string {
	switch a {
	case Stop:
		return "stop"
	case Again:
		return "again"
	case Resume:
		return "resume"
	case RenewSession:
		return "renew session"
	case RefreshSchema:
		return "refresh schema"
	case PickVersion:
		return "pick version"
	case SignIn:
		return "sign in"
	case StepUp:
		return "step up"
	case CollectInput:
		return "collect input"
	}
	return "unknown"
}

// delivers reports whether the action sends the request once more.
func (a Action) delivers() bool {
	switch a {
	case Again, RenewSession, RefreshSchema, PickVersion, SignIn, StepUp:
		return true
	}
	return false
}

// A Situation is a verdict with what is known of its exchange.
type Situation struct {
	Verdict   classify.Verdict
	Class     Class
	Method    string
	Retries   int           // deliveries made by Again so far
	Remaining time.Duration // to the answer deadline; none is left at 0 and below
	Resumable bool          // a legacy session, and an event with an id was seen

	// What was done once in this exchange and is not done twice.
	SessionRemade, SchemaRefreshed, VersionPicked, SignedIn, SteppedUp bool

	Challenge string // WWW-Authenticate of the answer
}

// A Decision is the next step.
type Decision struct {
	Action Action
	Wait   time.Duration // before it
	Why    string        // one line

	// RenewSession, beside Stop, means that the session is to be made anew for
	// later calls although this one is not sent again.
	RenewSession bool
}

// Decide says what follows. Waits gives the wait before a further delivery
// where the server named none, and is asked only then (see Policy.Waits).
// The budget is charged only for Again; the other repeats happen once each in
// an exchange and wait only if the server asks for it.
func Decide(p Policy, s Situation, b *Budget, now time.Time, waits func() time.Duration) Decision {
	d := s.step()
	if d.Action.delivers() && s.Remaining <= 0 {
		return Decision{Why: "no time left for another delivery: " + d.Why, RenewSession: d.Action == RenewSession}
	}
	if d.Action != Again {
		return s.asAsked(d)
	}
	return again(p, s, b, now, waits, d.Why)
}

// asAsked keeps to a Retry-After before a repeat that a cure makes possible. A
// person who signs in takes the time that it takes.
func (s *Situation) asAsked(d Decision) Decision {
	cured := d.Action == RenewSession || d.Action == RefreshSchema || d.Action == PickVersion
	if !cured || s.Verdict.RetryAfter == nil {
		return d
	}
	d.Wait = *s.Verdict.RetryAfter
	if d.Wait < s.Remaining {
		return d
	}
	return Decision{Wait: d.Wait, RenewSession: d.Action == RenewSession,
		Why: fmt.Sprintf("%s; the server asks to wait %v, longer than the %v left", d.Why, d.Wait.Round(time.Millisecond), s.Remaining.Round(time.Millisecond))}
}

// step decides by the verdict alone, without time and budget.
func (s *Situation) step() Decision {
	v := &s.Verdict
	switch v.Outcome {
	case classify.ToolSuccess, classify.ToolError, classify.Result, classify.TaskCreated, classify.Accepted:
		return Decision{Why: "answered"}
	case classify.InputRequired:
		return Decision{Action: CollectInput, Why: "the server wants input"}
	case classify.StreamIncomplete:
		if s.Resumable {
			return Decision{Action: Resume, Why: "the stream broke and can be resumed"}
		}
	}
	if !s.mayRepeat() {
		return s.stopped()
	}
	if d, ok := s.cure(); ok {
		return d
	}
	if s.transient() {
		return Decision{Action: Again, Why: s.cause()}
	}
	return Decision{Why: "another delivery would not help"}
}

// mayRepeat reports whether another delivery can do no harm.
func (s *Situation) mayRepeat() bool {
	return s.Verdict.Effect == classify.None || s.Class.repeatable() && s.Verdict.Effect != classify.Reported
}

// stopped is the decision about a call that may have had its effect.
func (s *Situation) stopped() Decision {
	return Decision{Why: "it may have had its effect and is not sent again", RenewSession: s.Verdict.SessionLost && !s.SessionRemade}
}

// cure decides about refusals that something other than waiting cures, once.
func (s *Situation) cure() (Decision, bool) {
	v := &s.Verdict
	switch {
	case v.SessionLost:
		return once(s.SessionRemade, RenewSession, "the session is lost"), true
	case v.Outcome == classify.HTTPError && v.Status == http.StatusUnauthorized:
		return once(s.SignedIn, SignIn, "the server wants credentials"), true
	case v.Outcome == classify.HTTPError && v.Status == http.StatusForbidden && wantsScope(s.Challenge):
		return once(s.SteppedUp, StepUp, "the credentials lack a scope"), true
	case v.RPCError == nil || v.Outcome == classify.HTTPError && v.Status >= 500:
		return Decision{}, false
	case v.RPCError.Code == classify.HeaderMismatch && s.Method == "tools/call":
		return once(s.SchemaRefreshed, RefreshSchema, "a header contradicts the server's schema of the tool"), true
	case v.RPCError.Code == classify.UnsupportedVersion:
		return once(s.VersionPicked, PickVersion, "the server does not know the protocol version"), true
	}
	return Decision{}, false
}

func once(done bool, a Action, why string) Decision {
	if done {
		return Decision{Why: why + ", and still after the cure"}
	}
	return Decision{Action: a, Why: why}
}

// wantsScope reads the error of a challenge (RFC 6750, section 3.1).
func wantsScope(challenge string) bool {
	return strings.Contains(strings.ToLower(challenge), "insufficient_scope")
}

// transient reports whether the same delivery may well succeed later.
func (s *Situation) transient() bool {
	v := &s.Verdict
	switch v.Outcome {
	case classify.Unreachable, classify.TimedOut, classify.StreamIncomplete:
		return true
	case classify.HTTPError:
		return v.Status >= 500 || v.Status == http.StatusRequestTimeout || v.Status == http.StatusTooManyRequests
	}
	return false
}

// cause names the verdict in the reason of a decision.
func (s *Situation) cause() string {
	if s.Verdict.Outcome == classify.HTTPError {
		return fmt.Sprintf("HTTP %d", s.Verdict.Status)
	}
	return s.Verdict.Outcome.String()
}

// again decides whether there are retries, time and budget for one more.
func again(p Policy, s Situation, b *Budget, now time.Time, waits func() time.Duration, why string) Decision {
	if s.Retries >= p.Retries {
		return Decision{Why: fmt.Sprintf("%s, and %d retries are all there are", why, p.Retries)}
	}
	wait, source := nextWait(p, &s, waits)
	if wait >= s.Remaining {
		return Decision{Wait: wait, Why: fmt.Sprintf("%s; %s %v, longer than the %v left", why, source,
			wait.Round(time.Millisecond), s.Remaining.Round(time.Millisecond))}
	}
	if !b.Take(now) {
		return Decision{Why: why + ", and this server's budget for retries is used up"}
	}
	return Decision{Action: Again, Wait: wait, Why: why}
}

func nextWait(p Policy, s *Situation, waits func() time.Duration) (wait time.Duration, source string) {
	switch {
	case s.Verdict.RetryAfter != nil:
		return *s.Verdict.RetryAfter, "the server asks to wait"
	case waits != nil:
		return waits(), "the next try would wait"
	}
	return p.First, "the next try would wait"
}
