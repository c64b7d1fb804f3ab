package boltstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

const (
	fileName  = "jobs.db"
	newName   = "jobs.db.new" // being made; whoever holds the lock may remove it
	lockName  = "jobs.lock"
	keyName   = "jobs.key"
	bodiesDir = "bodies"
	ownersDir = "owners"

	// DefaultLockLimit is how long a change waits for its turn.
	DefaultLockLimit = 2 * time.Second

	// overdueGrace lets serve say first what it waited for.
	overdueGrace = 500 * time.Millisecond

	maxQueue   = 8192 // changes that may wait in this process
	maxTurn    = 1024 // changes in one turn
	maxReaders = 4    // concurrent View calls of this process
)

// Options says how a Store is kept.
type Options struct {
	Schema       store.Schema
	LockLimit    time.Duration // 0: DefaultLockLimit
	AllowNetwork bool          // accept a state directory on a network file system

	// SetAside is told when a damaged file was put away; nil is fine.
	SetAside func(Damage)

	// At is called at each point of a turn, for tests that crash there or
	// make the disk fail. An error counts as one of the system's.
	At func(Point) error
}

// A Damage says what was wrong with a file and where it is now.
type Damage struct {
	Path string
	Time time.Time
	Err  error
}

// A Point is a place inside a turn at which a process may die.
type Point string

// The points of a turn, in order; those of bodies, owners and compaction after
// them.
const (
	AtStart     Point = "start"     // the lock is held, nothing was opened
	AtOpened    Point = "opened"    // the file is open
	AtApplied   Point = "applied"   // all is changed in memory, nothing written
	AtCommitted Point = "committed" // synced, nobody was told yet
	AtClosed    Point = "closed"    // told and closed, the lock still held
	AtUnlocked  Point = "unlocked"  // others may take a turn
	AtCreated   Point = "created"   // a new file is complete under its temporary name
	AtSetAside  Point = "set aside" // a damaged file was renamed, none is in its place
	AtStaged    Point = "staged"    // a body is complete under its temporary name
	AtRenamed   Point = "renamed"   // a body has its name, the directory is not synced
	AtOwner     Point = "owner"     // an owner's file exists and is locked
	AtCompacted Point = "compacted" // the compacted file is complete under its temporary name
)

// Points lists every Point.
func Points() []Point {
	return []Point{AtStart, AtOpened, AtApplied, AtCommitted, AtClosed, AtUnlocked, AtCreated,
		AtSetAside, AtStaged, AtRenamed, AtOwner, AtCompacted}
}

// A Store is a store.Store in one file of a state directory.
type Store struct {
	dir   string
	opts  Options
	limit time.Duration

	mu     sync.Mutex
	queue  []*request // waiting for a turn, oldest first
	more   *sync.Cond // the queue grew, or the store is closed
	serves bool       // serve is running
	closed bool

	serving sync.WaitGroup
	turns   turnLock       // this process's place in the line of writers
	readers chan *turnLock // free places in the line of readers

	ownerMu sync.Mutex
	owner   *ownerFile

	secretMu sync.Mutex
	secret   []byte
}

type request struct {
	fn    func(store.Tx) error
	since time.Time
	done  chan struct{}
	err   error
}

// Open prepares a store in dir. It looks at the file system and touches
// nothing; the directory is made by the first change. It returns a
// *NetworkError if dir is on a network file system.
func Open(dir string, opts Options) (*Store, error) {
	if !opts.AllowNetwork {
		if err := refuseNetwork(dir); err != nil {
			return nil, err
		}
	}
	s := &Store{dir: dir, opts: opts, limit: opts.LockLimit, readers: make(chan *turnLock, maxReaders)}
	if s.limit == 0 {
		s.limit = DefaultLockLimit
	}
	s.more = sync.NewCond(&s.mu)
	s.turns = turnLock{path: s.path(lockName)}
	for range maxReaders {
		s.readers <- &turnLock{path: s.path(lockName), shared: true}
	}
	return s, nil
}

// Dir returns the state directory.
func (s *Store) Dir() string { return s.dir }

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

func (s *Store) at(p Point) error {
	if s.opts.At == nil {
		return nil
	}
	return s.opts.At(p)
}

// Update queues fn for the next turn. It returns with ErrUncertain if ctx ends
// while the turn is under way.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &request{fn: fn, since: time.Now(), done: make(chan struct{})}
	if err := s.enqueue(r); err != nil {
		return err
	}
	overdue := time.NewTimer(s.limit + overdueGrace)
	defer overdue.Stop()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		if s.withdraw(r) {
			return ctx.Err()
		}
	case <-overdue.C:
		if s.withdraw(r) {
			return s.unavailable(store.Broken, errors.New("a turn of this process does not end"))
		}
	}
	select { // a turn has it
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("change journal: %w: %w", store.ErrUncertain, ctx.Err())
	}
}

func (s *Store) enqueue(r *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.unavailable(store.Closed, nil)
	}
	if len(s.queue) >= maxQueue {
		return s.unavailable(store.Broken, fmt.Errorf("%d changes are waiting already", maxQueue))
	}
	s.queue = append(s.queue, r)
	if !s.serves {
		s.serves = true
		s.serving.Go(s.serve)
	}
	s.more.Signal()
	return nil
}

// withdraw takes r out of the queue; it reports false if a turn has it already.
func (s *Store) withdraw(r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range s.queue {
		if q == r {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			return true
		}
	}
	return false
}

// serve takes turns from the first change until the store is closed. It goes from
// one to the next because each needs a stack that takes a while to grow.
func (s *Store) serve() {
	for {
		oldest, ok := s.oldest()
		if !ok {
			return
		}
		unlock, err := s.lock(&s.turns, time.Until(oldest.Add(s.limit)))
		var late *lateError
		switch {
		case errors.As(err, &late):
			s.answer(s.takeOlder(time.Now().Add(-s.limit)), s.locked(late))
		case err != nil:
			s.answer(s.take(), s.unavailable(reasonOf(err), err))
		default:
			batch := s.take()
			err := s.turn(batch)
			unlock()
			_ = s.at(AtUnlocked)
			if err != nil {
				s.answer(batch, err)
			}
		}
	}
}

// oldest waits for a change and says since when the first waits; ok is false if
// none will come.
func (s *Store) oldest() (since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 {
		if s.closed {
			return time.Time{}, false
		}
		s.more.Wait()
	}
	return s.queue[0].since, true
}

func (s *Store) take() []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), maxTurn)
	batch := s.queue[:n:n]
	s.queue = s.queue[n:]
	return batch
}

// takeOlder takes what has waited since before the given time, and at least the
// first, so that serve always makes progress.
func (s *Store) takeOlder(t time.Time) []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(1, len(s.queue))
	for n < len(s.queue) && s.queue[n].since.Before(t) {
		n++
	}
	batch := s.queue[:n:n]
	s.queue = s.queue[n:]
	return batch
}

// answer ends requests, once; err replaces a request's own error unless it is nil.
func (s *Store) answer(batch []*request, err error) {
	for _, r := range batch {
		if err != nil {
			r.err = err
		}
		close(r.done)
	}
}

// Close waits for the turns under way and gives the owner's name up.
func (s *Store) Close(keepOwner bool) error {
	s.mu.Lock()
	s.closed = true
	s.more.Signal()
	s.mu.Unlock()
	s.serving.Wait()
	s.turns.close()
	for range maxReaders {
		select {
		case l := <-s.readers:
			l.close()
			s.readers <- l
		default: // a look is under way
		}
	}
	return s.disown(keepOwner)
}

func (s *Store) unavailable(r store.Reason, err error) error {
	return &store.UnavailableError{Op: fmt.Sprintf("open journal %q", s.path(fileName)), Reason: r, Err: err}
}

func (s *Store) locked(late *lateError) error {
	return &store.UnavailableError{
		Op:     fmt.Sprintf("open journal %q", s.path(fileName)),
		Reason: store.Locked,
		Holder: late.holder,
		Err:    fmt.Errorf("not free within %v", s.limit),
	}
}
