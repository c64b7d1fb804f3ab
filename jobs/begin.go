package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// A Call is a tools/call that wants to be sent.
type Call struct {
	Account
	Tool      string
	Arguments []byte // JSON as the host sent it, before any key is put in; nil if absent
	Class     Class
	Directory string

	Key     string // the host's idempotency key
	MakeKey bool   // the bridge puts one of its own into the call

	Unannotated bool
	Destructive bool
	Guard       Guard
	Store       StoreMode

	Patient   bool // if another process waits for an equal call, say Contested rather than begin
	HandleOut bool // the caller's answer is the handle: nobody waits (a read past its deadline, a task)
}

// A Begun is the decision on a call.
type Begun struct {
	// Hold says whether Job is a new one, whose call may be sent now, or the
	// earlier one from which the call is answered.
	Hold Hold
	Job  Job

	OtherArguments bool // Job holds the call back by its tool, and had other arguments

	Key     string // idempotency key to send; "" if there is none
	Claimed bool   // the earlier job's owner was gone and it is ours now: recover it
	Waits   bool   // the earlier job waits for the host of this call now: Note NobodyWait if it cannot be told

	Others   []Handle  // jobs of the same tool that are open or unknown (at most 3)
	Past     Handle    // the same call, whose window is over: to be mentioned once
	Until    time.Time // when the guard of a held call ends by itself; zero if it does not
	SetAside time.Time // a damaged journal was set aside less than 24 h ago
}

func (c *Call) check() error {
	return errors.Join(checkName("server", c.Server), checkName("principal", c.Principal), checkName("tool", c.Tool))
}

// Begin decides guard, idempotency key and lost owners and inserts the record,
// in one transaction; nothing else inserts. When it returns without error and
// without a hold, the record is durable and the call may be sent. After an
// error the call must not be sent as journaled.
//
// Same key with other arguments is ErrKeyConflict, with the job of the key.
func (j *Journal) Begin(ctx context.Context, c Call) (Begun, error) {
	p, err := j.prepare(ctx, c)
	if err != nil {
		return Begun{}, err
	}
	if p.staged, err = j.stage(ctx, p.handle, suffixArguments, p.kept()); err != nil {
		return Begun{}, err
	}
	var b Begun
	err = j.update(ctx, func(t *txn) (err error) {
		b, err = t.begin(&p)
		return err
	})
	j.begun(&p, &b, err)
	return b, err
}

// A prepared call is all that can be worked out before the transaction.
type prepared struct {
	Call
	handle Handle
	owner  string
	sec    secrets
	print  Print
	tool   Print
	key    Print
	staged string // name of the arguments beside the tables
}

func (j *Journal) prepare(ctx context.Context, c Call) (p prepared, err error) {
	if err := c.check(); err != nil {
		return p, fmt.Errorf("begin job: %w", err)
	}
	p = prepared{Call: c, handle: NewHandle()}
	if p.owner, err = j.self(ctx); err != nil {
		return p, err
	}
	if p.sec, err = j.secrets(ctx); err != nil {
		return p, err
	}
	if p.print, err = p.sec.fingerprint(c.Account, c.Tool, c.Arguments); err != nil {
		return p, fmt.Errorf("begin job: %w", err)
	}
	p.tool = p.sec.toolPrint(c.Account, c.Tool)
	if c.Key != "" {
		p.key = p.sec.keyPrint(c.Account, c.Key)
	}
	return p, nil
}

// kept is the part of the arguments that is stored.
func (p *prepared) kept() []byte {
	if p.Store == StoreNone {
		return nil
	}
	return p.Arguments
}

// stage keeps a body that is too large for a table, before it is named; the
// name is empty if the table is the place. No two names are equal, so that a
// body that a record refuses never replaces one that it has.
func (j *Journal) stage(ctx context.Context, h Handle, suffix string, body []byte) (name string, err error) {
	if len(body) <= maxInline {
		return "", nil
	}
	name = string(h) + suffix + "." + rand.Text()
	return name, j.store.Stage(ctx, name, body)
}

// unstage drops a staged body that no record came to name.
func (j *Journal) unstage(name string) {
	if name != "" {
		j.store.Discard(name)
	}
}

// begun settles in memory what a begin came to.
func (j *Journal) begun(p *prepared, b *Begun, err error) {
	switch {
	case err == nil && b.Hold == NotHeld:
		j.hold(b.Job, p.kept())
		return
	case err == nil && b.Job.Owner == p.owner && !b.Job.State.Settled():
		j.hold(b.Job, nil)
	case errors.Is(err, store.ErrUncertain):
		// The call will not be sent; a record of it must not stay.
		j.mu.Lock()
		j.ghosts[p.handle] = true
		j.schedule(noteDelay)
		j.mu.Unlock()
		return
	}
	j.unstage(p.staged)
}

func (t *txn) begin(p *prepared) (Begun, error) {
	b := Begun{SetAside: t.recentlySetAside()}
	prev, found := t.byKey(p.key)
	if found {
		if prev.Fingerprint != p.print {
			b.Job = prev
			return b, fmt.Errorf("job %s of tool %s: %w", prev.Handle, prev.Tool, ErrKeyConflict)
		}
		if b.Hold = prev.keyed(); b.Hold != NotHeld {
			return t.answerFrom(b, prev, p.owner)
		}
	}
	near := t.neighbours(p)
	before, hold := t.guard(p, near.candidates, &b)
	if hold == Contested {
		b.Hold, b.Job = hold, before
		return b, nil
	}
	if hold != NotHeld {
		b.Hold = hold
		return t.answerFrom(b, before, p.owner)
	}
	b.Others = near.others
	b.Job = t.insert(p, &before)
	b.Key = p.sec.keyFor(&b.Job)
	if b.Key == "" {
		b.Key = p.Key
	}
	return b, nil
}

func (s secrets) keyFor(j *Job) string {
	if j.KeyOf == "" {
		return ""
	}
	return s.madeKey(j.KeyOf)
}

// recentlySetAside is when jobs were last lost to damage, for a day.
func (t *txn) recentlySetAside() time.Time {
	at := t.tx.SetAside()
	if at.IsZero() || t.due.Sub(at) > GuardWindow {
		return time.Time{}
	}
	return at
}

func (t *txn) byKey(key Print) (Job, bool) {
	if key.IsZero() {
		return Job{}, false
	}
	h := t.tx.Get(tableKeys, key[:])
	if h == nil {
		return Job{}, false
	}
	return t.job(Handle(h))
}

// guard looks among the candidates for an earlier job that holds the call back.
// Without a hold, the job it returns is the newest whose window is over, or which
// may have had its effect under a key of ours; its zero value says that there is none.
func (t *txn) guard(p *prepared, candidates [][]byte, b *Begun) (before Job, hold Hold) {
	var contested Job
	for _, key := range candidates {
		j, ok := t.jobAt(key)
		if !ok {
			continue
		}
		r := repeat{class: p.Class, window: t.j.opts.GuardWindow, waited: t.waited(&j), lost: t.lost(j.Owner), at: t.due}
		hold, expired := j.holds(r)
		other := j.Fingerprint != p.print
		if hold == KeptEnd && other {
			continue // its end is no answer to this call, and nothing is in doubt
		}
		if hold != NotHeld {
			b.Until, b.OtherArguments = until(&j, hold, r.window), other
			return j, hold
		}
		if expired && !other && before.Handle == "" {
			before = j
		}
		if p.Patient && contested.Handle == "" && (!other || !j.State.Settled()) && j.contests(r) {
			contested = j
		}
	}
	if contested.Handle != "" {
		return contested, Contested
	}
	if before.Handle != "" && !before.Warned {
		b.Past = before.Handle
		before.Warned = true
		t.save(&before)
	}
	return before, NotHeld
}

// until says when a guard ends by itself.
func until(j *Job, hold Hold, window time.Duration) time.Time {
	switch hold {
	case Unknown:
		return j.ChangedAt.Add(unknownWindow(j, window))
	case KeptEnd:
		return j.EndedAt.Add(GuardWindow)
	}
	return time.Time{}
}

// answerFrom prepares an earlier job to answer a call. An end that nobody has
// is handed to this process: if it dies before it has told its host, the end is
// free again. A job whose owner is gone becomes ours to recover.
func (t *txn) answerFrom(b Begun, j Job, self string) (Begun, error) {
	switch {
	case b.Hold == KeptEnd:
		j.Waiter, b.Waits = self, true
		j.observe(t.now, "answered a repeat", "")
		t.save(&j)
	case !j.State.Settled() && j.State != OutcomeUnknown && t.lost(j.Owner):
		b.Claimed = t.takeOver(&j, self)
		t.save(&j)
		if j.State == OutcomeUnknown {
			b.Hold = Unknown
		}
	case b.Hold == Joined && !j.HandleOut && t.lost(j.Waiter):
		j.Waiter, b.Waits = self, true
		t.save(&j)
	}
	b.Job = j
	return b, nil
}

// insert writes the record of a new job. before is an earlier job of the same
// call, if the guard found one.
func (t *txn) insert(p *prepared, before *Job) Job {
	j := Job{
		Handle: p.handle, Account: p.Account, Tool: p.Tool, Class: p.Class,
		Unannotated: p.Unannotated, Destructive: p.Destructive, Guard: p.Guard, Store: p.Store,
		Directory: p.Directory, Fingerprint: p.print, ToolPrint: p.tool, KeyPrint: p.key,
		State: Working, Version: 1, Effect: Possible, Evidence: Started,
		Owner: p.owner, Waiter: p.owner,
		CreatedAt: t.now, UpdatedAt: t.now, ChangedAt: t.now,
		Arguments: Body{Size: int64(len(p.Arguments))},
	}
	if p.HandleOut {
		j.HandleOut, j.Waiter = true, ""
	}
	if p.Store != StoreNone {
		t.keepBody(&j, &j.Arguments, suffixArguments, p.Arguments, p.staged)
	}
	t.keyOf(&j, p, before)
	j.observe(t.now, "begun", "")
	t.makeRoom()
	t.save(&j)
	return j
}

// keyOf gives a new job its idempotency key. A repeat of a call for which the
// bridge made the key is sent with the first job's.
func (t *txn) keyOf(j *Job, p *prepared, before *Job) {
	switch {
	case p.Key != "":
		t.put(tableKeys, p.key[:], []byte(j.Handle))
		sealed, err := p.sec.seal(j.Handle, p.Key)
		t.fail(err)
		j.SealedKey = sealed
	case p.MakeKey && before.KeyOf != "" && before.Fingerprint == j.Fingerprint:
		j.KeyOf = before.KeyOf
	case p.MakeKey:
		j.KeyOf = j.Handle
	}
}
