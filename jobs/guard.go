package jobs

import "time"

const (
	// GuardWindow is how long a job holds repeats of its call back.
	GuardWindow = 24 * time.Hour
	// UnannotatedWindow is the same for an unknown outcome of a tool without
	// any annotation.
	UnannotatedWindow = 10 * time.Minute
)

// A Hold says why a call is not sent but answered from an earlier job.
type Hold uint8

const (
	NotHeld   Hold = iota
	StillRun       // it still runs: answer its handle
	Unknown        // its outcome is unknown: answer its handle
	KeptEnd        // it ended and nobody has the end: answer that, once
	Joined         // it runs under the same idempotency key: wait for it
	KeyedEnd       // it ended under the same idempotency key: answer that
	Contested      // another process waits for it: ask again soon, its host may be gone
	UsedRound      // this round of it came before: answer what comes of it (see NextRound)
)

var holdNames = [...]string{NotHeld: "not_held", StillRun: "still_running", Unknown: "outcome_unknown",
	KeptEnd: "kept_end", Joined: "joined", KeyedEnd: "keyed_end", Contested: "contested",
	UsedRound: "used_round"}

func (h Hold) String() string { return name(holdNames[:], h) }

// A repeat is what the guard has to know of a call and of the moment it comes.
type repeat struct {
	class  Class
	window time.Duration // for unknown outcomes of annotated tools
	waited bool          // a living process has a host that waits for the earlier job
	lost   bool          // the earlier job's owner is gone
	at     time.Time     // the latest time certain to have come
}

// holds decides whether an earlier job of the same print holds a repeat back.
// expired says that it would have, but for its window.
//
// It holds when nobody waits for that job any more and no host has seen its
// end. Two equal calls whose callers both still wait are two calls.
func (j *Job) holds(r repeat) (hold Hold, expired bool) {
	if !r.class.Effective() {
		if j.State == Working && j.HandleOut && !r.lost {
			return StillRun, false
		}
		return NotHeld, false
	}
	switch j.State {
	case Working, InputRequired:
		if j.HandleOut || !r.waited || r.lost {
			return StillRun, false
		}
	case OutcomeUnknown:
		if r.waited && !j.HandleOut {
			return NotHeld, false
		}
		return within(Unknown, j.ChangedAt, unknownWindow(j, r.window), r.at)
	case Completed, Failed:
		if j.seen() || r.waited || j.State == Failed && j.Effect == None || j.Evidence == InputExpired {
			return NotHeld, false
		}
		return within(KeptEnd, j.EndedAt, GuardWindow, r.at)
	}
	return NotHeld, false
}

// contests reports whether a job that does not hold a repeat back would, if the
// host that waits for it in another process were gone. It takes a process a
// moment to notice that.
func (j *Job) contests(r repeat) bool {
	if !r.class.Effective() || !r.waited {
		return false
	}
	r.waited = false
	hold, _ := j.holds(r)
	return hold != NotHeld
}

func unknownWindow(j *Job, window time.Duration) time.Duration {
	if j.Unannotated {
		return min(window, UnannotatedWindow)
	}
	return window
}

// within gives the hold while the window is open. A beginning in the future (a
// clock was wrong) keeps it open.
func within(hold Hold, since time.Time, window time.Duration, at time.Time) (Hold, bool) {
	if at.Sub(since) <= window {
		return hold, false
	}
	return NotHeld, true
}

// keyed decides what a job means for another call with its idempotency key and
// the same arguments.
func (j *Job) keyed() Hold {
	switch j.State {
	case Working, InputRequired:
		return Joined
	case OutcomeUnknown:
		return Unknown
	case Failed:
		if j.Effect == None {
			return NotHeld
		}
	}
	return KeyedEnd
}
