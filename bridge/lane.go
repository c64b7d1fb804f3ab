package bridge

import "sync"

// A lane does errands that nobody waits for: a few at a time, begun in the order
// in which they came, and no more of them than there is room for.
type lane struct {
	most int                // under way at once
	room int                // that wait for their turn
	full func(turned int64) // told how many found no room, at 1, 2, 4, 8 ...

	mu      sync.Mutex
	waiting []func()
	running int
	turned  int64
	closed  bool
	work    sync.WaitGroup
}

func newLane(most, room int, full func(turned int64)) *lane {
	return &lane{most: most, room: room, full: full}
}

// do has f done, at once or in its turn. False means that it will not be: there
// is no room, or the lane is closed.
func (l *lane) do(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return false
	case l.running < l.most:
		l.running++
		l.work.Go(func() { l.run(f) })
	case len(l.waiting) >= l.room:
		if l.turned++; isNews(l.turned) {
			l.full(l.turned)
		}
		return false
	default:
		l.waiting = append(l.waiting, f)
	}
	return true
}

// run does f and what waits after it.
func (l *lane) run(f func()) {
	for f != nil {
		f()
		f = l.next()
	}
}

func (l *lane) next() (f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.running--
		return nil
	}
	f, l.waiting[0] = l.waiting[0], nil
	l.waiting = l.waiting[1:]
	return f
}

// close takes no more errands and forgets those that wait.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.waiting = true, nil
}

// wait returns when the errands under way are done; it is for after close.
func (l *lane) wait() { l.work.Wait() }

// isNews reports whether the n-th of many equal events is worth a line in the
// log: 1, 2, 4, 8 ...
func isNews(n int64) bool { return n&(n-1) == 0 }

// A quota bounds what is open at once of one kind, in one place.
type quota struct {
	mu     sync.Mutex
	open   int
	turned int64
}

// take opens one more, unless most are open already: turned then counts those
// that were turned away, and is 0 otherwise. What was opened is closed by give.
func (q *quota) take(most int) (turned int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open >= most {
		q.turned++
		return q.turned
	}
	q.open++
	return 0
}

func (q *quota) give() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open--
}
