package bridge

import (
	"slices"
	"sync"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// standing keeps what a new session has to be told again: the log level and
// each resource subscription.
type standing struct {
	mu       sync.Mutex
	requests map[string][]standingRequest // by profile key
}

// A standingRequest is one request whose effect a session holds.
type standingRequest struct {
	what string
	msg  *jsonrpc.Message
}

// remember takes note of d if a new session would need it as well.
func (s *standing) remember(d *delivery) {
	what := d.method
	switch d.method {
	case "logging/setLevel":
	case "resources/subscribe", "resources/unsubscribe":
		what = string(d.msg.Field(jsonrpc.URI))
	default:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(s.requests[d.profile.key], func(r standingRequest) bool { return r.what == what })
	if d.method != "resources/unsubscribe" {
		list = append(list, standingRequest{what, d.msg})
	}
	if s.requests == nil {
		s.requests = map[string][]standingRequest{}
	}
	s.requests[d.profile.key] = list
}

// of lists what a session of p has to be told.
func (s *standing) of(p *profile) []standingRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests[p.key])
}
