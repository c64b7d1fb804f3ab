package bridgetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

const maxSessionStreams = 200 // of finished requests, kept for resumption

// A session is one legacy client from initialize on.
type session struct {
	id      string
	version string
	get     *stream // messages that belong to no request

	mu         sync.Mutex
	caps       member
	ready      bool // notifications/initialized was handled
	least      string
	asked      int
	pending    map[string]chan message // questions by id
	streams    map[string]*stream
	order      []string
	inFlight   map[string]*Call
	subscribed map[string]bool
}

func (s *session) initialized() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
}

func (s *session) isReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

func (s *session) capabilities() member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caps
}

func (s *session) setCapabilities(caps member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caps = caps
}

func (s *session) level() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.least
}

func (s *session) setLevel(l string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.least = l
}

func (s *session) subscribe(uri string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.subscribed[uri] = true
	} else {
		delete(s.subscribed, uri)
	}
}

func (s *session) wants(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscribed[uri]
}

// keep remembers a stream so that it can be resumed.
func (s *session) keep(n *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[n.id] = n
	s.order = append(s.order, n.id)
	if len(s.order) > maxSessionStreams {
		delete(s.streams, s.order[0])
		s.order = s.order[1:]
	}
}

// forget forgets a stream that nobody can resume.
func (s *session) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, id)
	s.order = slices.DeleteFunc(s.order, func(o string) bool { return o == id })
}

func (s *session) stream(id string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[id]
}

// ask sends a question on the stream of the call and waits for the answer.
func (s *session) ask(c *Call, method string, params any) (json.RawMessage, error) {
	s.mu.Lock()
	s.asked++
	id := "ask-" + strconv.Itoa(s.asked)
	answer := make(chan message, 1)
	s.pending[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.pending, id)
		s.mu.Unlock()
	}()
	c.out.push(item{data: encodeRequest(id, method, params), named: "message"})
	select {
	case m := <-answer:
		if m.Error != nil {
			return nil, fmt.Errorf("client answered %s with an error: %s", method, m.Error)
		}
		return m.Result, nil
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
}

// take hands an answer to the question it belongs to.
func (s *session) take(m message) {
	var id string
	_ = json.Unmarshal(m.ID, &id) // no string: no question of ours
	s.mu.Lock()
	answer := s.pending[id]
	delete(s.pending, id)
	s.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

func (s *session) track(c *Call, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.inFlight[string(c.id)] = c
	} else if s.inFlight[string(c.id)] == c {
		delete(s.inFlight, string(c.id))
	}
}

// cancel ends the call with the id; unknown ids are ignored.
func (s *session) cancel(id json.RawMessage) {
	s.mu.Lock()
	c := s.inFlight[string(id)]
	s.mu.Unlock()
	if c != nil {
		c.cancel(errCancelled)
	}
}

// end ends the session's streams; they cannot be resumed.
func (s *session) end() {
	s.mu.Lock()
	streams := make([]*stream, 0, len(s.streams))
	for _, n := range s.streams {
		streams = append(streams, n)
	}
	s.mu.Unlock()
	for _, n := range streams {
		n.lose()
	}
}
