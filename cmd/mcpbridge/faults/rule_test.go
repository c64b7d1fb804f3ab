package faults

import (
	"slices"
)

// A class of tools, with the tool of the upstream that stands for it.
type class struct {
	name    string
	tool    string
	repeats bool // may be sent again although it may have run
	reads   bool // is known not to change anything
	writes  bool // leaves an effect in the ledger
}

func classes() []class {
	return []class{
		{name: "read", tool: "echo", repeats: true, reads: true},
		{name: "idempotent", tool: "put_item", repeats: true, writes: true},
		{name: "presumed read", tool: "get_item"},
		{name: "write", tool: "write_note", writes: true},
	}
}

// mostDeliveries is one delivery and two retries, the default.
const mostDeliveries = 3

// An expectation is what must be seen. A set of more than one holds where the
// fault itself leaves it open.
type expectation struct {
	deliveries []int // read by the server; the bridge's own count may include unread ones
	effects    []int
	told       []string
}

// expect is the table of decisions, stated from the facts of a fault.
func expect(f fault, c class, legacy bool) expectation {
	n := deliveries(f, c, legacy)
	e := expectation{deliveries: []int{n}, effects: []int{0}, told: []string{head(f, c, legacy)}}
	if c.writes {
		e.effects = []int{executions(f, n)}
	}
	if f.mends && c.repeats {
		e.deliveries, e.told = []int{2, mostDeliveries}, []string{told, unproven(c)}
		if c.writes {
			e.effects = []int{0, 1}
		}
	}
	if f.sight == atAccept {
		// It depends on the system whether the request was written before the
		// reset was seen. Either way nothing ran, and the bridge must not claim
		// more than it knows.
		e.told = append(e.told, notSent, unproven(c))
	}
	if f.unread && f.sight != broken {
		e.deliveries = []int{0}
	}
	return e
}

// proven reports whether what is seen proves that nothing ran.
func (s sight) proven() bool {
	return slices.Contains([]sight{unsent, refusal, credentials, busy, sessionLost}, s)
}

// passes reports whether the same request may well succeed a little later.
func (s sight) passes() bool {
	return slices.Contains([]sight{unsent, busy, serverError, broken, atAccept}, s)
}

// as corrects a sight that depends on the era: to a legacy session, a 404 says
// that the session is gone (2025-11-25, transports, "Session Management").
func (f fault) as(legacy bool) sight {
	if legacy && f.sight == clientError && len(f.specs) == 1 && isNotFound(f.specs[0]) {
		return sessionLost
	}
	return f.sight
}

func isNotFound(spec string) bool {
	return spec == "status:404" || spec == "status:404;retry-after=1"
}

func deliveries(f fault, c class, legacy bool) int {
	s := f.as(legacy)
	again := s.proven() || c.repeats // another delivery does no harm
	switch {
	case !again:
		return 1
	case s == sessionLost:
		return 2 // a new session, once
	case !s.passes() || f.longAsk:
		return 1 + hops(f, c)
	case f.once:
		return 2
	}
	return mostDeliveries
}

// hops is how many redirects are followed: only the first call of a group, that
// of a read, finds out where the server is now.
func hops(f fault, c class) int {
	if f.learnt && c.reads {
		return 1
	}
	return 0
}

// executions says how often the tool ran.
func executions(f fault, n int) int {
	switch {
	case f.acts:
		return n
	case f.once && n > 1:
		return 1 // the last delivery went through
	}
	return 0
}

func head(f fault, c class, legacy bool) string {
	s := f.as(legacy)
	switch {
	case s == answer, f.once && deliveries(f, c, legacy) > 1:
		return told
	case s == unsent, s == atAccept:
		return notSent
	case s == silence:
		return running // the delivery is open: that is no failure
	case s == credentials:
		return signIn
	case s == refusal, s == busy, s == sessionLost, s == clientError:
		return failed
	}
	return unproven(c)
}

// unproven is what is said of a call without an answer that may have run.
func unproven(c class) string {
	if c.reads {
		return noAnswer
	}
	return unknown
}
