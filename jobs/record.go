package jobs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
)

// GiveHandle records that the job's handle is about to be given to a host: from
// now on nobody waits for it, and it can be collected by handle. A handle that
// is not journaled is not given out.
func (j *Journal) GiveHandle(ctx context.Context, h Handle) (Job, error) {
	return j.change(ctx, h, func(t *txn, job *Job) error {
		if !job.HandleOut {
			job.HandleOut, job.Waiter, job.UpdatedAt = true, "", t.now
			if job.State == Working && job.Evidence != StatusTool { // which goes on being asked
				job.Evidence, job.EndedBy = AnswerDeadline, "bridge"
			}
			job.observe(t.now, "handle given out", "")
		}
		return nil
	})
}

// TellEnd records that a host is about to be told that a job which is not settled
// has ended, in the words of the place where it is told. The first word of a place
// stays: the returned job has it. It fails with ErrSettled for a job that has an
// end of its own.
func (j *Journal) TellEnd(ctx context.Context, h Handle, where, word string) (Job, error) {
	return j.change(ctx, h, func(t *txn, job *Job) error {
		switch {
		case job.ToldEnds[where] != "":
			return nil
		case job.State.Settled():
			return fmt.Errorf("job %s is %s: %w", h, job.State, ErrSettled)
		}
		job.ToldEnds = maps.Clone(job.ToldEnds)
		if job.ToldEnds == nil {
			job.ToldEnds = map[string]string{}
		}
		job.ToldEnds[where] = clip(word, maxNote)
		job.observe(t.now, "told as ended", where+": "+word)
		return nil
	})
}

// Working moves an unknown job back to working: a status tool said that it
// runs. That is its evidence from now on.
func (j *Journal) Working(ctx context.Context, h Handle, seen Seen, why string) (Job, error) {
	return j.change(ctx, h, func(t *txn, job *Job) error {
		if err := job.move(Working, seen, t.now); err != nil {
			return err
		}
		job.Evidence, job.EndedBy = StatusTool, ""
		job.observe(t.now, Working.String(), why)
		return nil
	})
}

// SetTask records the task that upstream made of the call. Only the owner may.
func (j *Journal) SetTask(ctx context.Context, h Handle, task string) (Job, error) {
	return j.ownChange(ctx, h, func(t *txn, job *Job) error {
		job.UpstreamTask = clip(task, MaxName)
		job.observe(t.now, "upstream task", "")
		return nil
	})
}

// SetResumption records how the stream of the call can be reopened, when its
// first event id is seen; later ids come by Note. Only the owner may.
func (j *Journal) SetResumption(ctx context.Context, h Handle, r Resumption) (Job, error) {
	sec, err := j.secrets(ctx)
	if err != nil {
		return Job{}, err
	}
	sealed, err := sec.seal(h, r)
	if err != nil {
		return Job{}, fmt.Errorf("job %s: %w", h, err)
	}
	return j.ownChange(ctx, h, func(t *txn, job *Job) error {
		job.SealedResume = sealed
		job.observe(t.now, "stream can be resumed", "")
		return nil
	})
}

// Resumption opens a job's resumption; ok is false if it has none that can be
// read.
func (j *Journal) Resumption(ctx context.Context, job Job) (r Resumption, ok bool, err error) {
	if len(job.SealedResume) == 0 {
		return Resumption{}, false, nil
	}
	sec, err := j.secrets(ctx)
	if err != nil {
		return Resumption{}, false, err
	}
	if err := sec.open(job.Handle, job.SealedResume, &r); err != nil {
		return Resumption{}, false, nil // the key is another now
	}
	return r, true, nil
}

// advance replaces the event id of a resumption.
func (t *txn) advance(j *Job, event string) {
	key, err := t.j.store.Secret(context.Background())
	sec := secrets{key: key}
	var r Resumption
	if err != nil || len(j.SealedResume) == 0 || sec.open(j.Handle, j.SealedResume, &r) != nil {
		return
	}
	r.EventID = event
	if sealed, err := sec.seal(j.Handle, r); err == nil {
		j.SealedResume = sealed
	}
}

// ownChange is change for the owner alone.
func (j *Journal) ownChange(ctx context.Context, h Handle, fn func(*txn, *Job) error) (Job, error) {
	job, err := j.change(ctx, h, func(t *txn, job *Job) error {
		switch {
		case job.State.Settled():
			return fmt.Errorf("job %s is %s: %w", h, job.State, ErrSettled)
		case !j.owns(job):
			return fmt.Errorf("job %s: %w", h, ErrNotOwner)
		}
		job.UpdatedAt = t.now
		return fn(t, job)
	})
	return job, err
}

// AskHost keeps a question of upstream's until a host answers it, and moves the
// job to input_required.
func (j *Journal) AskHost(ctx context.Context, h Handle, q Question) (Job, error) {
	return j.ownChange(ctx, h, func(t *txn, job *Job) error {
		if len(job.Questions) >= maxQuestions {
			return fmt.Errorf("job %s: %w open questions", h, ErrTooMany)
		}
		if err := job.move(InputRequired, job.Seen(), t.now); err != nil {
			return err
		}
		// Its host was answered with this question, or before: who makes the
		// call anew is asked the same.
		job.Waiter = ""
		q.AskedAt = t.now
		job.Questions = append(job.Questions, q)
		job.observe(t.now, "question", "")
		return nil
	})
}

// Answered forgets a question; with none left the job works again.
func (j *Journal) Answered(ctx context.Context, h Handle, id string) (Job, error) {
	return j.ownChange(ctx, h, func(t *txn, job *Job) error {
		n := len(job.Questions)
		job.Questions = slices.DeleteFunc(job.Questions, func(q Question) bool { return q.ID == id })
		if len(job.Questions) == n {
			return fmt.Errorf("job %s: %w: %s", h, ErrNoQuestion, clip(id, maxNote))
		}
		job.observe(t.now, "question answered", "")
		if len(job.Questions) == 0 && job.State == InputRequired {
			return job.move(Working, job.Seen(), t.now)
		}
		return nil
	})
}

// Await records, before it is sent to the host, the requestState with which the
// next round of the call will come. Nothing runs upstream meanwhile, and any
// process of the account may take the round up.
func (j *Journal) Await(ctx context.Context, h Handle, requestState []byte) (Job, error) {
	return j.ownChange(ctx, h, func(t *txn, job *Job) error {
		if err := job.move(InputRequired, job.Seen(), t.now); err != nil {
			return err
		}
		round := roundPrint(job.Account, requestState)
		if job.Round != round {
			t.useRound(job) // one that did not come
		}
		job.Round = round
		t.put(tableRounds, job.Round[:], []byte(h))
		job.observe(t.now, "input required", "")
		return nil
	})
}

// BetweenRounds reports whether nothing runs for an open job: its host was asked,
// and any process of the account may take its next round up.
func (j *Job) BetweenRounds() bool { return j.State == InputRequired && !j.Round.IsZero() }

// EndRound ends a job that waits between two rounds because somebody asks for it
// (AskCancel, AskStopWaiting): nobody has to be told, as nothing runs. Whoever
// asks knows of the end. It is a compare-and-set on what the caller saw: ErrStale
// if the next round has come, or no round is waited for.
func (j *Journal) EndRound(ctx context.Context, h Handle, seen Seen, ask string) (Job, error) {
	e := End{State: Failed, Evidence: CancelledByHost, EndedBy: "host", Note: "between two rounds"}
	if ask != AskCancel {
		e.Evidence = InputExpired
	}
	return j.change(ctx, h, func(t *txn, job *Job) error {
		if !job.BetweenRounds() {
			return fmt.Errorf("job %s waits for no round: %w", h, ErrStale)
		}
		if err := t.settle(job, seen, e); err != nil {
			return err
		}
		t.mark(job, false, true)
		return nil
	})
}

// NextRound finds the job that waits for a requestState, makes it ours and
// moves it to working; of the call its account, tool and arguments count. A
// state that the same call brought before, or too late, is ErrRoundUsed, with
// the job it belongs to; one that no job of the account is known to have waited
// for is ErrNoSuchRound.
func (j *Journal) NextRound(ctx context.Context, c Call, requestState []byte) (Job, error) {
	p, err := j.prepare(ctx, c)
	if err != nil {
		return Job{}, err
	}
	var job Job
	round := roundPrint(c.Account, requestState)
	err = j.update(ctx, func(t *txn) error {
		var ok bool
		job, ok = t.job(Handle(t.tx.Get(tableRounds, round[:])))
		switch {
		case !ok || job.Account != c.Account:
			return ErrNoSuchRound
		case job.State != InputRequired || job.Round != round:
			if job.Fingerprint != p.print { // a server that gives every call the same state
				return ErrNoSuchRound
			}
			return fmt.Errorf("job %s: %w", job.Handle, ErrRoundUsed)
		}
		if err := job.move(Working, job.Seen(), t.now); err != nil {
			return err
		}
		t.useRound(&job)
		job.Owner, job.Waiter = p.owner, p.owner
		job.Rounds++
		job.observe(t.now, "next round", "")
		t.save(&job)
		return nil
	})
	if err == nil {
		j.hold(job, nil)
	}
	return job, err
}

// useRound makes the round that a job waits for one that is over. It stays
// known: a host that sends it again must not make the call again.
func (t *txn) useRound(j *Job) {
	if j.Round.IsZero() {
		return
	}
	if !slices.Contains(j.UsedRounds, j.Round) {
		j.UsedRounds = append(j.UsedRounds, j.Round)
	}
	if len(j.UsedRounds) > maxUsed {
		t.dropRound(j, j.UsedRounds[0])
		j.UsedRounds = slices.Delete(j.UsedRounds, 0, 1)
	}
	j.Round = Print{}
}

// dropRound forgets a round, unless another job has come to wait for an equal
// one.
func (t *txn) dropRound(j *Job, round Print) {
	if string(t.tx.Get(tableRounds, round[:])) == string(j.Handle) {
		t.delete(tableRounds, round[:])
	}
}

func roundPrint(a Account, requestState []byte) Print {
	return Print(sha256.Sum256(fmt.Appendf(nil, "%q %q %s", a.Server, a.Principal, requestState)))
}
