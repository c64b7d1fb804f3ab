package bridgetest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// state is what all replicas share.
type state struct {
	mu       sync.Mutex
	tools    []Tool
	sessions map[string]*session
	listens  map[*listen]struct{}
	items    map[string]string
	exports  map[string]export
	once     map[string]string // idempotency key -> answer
	tasks    map[string]*task
	streams  int
	refusal  int           // status for an unknown session
	readers  chan struct{} // closed and replaced when a long stream gets or loses its reader
}

// An export is a long piece of work that a status tool can ask about.
type export struct {
	begun time.Time
	takes time.Duration
}

func (s *state) init(o *Options) {
	s.tools = normal(o.Tools)
	if o.Tools == nil {
		s.tools = DefaultTools()
	}
	if o.Tasks {
		s.tools = append(s.tools, normal(taskTools())...)
	}
	s.sessions = map[string]*session{}
	s.listens = map[*listen]struct{}{}
	s.items = map[string]string{"alpha": "first item", "beta": "second item"}
	s.exports = map[string]export{}
	s.once = map[string]string{}
	s.tasks = map[string]*task{}
	s.refusal = http.StatusNotFound
	s.readers = make(chan struct{})
}

// normal returns the tools with what they left out.
func normal(tools []Tool) []Tool {
	out := slices.Clone(tools)
	for i := range out {
		out[i] = out[i].normal()
	}
	return out
}

func (s *state) streamID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams++
	return "s" + strconv.Itoa(s.streams)
}

func (s *state) tool(name string) (Tool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tools {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

// listed returns the definitions of the tools that the revision can have.
func (s *state) listed(version string) []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []json.RawMessage{}
	for _, t := range s.tools {
		if !t.ModernOnly || version >= modernVersion {
			out = append(out, t.definition(version))
		}
	}
	return out
}

func (s *state) refuseUnknown(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = status
}

func (s *state) unknownStatus() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal
}

func (s *state) add(version string, caps member) *session {
	n := &session{
		id: rand.Text(), version: version, caps: caps, least: "debug",
		pending: map[string]chan message{}, streams: map[string]*stream{},
		inFlight: map[string]*Call{}, subscribed: map[string]bool{},
	}
	n.get = newStream(s.streamID())
	n.streams[n.get.id] = n.get
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[n.id] = n
	return n
}

func (s *state) session(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

func (s *state) allSessions() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*session, 0, len(s.sessions))
	for _, n := range s.sessions {
		out = append(out, n)
	}
	return out
}

func (s *state) allListens() []*listen {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*listen, 0, len(s.listens))
	for l := range s.listens {
		out = append(out, l)
	}
	return out
}

// forget ends one session.
func (s *state) forget(n *session) {
	s.mu.Lock()
	delete(s.sessions, n.id)
	s.mu.Unlock()
	n.end()
}

func (s *state) forgetSessions() {
	for _, n := range s.allSessions() {
		s.forget(n)
	}
}

func (s *state) dropStreams() {
	for _, n := range s.allSessions() {
		n.get.drop()
	}
	for _, l := range s.allListens() {
		l.out.drop()
	}
}

// Sessions says how many legacy sessions are open.
func (u *Upstream) Sessions() int { return len(u.state.allSessions()) }

// Listeners says how many GET, HTTP+SSE and subscriptions/listen streams have a
// client on them.
func (u *Upstream) Listeners() int {
	n := 0
	for _, s := range u.state.allSessions() {
		if s.get.read() {
			n++
		}
	}
	return n + len(u.state.allListens())
}

func (s *stream) read() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reader != nil
}

// WaitListeners waits until at least n streams (as by Listeners) have a client.
func (u *Upstream) WaitListeners(ctx context.Context, n int) error {
	for {
		changed := u.state.change()
		if u.Listeners() >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d listeners: %w", n, context.Cause(ctx))
		}
	}
}

// change returns a channel that is closed when a stream gets or loses a reader.
func (s *state) change() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readers
}

func (s *state) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.readers)
	s.readers = make(chan struct{})
}
