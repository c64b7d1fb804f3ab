package bridge

import (
	"context"
	"sync"
)

// sleepers are the streams that wait for notices and may be dead after the
// machine slept, though no packet has said so.
type sleepers struct {
	mu   sync.Mutex
	open map[*context.CancelFunc]bool
}

// untilWake returns a context for such a stream: it ends when the machine has
// slept, and the stream's owner then opens a new one.
func (s *sleepers) untilWake(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*context.CancelFunc]bool{}
	}
	s.open[&cancel] = true
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, &cancel)
	}
}

// woke ends the streams that were open before the sleep.
func (s *sleepers) woke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cancel := range s.open {
		(*cancel)()
	}
}
