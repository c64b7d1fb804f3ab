package jobs

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A State is where a job stands. The zero value claims nothing.
type State uint8

const (
	// OutcomeUnknown: it was, or may have been, delivered, and nobody saw its
	// end. Evidence, a person or a model moves it out.
	OutcomeUnknown State = iota
	// Working: a delivery is open, or upstream works on its task.
	Working
	// InputRequired: upstream waits for an answer from the host.
	InputRequired
	// Completed: a tool result came, one with isError included, or somebody
	// said that it happened. Settled.
	Completed
	// Failed: a JSON-RPC error came, or it was proven or said not to have
	// happened; the effect says which. Settled.
	Failed
	// Cancelled: upstream's task said so. Settled.
	Cancelled
)

var stateNames = [...]string{
	OutcomeUnknown: "outcome_unknown",
	Working:        "working",
	InputRequired:  "input_required",
	Completed:      "completed",
	Failed:         "failed",
	Cancelled:      "cancelled",
}

func (s State) String() string               { return name(stateNames[:], s) }
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
func (s *State) UnmarshalText(b []byte) error {
	return parse(stateNames[:], b, s)
}

// Settled reports whether nothing moves a job out of s any more.
func (s State) Settled() bool { return s == Completed || s == Failed || s == Cancelled }

// moves lists every legal change of state; a state without an entry is settled.
var moves = map[State][]State{
	Working:        {Working, InputRequired, Completed, Failed, Cancelled, OutcomeUnknown},
	InputRequired:  {InputRequired, Working, Completed, Failed, Cancelled, OutcomeUnknown},
	OutcomeUnknown: {OutcomeUnknown, Working, Completed, Failed, Cancelled},
}

// An IllegalMoveError is a change of state that no rule allows: a mistake in
// the program.
type IllegalMoveError struct {
	Handle   Handle
	From, To State
}

func (e *IllegalMoveError) Error() string {
	return fmt.Sprintf("move job %s: no way from %s to %s", e.Handle, e.From, e.To)
}

// Errors of a compare-and-set.
var (
	// ErrSettled: the job had ended before. What came late is in its timeline.
	ErrSettled = errors.New("already settled")
	// ErrStale: the job is no longer what the caller saw. Look again.
	ErrStale = errors.New("changed meanwhile")
	// ErrNotOwner: another process owns the job. What came is in its timeline.
	ErrNotOwner = errors.New("owned by another process")
)

// Seen is what a caller last saw of a job.
type Seen struct {
	State   State
	Version uint64
}

// move is the one place where a job changes its state. It fails with ErrStale
// if the job is not what the caller saw, ErrSettled if it had ended, and
// *IllegalMoveError for what no rule allows; the job is unchanged then.
func (j *Job) move(to State, seen Seen, at time.Time) error {
	switch {
	case j.State.Settled():
		return fmt.Errorf("job %s is %s: %w", j.Handle, j.State, ErrSettled)
	case j.State != seen.State || j.Version != seen.Version:
		return fmt.Errorf("job %s is %s (version %d), not %s (version %d): %w",
			j.Handle, j.State, j.Version, seen.State, seen.Version, ErrStale)
	case !slices.Contains(moves[j.State], to):
		return &IllegalMoveError{Handle: j.Handle, From: j.State, To: to}
	}
	if j.State != to || to.Settled() {
		j.ChangedAt = at
	}
	j.State = to
	j.Version++
	j.UpdatedAt = at
	if to.Settled() {
		j.EndedAt = at
	}
	return nil
}

// Seen returns what the compare-and-set of a later change wants to know.
func (j *Job) Seen() Seen { return Seen{State: j.State, Version: j.Version} }

// name and parse spell small closed sets.
func name[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("unknown(%d)", v)
}

func parse[T ~uint8](names []string, b []byte, v *T) error {
	i := slices.Index(names, string(b))
	if i < 0 {
		return fmt.Errorf("%q is none of %q", b, names)
	}
	*v = T(i)
	return nil
}
