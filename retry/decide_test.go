package retry

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
)

var (
	outcomes = []classify.Outcome{classify.Unreachable, classify.HTTPError, classify.StreamIncomplete, classify.TimedOut,
		classify.MalformedJSON, classify.InvalidEnvelope, classify.InvalidToolResult, classify.JSONRPCError, classify.ToolError,
		classify.ToolSuccess, classify.InputRequired, classify.TaskCreated, classify.Accepted, classify.Result}
	effects  = []classify.Effect{classify.Possible, classify.None, classify.Reported}
	classes  = []Class{Write, PresumedRead, Idempotent, Read}
	statuses = []int{200, 302, 401, 403, 404, 408, 429, 500, 503}
	codes    = []int64{0, -32020, -32022, -32602}
	noon     = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
)

func fixed(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func spent() *Budget {
	b := new(Budget)
	for b.Take(noon) {
	}
	return b
}

// expected states the table of decisions row by row, in the words of the
// design and not in those of the code. Exhausted means that no retry, no time
// or no budget is left for an ordinary repeat.
func expected(s Situation, exhausted, late bool) Action {
	v := s.Verdict
	answered := []classify.Outcome{classify.ToolSuccess, classify.ToolError, classify.Result, classify.TaskCreated, classify.Accepted}
	harmless := v.Effect == classify.None || (v.Effect == classify.Possible && (s.Class == Read || s.Class == Idempotent))
	isStatus := func(codes ...int) bool {
		return v.Outcome == classify.HTTPError && slices.Contains(codes, v.Status)
	}
	clientSide := v.Outcome != classify.HTTPError || v.Status < 500
	rows := []struct {
		holds bool
		then  Action
		once  bool // was it done already?
	}{
		{slices.Contains(answered, v.Outcome), Stop, false},
		{v.Outcome == classify.InputRequired, CollectInput, false},
		{v.Outcome == classify.StreamIncomplete && s.Resumable, Resume, false},
		{!harmless, Stop, false},
		{v.SessionLost, RenewSession, s.SessionRemade},
		{isStatus(401), SignIn, s.SignedIn},
		{isStatus(403) && s.Challenge != "", StepUp, s.SteppedUp},
		{clientSide && v.RPCError != nil && v.RPCError.Code == -32020, RefreshSchema, s.SchemaRefreshed},
		{clientSide && v.RPCError != nil && v.RPCError.Code == -32022, PickVersion, s.VersionPicked},
		{v.Outcome == classify.Unreachable, Again, exhausted},
		{isStatus(429, 408, 500, 503), Again, exhausted},
		{v.Outcome == classify.TimedOut, Again, exhausted},
		{v.Outcome == classify.StreamIncomplete, Again, exhausted},
	}
	for _, row := range rows {
		if !row.holds {
			continue
		}
		if row.once || late && row.then.delivers() {
			return Stop
		}
		return row.then
	}
	return Stop
}

// situations yields every combination of what the table depends on.
func situations(yield func(Situation) bool) {
	for _, o := range outcomes {
		for _, e := range effects {
			for _, c := range classes {
				for _, status := range statuses {
					for _, code := range codes {
						for flags := range 8 {
							s := Situation{Verdict: classify.Verdict{Outcome: o, Effect: e, Status: status}, Class: c, Method: "tools/call",
								Remaining: time.Minute, Resumable: flags&1 != 0}
							s.Verdict.SessionLost = flags&2 != 0
							if flags&4 != 0 {
								s.Challenge = `Bearer error="insufficient_scope", scope="a"`
							}
							if code != 0 {
								s.Verdict.RPCError = &classify.RPCError{Code: code}
							}
							if !yield(s) {
								return
							}
						}
					}
				}
			}
		}
	}
}

func TestDecideTable(t *testing.T) {
	t.Parallel()
	policy, empty := Defaults(), spent()
	limits := []struct {
		name            string
		change          func(*Situation)
		budget          func() *Budget
		exhausted, late bool
	}{
		{"fresh", func(*Situation) {}, func() *Budget { return new(Budget) }, false, false},
		{"no retries", func(s *Situation) { s.Retries = policy.Retries }, func() *Budget { return new(Budget) }, true, false},
		{"no time", func(s *Situation) { s.Remaining = 0 }, func() *Budget { return new(Budget) }, true, true},
		{"little time", func(s *Situation) { s.Remaining = time.Millisecond }, func() *Budget { return new(Budget) }, true, false},
		{"no budget", func(*Situation) {}, func() *Budget { return empty }, true, false},
		{"cured", func(s *Situation) {
			s.SessionRemade, s.SchemaRefreshed, s.VersionPicked, s.SignedIn, s.SteppedUp = true, true, true, true, true
		}, func() *Budget { return new(Budget) }, false, false},
	}
	for _, limit := range limits {
		n := 0
		for s := range situations {
			limit.change(&s)
			got := Decide(policy, s, limit.budget(), noon, fixed(50*time.Millisecond))
			if want := expected(s, limit.exhausted, limit.late); got.Action != want {
				t.Fatalf("%s: %v %v %d %v, %v: %v (%s), want %v", limit.name, s.Verdict.Outcome, s.Verdict.Effect,
					s.Verdict.Status, s.Verdict.RPCError, s.Class, got.Action, got.Why, want)
			}
			if got.Why == "" || strings.ContainsAny(got.Why, "\n") {
				t.Fatalf("a decision without a reason of one line: %q", got.Why)
			}
			n++
		}
		t.Logf("%s: %d situations", limit.name, n)
	}
}

// TestWritesAreNotRepeated: whatever the situation, a call that may have an
// effect is sent again only if the verdict proves that it had none.
func TestWritesAreNotRepeated(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	flip := func() bool { return random.IntN(2) == 0 }
	for s := range situations {
		if s.Class == Read || s.Class == Idempotent || s.Verdict.Effect == classify.None {
			continue
		}
		s.Retries = random.IntN(3)
		s.Remaining = time.Duration(random.Int64N(int64(time.Minute)))
		s.SessionRemade, s.SignedIn, s.SteppedUp = flip(), flip(), flip()
		s.SchemaRefreshed, s.VersionPicked = flip(), flip()
		if d := Decide(Defaults(), s, new(Budget), noon, fixed(0)); d.Action.delivers() {
			t.Fatalf("a %v with effect %v and %v is told: %v", s.Class, s.Verdict.Effect, s.Verdict.Outcome, d.Action)
		}
	}
}

// TestCuresKeepToRetryAfter: what is repeated for another reason than time waits
// all the same if the server asks for it.
func TestCuresKeepToRetryAfter(t *testing.T) {
	t.Parallel()
	after := 3 * time.Second
	for action, v := range map[Action]classify.Verdict{
		RenewSession:  {Outcome: classify.HTTPError, Status: 404, SessionLost: true},
		RefreshSchema: {Outcome: classify.JSONRPCError, RPCError: &classify.RPCError{Code: -32020}},
		PickVersion:   {Outcome: classify.JSONRPCError, RPCError: &classify.RPCError{Code: -32022}},
	} {
		v.Effect = classify.None
		s := Situation{Verdict: v, Method: "tools/call", Remaining: time.Minute}
		if d := Decide(Defaults(), s, new(Budget), noon, fixed(time.Second)); d.Action != action || d.Wait != 0 {
			t.Errorf("%v: %+v, want no wait", action, d)
		}
		s.Verdict.RetryAfter = &after
		if d := Decide(Defaults(), s, new(Budget), noon, fixed(time.Second)); d.Action != action || d.Wait != after {
			t.Errorf("%v: %+v, want %v", action, d, after)
		}
		s.Remaining = after
		if d := Decide(Defaults(), s, new(Budget), noon, fixed(time.Second)); d.Action != Stop || d.Wait != after {
			t.Errorf("%v without time: %+v", action, d)
		}
	}
}

func TestLostSessionOfAWrite(t *testing.T) {
	t.Parallel()
	s := Situation{Verdict: classify.Verdict{Outcome: classify.HTTPError, Status: 503, SessionLost: true}, Remaining: time.Minute}
	if d := Decide(Defaults(), s, new(Budget), noon, fixed(0)); d.Action != Stop || !d.RenewSession {
		t.Errorf("a write that met a lost session and may have run: %+v", d)
	}
	s.SessionRemade = true
	if d := Decide(Defaults(), s, new(Budget), noon, fixed(0)); d.RenewSession {
		t.Errorf("the session is renewed twice: %+v", d)
	}
}

func TestHeaderMismatchOfOtherMethods(t *testing.T) {
	t.Parallel()
	v := classify.Verdict{Outcome: classify.HTTPError, Status: 400, Effect: classify.None, RPCError: &classify.RPCError{Code: -32020}}
	s := Situation{Verdict: v, Class: Read, Method: "resources/read", Remaining: time.Minute}
	if d := Decide(Defaults(), s, new(Budget), noon, fixed(0)); d.Action != Stop {
		t.Errorf("a tool's schema is refreshed for %s: %v", s.Method, d.Action)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after, remaining time.Duration
		action           Action
		wait             time.Duration
	}{
		{3 * time.Second, 10 * time.Second, Again, 3 * time.Second},
		{0, 10 * time.Second, Again, 0},
		{10 * time.Second, 10 * time.Second, Stop, 10 * time.Second},
		{90 * time.Second, 10 * time.Second, Stop, 90 * time.Second},
	} {
		s := Situation{Verdict: classify.Verdict{Outcome: classify.HTTPError, Status: 429, Effect: classify.None, RetryAfter: &c.after}, Remaining: c.remaining}
		d := Decide(Defaults(), s, new(Budget), noon, fixed(time.Hour))
		if d.Action != c.action || d.Wait != c.wait {
			t.Errorf("Retry-After %v with %v left: %v after %v", c.after, c.remaining, d.Action, d.Wait)
		}
		if c.action == Stop && !strings.Contains(d.Why, c.after.String()) {
			t.Errorf("the wait of %v is not named: %s", c.after, d.Why)
		}
	}
}

func TestStoppedRetryIsNotCharged(t *testing.T) {
	t.Parallel()
	b := new(Budget)
	s := Situation{Verdict: classify.Verdict{Outcome: classify.Unreachable, Effect: classify.None}, Remaining: time.Second}
	for range 100 {
		Decide(Defaults(), s, b, noon, fixed(time.Hour))
	}
	if d := Decide(Defaults(), s, b, noon, fixed(0)); d.Action != Again {
		t.Errorf("decisions to stop used up the budget: %s", d.Why)
	}
	if d := Decide(Defaults(), s, nil, noon, fixed(0)); d.Action != Stop {
		t.Error("without a budget there is a retry")
	}
	if d := Decide(Defaults(), s, b, noon, nil); d.Wait != Defaults().First {
		t.Errorf("without waits the first is %v", d.Wait)
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	p := Policy{Retries: 2, First: 200 * time.Millisecond, Max: time.Second}
	for range 50 {
		next := p.Waits()
		for i, mean := range []time.Duration{200, 400, 800, 1000, 1000, 1000} {
			mean *= time.Millisecond
			if got := next(); got < mean/2 || got > mean*3/2+time.Millisecond {
				t.Fatalf("wait %d is %v, far from %v", i, got, mean)
			}
		}
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outcome classify.Outcome
		effect  classify.Effect
		status  int
		write   Ending // also presumed read and idempotent
		read    Ending
	}{
		{classify.ToolSuccess, classify.Reported, 200, Completed, Completed},
		{classify.ToolError, classify.Reported, 200, Completed, Completed},
		{classify.Result, classify.Possible, 200, Completed, Completed},
		{classify.Accepted, classify.Possible, 202, Completed, Completed},
		{classify.JSONRPCError, classify.Possible, 200, Failed, Failed},
		{classify.JSONRPCError, classify.None, 200, Failed, Failed},
		{classify.HTTPError, classify.Possible, 500, Unknown, Unanswered},
		{classify.HTTPError, classify.Possible, 503, Unknown, Unanswered},
		{classify.HTTPError, classify.Possible, 408, Unknown, Unanswered},
		{classify.HTTPError, classify.Possible, 302, Unknown, Unanswered},
		{classify.HTTPError, classify.Possible, 409, Failed, Failed},
		{classify.HTTPError, classify.Possible, 404, Failed, Failed},
		{classify.HTTPError, classify.None, 429, Failed, Failed},
		{classify.HTTPError, classify.None, 401, Failed, Failed},
		{classify.TimedOut, classify.Possible, 0, Unknown, Unanswered},
		{classify.TimedOut, classify.None, 0, Failed, Failed},
		{classify.StreamIncomplete, classify.Possible, 200, Unknown, Unanswered},
		{classify.Unreachable, classify.None, 0, Failed, Failed},
		{classify.MalformedJSON, classify.Possible, 200, Unknown, Unanswered},
		{classify.InvalidEnvelope, classify.Possible, 200, Unknown, Unanswered},
		{classify.InvalidToolResult, classify.Possible, 200, Unknown, Unanswered},
		{classify.InputRequired, classify.Possible, 200, Unknown, Unanswered},
		{classify.TaskCreated, classify.Possible, 200, Unknown, Unanswered},
	} {
		v := classify.Verdict{Outcome: c.outcome, Effect: c.effect, Status: c.status}
		for _, class := range classes {
			want := c.write
			if class == Read {
				want = c.read
			}
			if got := Settle(v, class, false); got != want {
				t.Errorf("%v %d %v of a %v ends as %v, want %v", c.outcome, c.status, c.effect, class, got, want)
			}
		}
	}
}

// A refusal after a delivery that may have had an effect is no end of the call.
func TestSettleAfterAnEarlierDelivery(t *testing.T) {
	t.Parallel()
	for _, o := range outcomes {
		for _, status := range statuses {
			for _, class := range classes {
				v := classify.Verdict{Outcome: o, Status: status}
				want := Unknown
				switch o {
				case classify.ToolSuccess, classify.ToolError, classify.Result, classify.Accepted:
					want = Completed
				default:
					if class == Read {
						want = Unanswered
					}
				}
				if got := Settle(v, class, true); got != want {
					t.Errorf("%v %d of a %v ends as %v, want %v", o, status, class, got, want)
				}
			}
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for a := Stop; a <= CollectInput; a++ {
		seen["action "+a.String()] = true
	}
	for e := Unknown; e <= Unanswered; e++ {
		seen["ending "+e.String()] = true
	}
	for c := Write; c <= Read; c++ {
		seen["class "+c.String()] = true
	}
	if len(seen) != 9+4+4 || seen["action unknown"] || seen["class unknown"] {
		t.Errorf("names are missing or double: %v", seen)
	}
}
