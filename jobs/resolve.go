package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// A Word is what somebody says about an unknown outcome.
type Word string

const (
	Happened     Word = "happened"
	DidNotHappen Word = "did_not_happen"
	SendAgain    Word = "send_again"
)

// A Resolution ends an unknown outcome by somebody's word.
type Resolution struct {
	Word    Word
	ByModel bool // else a person
	Agreed  bool // a person agreed to what the model asks
	Why     string
}

func (r Resolution) evidence() Evidence {
	if r.ByModel {
		return ResolvedByModel
	}
	return ResolvedByUser
}

// end is what a resolution makes of the job. A model's word lifts the guard,
// but proves nothing about the effect.
func (r Resolution) end() (End, error) {
	e := End{Evidence: r.evidence(), EndedBy: "host", Note: r.Why}
	switch r.Word {
	case Happened:
		e.State, e.Effect = Completed, Reported
	case DidNotHappen:
		e.State, e.Effect = Failed, None
	case SendAgain:
		e.State = Failed
	default:
		return End{}, fmt.Errorf("resolve job: %q is none of %s, %s, %s", r.Word, Happened, DidNotHappen, SendAgain)
	}
	if r.ByModel {
		e.Effect = Possible
	}
	return e, nil
}

// Resolve settles a job whose outcome is unknown. With SendAgain it begins the
// stored arguments as a new job in the same transaction and returns that one in
// Begun, to be sent now; otherwise Begun is zero.
//
// It refuses with ErrNotUnknown, ErrStale, ErrNoArguments, ErrNeedsWhy (from a
// model), and ErrNeedsPerson (a model asks to send a destructive call again).
func (j *Journal) Resolve(ctx context.Context, h Handle, seen Seen, r Resolution) (Job, Begun, error) {
	e, err := r.end()
	if err != nil {
		return Job{}, Begun{}, err
	}
	if r.ByModel && strings.TrimSpace(r.Why) == "" {
		return Job{}, Begun{}, fmt.Errorf("resolve job %s: %w", h, ErrNeedsWhy)
	}
	if r.Word == SendAgain {
		return j.sendAgain(ctx, h, seen, r, e)
	}
	job, err := j.change(ctx, h, func(t *txn, job *Job) error { return t.resolve(job, seen, r, e) })
	return job, Begun{}, err
}

// PutToUser records that a person is about to be asked what became of an unknown
// outcome; first is false if one was before: once is enough.
func (j *Journal) PutToUser(ctx context.Context, h Handle) (first bool, err error) {
	_, err = j.change(ctx, h, func(t *txn, job *Job) error {
		if job.State != OutcomeUnknown {
			return fmt.Errorf("ask about job %s: it is %s: %w", h, job.State, ErrNotUnknown)
		}
		if first = !job.PutToUser; first {
			job.PutToUser = true
			job.observe(t.now, "put to the user", "")
		}
		return nil
	})
	return first, err
}

func (t *txn) resolve(j *Job, seen Seen, r Resolution, e End) error {
	if j.State != OutcomeUnknown {
		return fmt.Errorf("resolve job %s: it is %s: %w", j.Handle, j.State, ErrNotUnknown)
	}
	if err := t.settle(j, seen, e); err != nil {
		return err
	}
	j.Resolution = string(r.Word)
	j.Read, j.Waiter = true, "" // whoever resolved it knows
	return nil
}

func (j *Journal) sendAgain(ctx context.Context, h Handle, seen Seen, r Resolution, e End) (Job, Begun, error) {
	old, err := j.Find(ctx, h)
	if err != nil {
		return Job{}, Begun{}, err
	}
	arguments, err := j.Arguments(ctx, h)
	if err != nil {
		return old, Begun{}, fmt.Errorf("send job %s again: %w", h, err)
	}
	p, err := j.prepare(ctx, callOf(&old, arguments))
	if err != nil {
		return old, Begun{}, err
	}
	if p.staged, err = j.stage(ctx, p.handle, suffixArguments, p.kept()); err != nil {
		return old, Begun{}, err
	}
	var b Begun
	err = j.update(ctx, func(t *txn) (err error) {
		b = Begun{}
		if old, err = t.find(h); err != nil {
			return err
		}
		if r.ByModel && old.Destructive && !r.Agreed {
			return fmt.Errorf("send job %s again: %w", h, ErrNeedsPerson)
		}
		if err := t.resolve(&old, seen, r, e); err != nil {
			return err
		}
		b, err = t.again(p, &old)
		return err
	})
	if err != nil {
		j.begun(&p, &Begun{Hold: Unknown}, err)
		return old, Begun{}, err
	}
	j.begun(&p, &b, nil)
	return old, b, nil
}

// callOf is the call that a record was made of.
func callOf(j *Job, arguments []byte) Call {
	return Call{
		Account: j.Account, Tool: j.Tool, Arguments: arguments, Class: j.Class, Directory: j.Directory,
		MakeKey: j.KeyOf != "", Unannotated: j.Unannotated, Destructive: j.Destructive,
		Guard: j.Guard, Store: j.Store,
	}
}

// again begins a settled job's call anew, under the same idempotency key.
func (t *txn) again(p prepared, old *Job) (Begun, error) {
	old.SupersededBy = p.handle
	t.save(old)
	b := Begun{Others: t.neighbours(&p).others}
	if len(old.SealedKey) > 0 {
		if err := p.sec.open(old.Handle, old.SealedKey, &p.Key); err == nil {
			p.key = old.KeyPrint
		}
	}
	b.Job = t.insert(&p, old)
	b.Job.Supersedes = old.Handle
	t.save(&b.Job)
	if b.Key = p.sec.keyFor(&b.Job); b.Key == "" {
		b.Key = p.Key
	}
	return b, nil
}

// Arguments returns the arguments of a job as the host sent them; nil if it
// sent none. ErrNoArguments if they were not kept or are wiped.
func (j *Journal) Arguments(ctx context.Context, h Handle) ([]byte, error) {
	body, err := j.body(ctx, h, suffixArguments, func(job *Job) Body { return job.Arguments })
	if errors.Is(err, store.ErrNoBody) {
		return nil, fmt.Errorf("job %s: %w", h, ErrNoArguments)
	}
	return body, err
}

// Result returns the result of a job exactly as upstream gave it, and what it
// is. ErrNoResult if there is none, or it was told and wiped.
func (j *Journal) Result(ctx context.Context, h Handle) ([]byte, Kind, error) {
	kind := NoResult
	body, err := j.body(ctx, h, suffixResult, func(job *Job) Body {
		kind = job.ResultKind
		return job.Result
	})
	if errors.Is(err, store.ErrNoBody) {
		return nil, NoResult, fmt.Errorf("job %s: %w", h, ErrNoResult)
	}
	return body, kind, err
}

// body reads a body, wherever it is.
func (j *Journal) body(ctx context.Context, h Handle, suffix string, of func(*Job) Body) ([]byte, error) {
	var where Body
	var content []byte
	err := j.view(ctx, func(t *txn) error {
		job, err := t.find(h)
		if err != nil {
			return err
		}
		where, content = of(&job), nil
		if where.Kept && where.Aside == "" {
			content = append(content, t.getBody(h, &where, suffix)...)
			where.Kept = int64(len(content)) == where.Size // in a damaged journal it may be gone
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case !where.Kept:
		return nil, store.ErrNoBody
	case where.Aside != "":
		return j.store.Fetch(ctx, where.Aside)
	}
	return content, nil
}
