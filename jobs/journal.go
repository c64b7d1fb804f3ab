package jobs

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

const (
	// noteDelay is how long a note waits for another change to ride with.
	noteDelay = 5 * time.Second
	// noteLimit bounds a background attempt to write notes.
	noteLimit = 5 * time.Second
	// maxNotes is how many notes wait at most; more are dropped, each of which
	// costs at most an answer given twice.
	maxNotes = 8192
)

// Options says how a Journal works.
type Options struct {
	// Now is the wall clock; nil is time.Now.
	Now func() time.Time
	// GuardWindow is how long an unknown outcome holds repeats back; 0 is 24 h.
	GuardWindow time.Duration
}

// A Journal keeps jobs in a store that many processes share. Its methods may
// be called concurrently. It runs nothing in the background but the writing of
// notes, and that only while there are some.
//
// Every method that changes something returns when the change is durable; it
// fails with a *store.UnavailableError if the store cannot be used now.
type Journal struct {
	store store.Store
	opts  Options

	records records

	mu      sync.Mutex
	notes   map[Handle]Note // waiting to ride with the next change
	timer   *time.Timer     // writes notes that found none; nil if none wait
	mine    map[Handle]held // open jobs that this process owns
	gen     string          // generation of the store that mine is in
	selves  map[string]bool // names under which this process owns or owned jobs
	ghosts  map[Handle]bool // begun without certainty; their calls were not sent
	changed chan struct{}   // closed at the next change made here
	closed  bool

	flushing sync.WaitGroup
}

// held is what it takes to write a job anew.
type held struct {
	job       *Job   // as it is in the journal; it does not change
	arguments []byte // nil if they are aside or not kept
}

// New returns a journal on a store, which it closes in the end.
func New(s store.Store, opts Options) *Journal {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.GuardWindow == 0 {
		opts.GuardWindow = GuardWindow
	}
	return &Journal{
		store:   s,
		opts:    opts,
		records: records{known: make(map[Handle]*record)},
		notes:   make(map[Handle]Note),
		mine:    make(map[Handle]held),
		selves:  make(map[string]bool, 1),
		ghosts:  make(map[Handle]bool),
		changed: make(chan struct{}),
	}
}

// update makes one change. All notes that wait when its turn comes ride with it:
// none is ever on its way past a change that is decided without it. A refusal that
// fn returns does not undo what fn changed; a failure of the store does.
func (j *Journal) update(ctx context.Context, fn func(*txn) error) error {
	var notes map[Handle]Note
	var ghosts map[Handle]bool
	var t *txn
	var refused error
	var running claim
	err := j.store.Update(ctx, func(tx store.Tx) error {
		if !running.begin() {
			return errAbandoned
		}
		defer running.end()
		if t == nil { // not run before
			notes, ghosts = j.takeNotes()
		}
		t = j.newTxn(tx)
		t.readClock(true)
		t.rewriteMine()
		t.bury(ghosts)
		for h, n := range notes {
			t.note(h, n)
		}
		refused = fn(t)
		return t.err
	})
	if err != nil {
		running.abandon()
		j.returnNotes(notes, ghosts)
		return err
	}
	j.committed(t)
	return refused
}

// errAbandoned ends a change whose caller left before its turn came.
var errAbandoned = errors.New("nobody waits for this change any more")

// A claim keeps the function of a change from running once its caller has left:
// a store may return before it is done with the function.
type claim struct {
	mu   sync.Mutex
	left bool
}

func (c *claim) begin() bool {
	c.mu.Lock()
	if c.left {
		c.mu.Unlock()
		return false
	}
	return true
}

func (c *claim) end() { c.mu.Unlock() }

// abandon returns when the function does not run and will not run again.
func (c *claim) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
}

// view looks at the journal.
func (j *Journal) view(ctx context.Context, fn func(*txn) error) error {
	var refused error
	var running claim
	err := j.store.View(ctx, func(tx store.Tx) error {
		if !running.begin() {
			return errAbandoned
		}
		defer running.end()
		t := j.newTxn(tx)
		t.readClock(false)
		refused = fn(t)
		return t.err
	})
	if err != nil {
		running.abandon()
		return err
	}
	return refused
}

func (j *Journal) newTxn(tx store.Tx) *txn {
	return &txn{
		tx: tx, j: j, gen: tx.Generation(),
		before:  make(map[Handle]stored, 2),
		touched: make(map[Handle]*record, 2),
		alive:   make(map[string]bool, 2),
	}
}

// committed brings memory up to date with a change that is durable.
func (j *Journal) committed(t *txn) {
	j.store.Discard(t.forget...)
	j.records.keep(t.touched)
	for _, h := range t.gone {
		j.records.drop(h)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.gen = t.gen
	for h, k := range t.touched {
		m, ours := j.mine[h]
		switch {
		case !ours:
		case k.job.State.Settled() || k.job.Owner != m.job.Owner:
			delete(j.mine, h)
		default:
			m.job = &k.job
			j.mine[h] = m
		}
	}
	for _, h := range t.gone {
		delete(j.mine, h)
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// hold remembers an open job of ours, so that it can be written anew if the
// journal is set aside.
func (j *Journal) hold(job Job, arguments []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if old, ok := j.mine[job.Handle]; ok && arguments == nil {
		arguments = old.arguments
	}
	if !job.Arguments.Kept || job.Arguments.Aside != "" {
		arguments = nil
	}
	j.mine[job.Handle] = held{job: &job, arguments: arguments}
}

// rewriteMine writes our open jobs into a journal that was begun anew since we
// last wrote.
func (t *txn) rewriteMine() {
	t.j.mu.Lock()
	anew := t.j.gen != "" && t.j.gen != t.gen
	var mine map[Handle]held
	if anew {
		mine = maps.Clone(t.j.mine)
	}
	t.j.mu.Unlock()
	for h, m := range mine {
		if _, _, ok := t.row(h); ok {
			continue
		}
		job := m.job.clone() // this may run again, and others have it
		job.observe(t.now, "rewritten", "the journal it was in is gone")
		if m.arguments != nil {
			t.keepBody(&job, &job.Arguments, suffixArguments, m.arguments, "")
		} else if job.Arguments.Aside == "" {
			job.Arguments.Kept = false
		}
		if k := job.KeyPrint; !k.IsZero() {
			t.put(tableKeys, k[:], []byte(h))
		}
		t.save(&job)
	}
}

// Mine lists the open jobs that this process owns.
func (j *Journal) Mine() []Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := make([]Job, 0, len(j.mine))
	for _, m := range j.mine {
		list = append(list, *m.job)
	}
	return list
}

// self is the name under which this process owns jobs.
func (j *Journal) self(ctx context.Context) (string, error) {
	name, err := j.store.Owner(ctx)
	if err != nil {
		return "", err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.selves[name] = true
	return name, nil
}

func (j *Journal) isSelf(name string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.selves[name]
}

// secrets fetches the key of the store.
func (j *Journal) secrets(ctx context.Context) (secrets, error) {
	key, err := j.store.Secret(ctx)
	return secrets{key: key}, err
}

// Close writes the notes that wait and closes the store. While this process
// owns open jobs its owner's traces stay, so that others find those lost.
func (j *Journal) Close(ctx context.Context) error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.unschedule()
	waiting := len(j.notes) + len(j.ghosts)
	j.mu.Unlock()
	var err error
	if waiting > 0 {
		err = j.update(ctx, func(*txn) error { return nil })
	}
	j.flushing.Wait()
	j.mu.Lock()
	open := len(j.mine) > 0
	j.mu.Unlock()
	return errors.Join(err, j.store.Close(open))
}
