package wire

import "time"

const (
	// keptRest is how long a connection must have rested to prove, by being
	// alive, that the server keeps connections at all. One that does not closes
	// them right behind its answer, and on a busy machine that is seen late.
	keptRest = 100 * time.Millisecond
	// lifespanMemory is how long an early end counts. A server that restarts
	// looks like one that does not let connections rest.
	lifespanMemory = 10 * time.Minute
)

// A lifespan is what was learnt of how long the server lets an HTTP/1.1
// connection rest before it closes it. A write must not meet that moment:
// whether it was executed could not be known.
type lifespan struct {
	most time.Duration // how long a connection is trusted at best

	longest  time.Duration // the rest after which one was alive
	shortest time.Duration // the rest after which one was closed, below most
	noticed  time.Time     // when such an end was last seen; zero: never
}

// outlived notes that a connection is alive after a rest.
func (l *lifespan) outlived(rest time.Duration) { l.longest = max(l.longest, rest) }

// unknown reports whether nothing was seen, or nothing that still counts, that
// says whether the server keeps connections.
func (l *lifespan) unknown(now time.Time) bool { return l.longest < keptRest && !l.remembers(now) }

// ended notes that the server closed a connection after a rest.
func (l *lifespan) ended(rest time.Duration, now time.Time) {
	if rest >= l.most {
		return
	}
	if !l.remembers(now) {
		l.shortest = rest
	}
	l.shortest, l.noticed = max(0, min(rest, l.shortest)), now
}

func (l *lifespan) remembers(now time.Time) bool {
	return !l.noticed.IsZero() && rest(l.noticed, now) < lifespanMemory
}

// trusted returns below which rest a connection may carry a write: half of what
// one has outlived, so that the server's limit is met by none before it is known,
// and half of the rest after which one was closed.
func (l *lifespan) trusted(now time.Time) time.Duration {
	if l.longest < keptRest {
		return 0
	}
	limit := min(l.most, l.longest/2)
	if !l.remembers(now) {
		return limit
	}
	if l.shortest/2 < keptRest {
		return 0
	}
	return min(limit, l.shortest/2)
}
