package jobs

import (
	"encoding/json"
	"slices"
	"time"
)

// A Class says what a tool may do, as the bridge has judged it.
type Class uint8

const (
	Write        Class = iota // may have an effect each time; the zero value
	PresumedRead              // no annotation, but a name that reads
	Idempotent                // doing it twice is doing it once
	Read                      // without effect
)

var classNames = [...]string{Write: "write", PresumedRead: "presumed_read", Idempotent: "idempotent", Read: "read"}

func (c Class) String() string                { return name(classNames[:], c) }
func (c Class) MarshalText() ([]byte, error)  { return []byte(c.String()), nil }
func (c *Class) UnmarshalText(b []byte) error { return parse(classNames[:], b, c) }

// Effective reports whether the guard holds repeats of this class back.
func (c Class) Effective() bool { return c == Write || c == Idempotent }

// An Effect is what may be said about side effects upstream.
type Effect uint8

const (
	Possible Effect = iota // the zero value: what we do not know, we do not deny
	None                   // proven, or a person said so
	Reported               // a tool result, or a person, says so
)

var effectNames = [...]string{Possible: "possible", None: "none", Reported: "reported"}

func (e Effect) String() string                { return name(effectNames[:], e) }
func (e Effect) MarshalText() ([]byte, error)  { return []byte(e.String()), nil }
func (e *Effect) UnmarshalText(b []byte) error { return parse(effectNames[:], b, e) }

// Evidence is why a job is in its state. The constants are those that this
// package acts on or gives itself; a bridge adds its own.
type Evidence string

const (
	Started         Evidence = "started"
	AnswerDeadline  Evidence = "answer_deadline"   // the handle was given out
	ToolResult      Evidence = "tool_result"       // upstream's answer
	RPCError        Evidence = "rpc_error"         // upstream's JSON-RPC error
	NotSent         Evidence = "not_sent"          // proven: nothing left
	BridgeLost      Evidence = "bridge_lost"       // the owner died before the end was journaled
	BridgeLeft      Evidence = "bridge_left"       // the owner let the call go, because it or its host left
	EarlierDelivery Evidence = "earlier_delivery"  // the last delivery was refused, one before may have been executed
	CancelledByHost Evidence = "cancelled_by_host" // told upstream, no answer
	InputExpired    Evidence = "input_expired"     // nobody answered a question
	StatusTool      Evidence = "status_tool"       // a tool of the server that tells what became of calls
	ResolvedByUser  Evidence = "resolved_by_user"
	ResolvedByModel Evidence = "resolved_by_model"
)

// A StoreMode says how long arguments and results are kept.
type StoreMode uint8

const (
	StoreOpen StoreMode = iota // arguments while open or unknown, results while needed
	StoreFull                  // as long as the record
	StoreNone                  // no arguments ever; such a job cannot be sent again
)

var storeNames = [...]string{StoreOpen: "open", StoreFull: "full", StoreNone: "none"}

func (m StoreMode) String() string                { return name(storeNames[:], m) }
func (m StoreMode) MarshalText() ([]byte, error)  { return []byte(m.String()), nil }
func (m *StoreMode) UnmarshalText(b []byte) error { return parse(storeNames[:], b, m) }

// A Guard says what counts as a repeat of a call.
type Guard uint8

const (
	GuardArguments Guard = iota // the same tool with the same arguments
	GuardTool                   // any call of the tool
	GuardOff
)

var guardNames = [...]string{GuardArguments: "arguments", GuardTool: "tool", GuardOff: "off"}

func (g Guard) String() string                { return name(guardNames[:], g) }
func (g Guard) MarshalText() ([]byte, error)  { return []byte(g.String()), nil }
func (g *Guard) UnmarshalText(b []byte) error { return parse(guardNames[:], b, g) }

// An Account is the server and the principal that a job belongs to.
type Account struct {
	Server    string `json:"server"`
	Principal string `json:"principal"`
}

// A Body says where arguments or a result are; the content is fetched with
// Journal.Arguments and Journal.Result.
type Body struct {
	Size  int64  `json:"size,omitempty"` // bytes, also after it was wiped
	Kept  bool   `json:"kept,omitempty"`
	Aside string `json:"aside,omitempty"` // its name beside the tables, if it is too large for them
}

// A Kind says what a result is.
type Kind uint8

const (
	NoResult   Kind = iota
	ToolAnswer      // a tool result
	ErrorValue      // the error object of a JSON-RPC response
)

var kindNames = [...]string{NoResult: "none", ToolAnswer: "result", ErrorValue: "error"}

func (k Kind) String() string                { return name(kindNames[:], k) }
func (k Kind) MarshalText() ([]byte, error)  { return []byte(k.String()), nil }
func (k *Kind) UnmarshalText(b []byte) error { return parse(kindNames[:], b, k) }

// A Job is the durable record of one tools/call and what became of it.
type Job struct {
	Handle Handle `json:"handle"`
	Account
	Tool        string    `json:"tool"`
	Class       Class     `json:"class"`
	Unannotated bool      `json:"unannotated,omitempty"` // the tool has no annotation at all
	Destructive bool      `json:"destructive,omitempty"` // destructiveHint: true was set
	Guard       Guard     `json:"guard,omitempty"`
	Store       StoreMode `json:"store,omitempty"`
	Directory   string    `json:"directory,omitempty"` // the bridge's working directory at the call

	Fingerprint Print  `json:"fingerprint"`
	ToolPrint   Print  `json:"toolPrint"`
	KeyPrint    Print  `json:"keyPrint,omitzero"`   // of the idempotency key, if there is one
	KeyOf       Handle `json:"keyOf,omitempty"`     // the bridge made the key, from this handle
	SealedKey   []byte `json:"sealedKey,omitempty"` // the host's key

	State      State    `json:"state"`
	Version    uint64   `json:"version"` // counts changes of state
	Effect     Effect   `json:"effect"`
	Evidence   Evidence `json:"evidence"`
	EndedBy    string   `json:"endedBy,omitempty"` // host, bridge, upstream or network
	Resolution string   `json:"resolution,omitempty"`
	Conflict   bool     `json:"conflict,omitempty"` // later evidence contradicts what it settled as

	Owner     string `json:"owner"`            // the process that may finish it
	Waiter    string `json:"waiter,omitempty"` // the process in which a host waits for its answer
	HandleOut bool   `json:"handleOut,omitempty"`
	Told      bool   `json:"told,omitempty"`      // a host has its end
	Read      bool   `json:"read,omitempty"`      // its end was read by handle
	Warned    bool   `json:"warned,omitempty"`    // a repeat after the guard's window said so
	PutToUser bool   `json:"putToUser,omitempty"` // a person was asked what became of it

	// ToldEnds are the ends that hosts were told while the job had none, by where
	// they were told: what is an end there stays one. See Journal.TellEnd.
	ToldEnds map[string]string `json:"toldEnds,omitempty"`

	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	ChangedAt time.Time `json:"changedAt"`        // when it entered its state
	EndedAt   time.Time `json:"endedAt,omitzero"` // when it was settled

	Deliveries   int        `json:"deliveries,omitempty"`
	Timeline     []Event    `json:"timeline,omitempty"`
	Progress     *Progress  `json:"progress,omitempty"`
	Questions    []Question `json:"questions,omitempty"`
	UpstreamTask string     `json:"upstreamTask,omitempty"`
	SealedResume []byte     `json:"sealedResume,omitempty"` // see Resumption
	Round        Print      `json:"round,omitzero"`         // digest of the requestState given out
	Rounds       int        `json:"rounds,omitempty"`
	UsedRounds   []Print    `json:"usedRounds,omitempty"` // digests that Round was before, oldest first

	Arguments  Body `json:"arguments"`
	Result     Body `json:"result"`
	ResultKind Kind `json:"resultKind,omitempty"`

	Supersedes   Handle `json:"supersedes,omitempty"`
	SupersededBy Handle `json:"supersededBy,omitempty"`
}

// An Event is one line of a job's timeline: what was observed, for reading,
// never for deciding.
type Event struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
	Note string    `json:"note,omitempty"`
}

// Progress is the last that upstream said of how far it is.
type Progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"`
	Message  string  `json:"message,omitempty"`
}

// A Question is one that upstream asks the host, kept until it is answered.
type Question struct {
	ID      string          `json:"id"`
	Request json.RawMessage `json:"request"`
	AskedAt time.Time       `json:"askedAt"`
}

// A Resumption is what reopens a legacy stream. It is kept sealed, like a
// token, and not part of a Job's JSON in clear.
type Resumption struct {
	Session  string `json:"session"`
	EventID  string `json:"eventId"`
	Protocol string `json:"protocol"`
}

const (
	maxTimeline  = 40 // events kept of one job: the first few and the last
	firstEvents  = 8
	maxNote      = 300 // bytes of one event's note
	maxQuestions = 16  // open questions of one job
	maxUsed      = 32  // rounds of one job that are known again
	maxMessage   = 500 // bytes of a progress message
)

// observe adds to the timeline.
func (j *Job) observe(at time.Time, what, note string) {
	j.Timeline = append(j.Timeline, Event{At: at, What: what, Note: clip(note, maxNote)})
	if len(j.Timeline) > maxTimeline {
		j.Timeline = slices.Delete(j.Timeline, firstEvents, firstEvents+1)
	}
}

// seen reports whether a host or a reader has the job's end.
func (j *Job) seen() bool { return j.Told || j.Read }

// live reports whether the job may still need somebody: it is open or unknown,
// or nobody has its end.
func (j *Job) live() bool { return !j.State.Settled() || !j.seen() }

// clip cuts text at a limit without breaking a character.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && s[limit]&0xC0 == 0x80 {
		limit--
	}
	return s[:limit]
}

// A Summary is the job as JSON for hosts and programs: no content, no prints,
// nothing sealed.
type Summary struct {
	Handle       Handle    `json:"handle"`
	Tool         string    `json:"tool"`
	Server       string    `json:"server"`
	State        State     `json:"state"`
	Effect       Effect    `json:"effect"`
	Evidence     Evidence  `json:"evidence"`
	EndedBy      string    `json:"endedBy,omitempty"`
	Deliveries   int       `json:"deliveries"`
	Deduplicated bool      `json:"deduplicated"`
	Conflict     bool      `json:"conflict"`
	CreatedAt    time.Time `json:"createdAt"`
	UpdatedAt    time.Time `json:"updatedAt"`
	ExpiresAt    time.Time `json:"expiresAt"`
	Progress     *Progress `json:"progress,omitempty"`
	Supersedes   Handle    `json:"supersedes,omitempty"`
	SupersededBy Handle    `json:"supersededBy,omitempty"`
}

// Summary returns the part of j that everybody may see.
func (j *Job) Summary() Summary {
	return Summary{
		Handle: j.Handle, Tool: j.Tool, Server: j.Server,
		State: j.State, Effect: j.Effect, Evidence: j.Evidence, EndedBy: j.EndedBy,
		Deliveries: j.Deliveries, Conflict: j.Conflict,
		CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt, ExpiresAt: j.ExpiresAt(),
		Progress: j.Progress, Supersedes: j.Supersedes, SupersededBy: j.SupersededBy,
	}
}
