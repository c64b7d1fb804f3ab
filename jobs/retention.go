package jobs

import "time"

const (
	// RecordLife is how long a record stays after its last change.
	RecordLife = 30 * 24 * time.Hour
	// ResultLife is how long a result stays whose handle was given out, or
	// that nobody was told.
	ResultLife = 7 * 24 * time.Hour
	// KeyedLife is how long a result of a call with an idempotency key stays.
	KeyedLife = 24 * time.Hour
	// openLife is after how much silence an open job is looked at whether it
	// still has an owner.
	openLife = RecordLife + 2*openStep
	openStep = 24 * time.Hour // the index of open jobs is that coarse
	// ordinaryLife is how long after its creation an ordinary job changes for the
	// last time. Its record goes by its creation and needs no row of its own for
	// that: each row is a page to write in the turn that the host waits for.
	ordinaryLife = time.Hour
)

// ExpiresAt is when the record goes.
func (j *Job) ExpiresAt() time.Time { return j.UpdatedAt.Add(RecordLife) }

// resultUntil is when the kept result is to be wiped; in the past means now.
func (j *Job) resultUntil() time.Time {
	switch {
	case j.Store == StoreFull:
		return j.ExpiresAt()
	case j.Store == StoreNone && j.seen():
		return time.Time{}
	case j.HandleOut, !j.seen():
		return j.EndedAt.Add(ResultLife)
	case !j.KeyPrint.IsZero():
		return j.EndedAt.Add(KeyedLife)
	}
	return time.Time{}
}

// keepsArguments reports whether the arguments are still needed.
func (j *Job) keepsArguments() bool {
	switch j.Store {
	case StoreFull:
		return true
	case StoreNone:
		return false
	}
	return !j.State.Settled()
}

// lasting reports whether the job changed later than an ordinary one, or, by a
// clock that was set back, before it was created: then its creation says nothing.
func (j *Job) lasting() bool {
	after := j.UpdatedAt.Sub(j.CreatedAt)
	return after < 0 || after >= ordinaryLife
}

// due is the next time at which something of the job is to be wiped or the
// record to be removed; ok is false if only the latter is left and follows from
// its creation.
func (j *Job) due() (at time.Time, ok bool) {
	switch {
	case j.State.Settled() && j.Result.Kept && j.resultUntil().Before(j.ExpiresAt()):
		return j.resultUntil(), true
	case !j.lasting():
		return time.Time{}, false
	case !j.State.Settled() && j.State != OutcomeUnknown:
		return j.UpdatedAt.Truncate(openStep).Add(openLife), true
	}
	return j.ExpiresAt(), true
}
