package jobs

import (
	"errors"
	"fmt"
	"time"
)

// Sentinels for a caller that branches. The journal's own trouble is a
// *store.UnavailableError.
var (
	ErrNotFound    = errors.New("no such job")
	ErrAmbiguous   = errors.New("more than one job")
	ErrKeyConflict = errors.New("idempotency key was used with other arguments")
	ErrNoArguments = errors.New("arguments were not kept")
	ErrNoResult    = errors.New("result is not kept")
	ErrNotUnknown  = errors.New("the outcome is not unknown")
	ErrNeedsPerson = errors.New("a person has to agree")
	ErrNeedsWhy    = errors.New("a reason is needed")
	ErrNoSuchRound = errors.New("no job waits for this input")
	ErrRoundUsed   = errors.New("this input was given before")
	ErrNoQuestion  = errors.New("no such question")
	ErrNotLost     = errors.New("its owner is not gone")
	ErrTooMany     = errors.New("too many")
)

// A NotFoundError says that no job has the handle, and since when the journal
// cannot know: not found does not mean not done.
type NotFoundError struct {
	Handle   Handle
	SetAside time.Time // when a damaged journal was last set aside; zero if never
}

func (e *NotFoundError) Error() string {
	s := fmt.Sprintf("job %s: %v", e.Handle, ErrNotFound)
	if !e.SetAside.IsZero() {
		s += fmt.Sprintf(" (a damaged journal was set aside at %s; older jobs are in it)", e.SetAside.Format(time.RFC3339))
	}
	return s
}

func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }
