package bridgetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	maxEntries   = 1 << 16 // requests kept; older ones are dropped, counts stay
	maxEffects   = 1 << 16 // effects kept
	maxBodyKept  = 16 << 10
	maxBodyTotal = 64 << 20 // request bodies kept in all
)

// A Mark is a step that one request reached.
type Mark string

const (
	MarkReceived Mark = "received" // the head of the request was read
	MarkBody     Mark = "body"     // the whole body was read
	MarkEffect   Mark = "effect"   // the tool did what it does
	MarkReply    Mark = "reply"    // the whole reply was written
	MarkClosed   Mark = "closed"   // the client left before that
	MarkFault    Mark = "fault"    // a fault was injected; Event.Detail names it
)

// An Event is a Mark with the time at which it was reached.
type Event struct {
	Mark   Mark      `json:"mark"`
	Detail string    `json:"detail,omitempty"`
	At     time.Time `json:"at"`
}

// An Entry is one HTTP request that arrived at an MCP endpoint.
type Entry struct {
	Seq     int             `json:"seq"` // from 1
	Replica int             `json:"replica"`
	Conn    int             `json:"conn"` // number of the TCP connection, from 1
	Proto   string          `json:"proto"`
	HTTP    string          `json:"http"` // HTTP method
	Path    string          `json:"path"`
	Header  http.Header     `json:"header"`
	Method  string          `json:"method,omitempty"` // JSON-RPC method; "" for a response and on GET, DELETE
	ID      json.RawMessage `json:"id,omitempty"`     // JSON-RPC id as sent
	Tool    string          `json:"tool,omitempty"`
	Session string          `json:"session,omitempty"`
	Body    string          `json:"body,omitempty"` // up to 16 KiB
	Status  int             `json:"status,omitempty"`
	Events  []Event         `json:"events"`
}

// Has reports whether the request reached the mark.
func (e Entry) Has(m Mark) bool {
	for _, ev := range e.Events {
		if ev.Mark == m {
			return true
		}
	}
	return false
}

// An Effect is one thing that a tool did.
type Effect struct {
	Seq     int       `json:"seq"`
	Entry   int       `json:"entry"` // Seq of the request that caused it
	Replica int       `json:"replica"`
	Tool    string    `json:"tool"`
	Key     string    `json:"key"`
	At      time.Time `json:"at"`
}

// A Ledger records every request that arrived and every effect it had. It is
// the ground truth for "was it executed, and how often". All methods are safe
// for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	v       View
}

// A View is a ledger at one moment. It is valid only inside the function that
// was given it.
type View struct {
	entries    []Entry
	effects    []Effect
	dropped    int // entries no longer kept
	lastEffect int
	bodies     int
	deliveries map[string]int
	counts     map[effectKey]int
	perTool    map[string]int
}

type effectKey struct{ tool, key string }

func newLedger() *Ledger {
	l := &Ledger{changed: make(chan struct{})}
	l.v.reset()
	return l
}

func (v *View) reset() {
	v.entries, v.effects, v.bodies = nil, nil, 0
	v.deliveries = map[string]int{}
	v.counts = map[effectKey]int{}
	v.perTool = map[string]int{}
}

// Deliveries says how many tools/call requests for the tool were read whole.
func (v *View) Deliveries(tool string) int { return v.deliveries[tool] }

// Effects says how often the tool had its effect.
func (v *View) Effects(tool string) int { return v.perTool[tool] }

// EffectsOf says how often the tool had its effect under the key.
func (v *View) EffectsOf(tool, key string) int { return v.counts[effectKey{tool, key}] }

// Requests returns the requests with the JSON-RPC method, oldest first.
func (v *View) Requests(method string) []Entry {
	return v.filter(func(e *Entry) bool { return e.Method == method })
}

// HTTP returns the requests with the HTTP method, oldest first.
func (v *View) HTTP(method string) []Entry {
	return v.filter(func(e *Entry) bool { return e.HTTP == method })
}

// Entries returns all requests, oldest first.
func (v *View) Entries() []Entry { return v.filter(func(*Entry) bool { return true }) }

// AllEffects returns all effects, oldest first.
func (v *View) AllEffects() []Effect { return append([]Effect(nil), v.effects...) }

func (v *View) filter(keep func(*Entry) bool) []Entry {
	var out []Entry
	for i := range v.entries {
		if keep(&v.entries[i]) {
			e := v.entries[i]
			e.Events = append([]Event(nil), e.Events...)
			out = append(out, e)
		}
	}
	return out
}

func (v *View) entry(seq int) *Entry {
	i := seq - 1 - v.dropped
	if i < 0 || i >= len(v.entries) {
		return nil
	}
	return &v.entries[i]
}

// Deliveries says how many tools/call requests for the tool were read whole.
func (l *Ledger) Deliveries(tool string) int {
	return see(l, func(v *View) int { return v.Deliveries(tool) })
}

// Effects says how often the tool had its effect.
func (l *Ledger) Effects(tool string) int {
	return see(l, func(v *View) int { return v.Effects(tool) })
}

// EffectsOf says how often the tool had its effect under the key.
func (l *Ledger) EffectsOf(tool, key string) int {
	return see(l, func(v *View) int { return v.EffectsOf(tool, key) })
}

// Requests returns the requests with the JSON-RPC method, oldest first.
func (l *Ledger) Requests(method string) []Entry {
	return see(l, func(v *View) []Entry { return v.Requests(method) })
}

// HTTP returns the requests with the HTTP method, oldest first.
func (l *Ledger) HTTP(method string) []Entry {
	return see(l, func(v *View) []Entry { return v.HTTP(method) })
}

// Entries returns all requests, oldest first.
func (l *Ledger) Entries() []Entry { return see(l, (*View).Entries) }

// AllEffects returns all effects, oldest first.
func (l *Ledger) AllEffects() []Effect { return see(l, (*View).AllEffects) }

func see[T any](l *Ledger, f func(*View) T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f(&l.v)
}

// Wait returns when ok holds of the ledger, or with the cause of ctx. It looks
// again at every change. ok must not call methods of the Ledger itself.
func (l *Ledger) Wait(ctx context.Context, ok func(*View) bool) error {
	for {
		l.mu.Lock()
		done, changed := ok(&l.v), l.changed
		l.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the ledger: %w", context.Cause(ctx))
		}
	}
}

// Reset forgets all requests and effects. Requests still under way leave no
// further marks.
func (l *Ledger) Reset() {
	l.change(func(v *View) {
		v.dropped += len(v.entries)
		v.reset()
	})
}

// MarshalJSON writes {"entries":[...],"effects":[...],"deliveries":{tool:n},"executed":{tool:n}}.
func (l *Ledger) MarshalJSON() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return json.Marshal(struct {
		Entries    []Entry        `json:"entries"`
		Effects    []Effect       `json:"effects"`
		Deliveries map[string]int `json:"deliveries"`
		Executed   map[string]int `json:"executed"`
	}{nonNil(l.v.entries), nonNil(l.v.effects), l.v.deliveries, l.v.perTool})
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func (l *Ledger) change(f func(*View)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.v)
	close(l.changed)
	l.changed = make(chan struct{})
}

// open adds a request and returns its number.
func (l *Ledger) open(e Entry) int {
	l.change(func(v *View) {
		e.Seq = v.dropped + len(v.entries) + 1
		e.Events = []Event{{Mark: MarkReceived, At: time.Now()}}
		v.entries = append(v.entries, e)
		if len(v.entries) > maxEntries {
			v.dropped += maxEntries / 4
			v.entries = append([]Entry(nil), v.entries[maxEntries/4:]...)
		}
	})
	return e.Seq
}

// body notes that the request was read whole, and what it was.
func (l *Ledger) body(seq int, m message, tool string, raw []byte) {
	l.change(func(v *View) {
		if m.Method == "tools/call" {
			v.deliveries[tool]++
		}
		e := v.entry(seq)
		if e == nil {
			return
		}
		e.Method, e.ID, e.Tool = m.Method, m.ID, tool
		if n := min(len(raw), maxBodyKept); v.bodies+n <= maxBodyTotal {
			e.Body = string(raw[:n])
			v.bodies += n
		}
		e.Events = append(e.Events, Event{Mark: MarkBody, At: time.Now()})
	})
}

func (l *Ledger) mark(seq int, m Mark, detail string) {
	l.update(seq, func(e *Entry) { e.Events = append(e.Events, Event{m, detail, time.Now()}) })
}

func (l *Ledger) update(seq int, f func(*Entry)) {
	l.change(func(v *View) {
		if e := v.entry(seq); e != nil {
			f(e)
		}
	})
}

// effect notes that a tool did what it does.
func (l *Ledger) effect(seq, replica int, tool, key string) {
	l.change(func(v *View) {
		now := time.Now()
		v.perTool[tool]++
		v.counts[effectKey{tool, key}]++
		v.lastEffect++
		v.effects = append(v.effects, Effect{v.lastEffect, seq, replica, tool, key, now})
		if len(v.effects) > maxEffects {
			v.effects = append([]Effect(nil), v.effects[maxEffects/4:]...)
		}
		if e := v.entry(seq); e != nil {
			e.Events = append(e.Events, Event{MarkEffect, key, now})
		}
	})
}
