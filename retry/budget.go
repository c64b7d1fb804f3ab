package retry

import (
	"sync"
	"time"
)

const (
	budgetWindow = 60 // seconds
	budgetFloor  = 10 // retries in a window that are always allowed
	budgetShare  = 5  // beyond, one retry for so many first deliveries
)

// A Budget bounds the retries toward one server over a sliding minute, so that
// a server in trouble is not given several times its load. The zero Budget is
// ready; a nil one allows nothing. It may be used concurrently.
type Budget struct {
	mu     sync.Mutex
	start  time.Time // when the budget was first used
	latest int64     // second since then; time does not run backwards here
	slots  [budgetWindow]slot
}

// A slot counts what happened in one second.
type slot struct {
	second         int64
	first, retries int
}

// First counts the first delivery of an exchange.
func (b *Budget) First(now time.Time) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slotLocked(now).first++
}

// Take counts a further delivery if the budget has room for it, and reports
// whether it has.
func (b *Budget) Take(now time.Time) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	current := b.slotLocked(now)
	first, retries := b.sumLocked()
	if retries >= max(budgetFloor, first/budgetShare) {
		return false
	}
	current.retries++
	return true
}

// slotLocked returns the slot of the second of now, by the monotonic clock where
// now has one: a wall clock that was ahead and is set right would otherwise fill
// a minute that does not come.
func (b *Budget) slotLocked(now time.Time) *slot {
	if b.start.IsZero() {
		b.start = now
	}
	b.latest = max(b.latest, int64(now.Sub(b.start)/time.Second))
	s := &b.slots[b.latest%budgetWindow]
	if s.second != b.latest {
		*s = slot{second: b.latest}
	}
	return s
}

// sumLocked counts what happened in the window that ends now.
func (b *Budget) sumLocked() (first, retries int) {
	for i := range b.slots {
		if s := &b.slots[i]; s.second > b.latest-budgetWindow {
			first += s.first
			retries += s.retries
		}
	}
	return first, retries
}
