// Package store says what a journal of jobs needs from the place that keeps it:
// a few tables with atomic, durable changes, bodies too large for a table, and
// a way to tell whether another process that owns jobs still lives.
//
// Nothing here assumes one file or one host. Package boltstore keeps a journal
// in one file that many processes of one machine take turns with; package
// memstore keeps one for the life of a process.
package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// A Table names a set of keys with values, ordered by the bytes of the keys.
type Table string

// A Tx is one atomic look at, or change of, all tables. Slices it returns
// belong to the store and die with the Tx; slices given to it must not change
// until the Tx has ended.
type Tx interface {
	Get(t Table, key []byte) []byte // nil if there is none
	Put(t Table, key, value []byte) error
	Delete(t Table, key []byte) error // no error if there is none

	// Scan visits the keys that begin with prefix in order, ScanBack in
	// reverse. The table must not be changed meanwhile.
	Scan(t Table, prefix []byte) iter.Seq2[[]byte, []byte]
	ScanBack(t Table, prefix []byte) iter.Seq2[[]byte, []byte]

	// Generation names this store's contents: another one after the contents
	// were lost and begun anew.
	Generation() string

	// SetAside says when contents that could not be read were last put away;
	// zero if that never happened.
	SetAside() time.Time

	// Memo is where functions that share a Tx keep what they learnt of it. It is
	// nil in a new one.
	Memo() *any
}

// A Stamp changes whenever something may have been committed.
type Stamp string

// A Store keeps the tables of one journal. Its methods may be called
// concurrently.
type Store interface {
	// Update runs fn and makes all that it changed durable before it returns
	// nil. If fn returns an error, nothing that it changed is kept and Update
	// returns that error. fn may run more than once and must have no effect
	// but on the Tx and on variables that it sets anew each time. An error
	// for which errors.Is(err, ErrUncertain) leaves open whether the change
	// was kept; after any other it was not.
	Update(ctx context.Context, fn func(Tx) error) error

	// View runs fn on what was committed last; fn must not change anything.
	View(ctx context.Context, fn func(Tx) error) error

	// Stamp is cheap enough to ask for several times a second.
	Stamp() (Stamp, error)

	// Stage makes a body durable under a name before the change that refers
	// to it. Discard drops bodies after the change that forgets them. Fetch
	// returns an error for which errors.Is(err, ErrNoBody) if there is none.
	Stage(ctx context.Context, name string, body []byte) error
	Fetch(ctx context.Context, name string) ([]byte, error)
	Discard(names ...string)

	// Owner returns the name under which this process owns jobs, and makes
	// sure that others can see that it lives. It returns another name only
	// if the former was lost.
	Owner(ctx context.Context) (string, error)

	// Lost reports whether the owner of that name is proven to be gone. It
	// may be called inside Update and View.
	Lost(owner string) bool

	// Secret is a key of 32 bytes that belongs to the store and does not
	// change, made when it is first asked for.
	Secret(ctx context.Context) ([]byte, error)

	// Tidy gives back space: dropped bodies, traces of gone owners for which
	// named returns false, free pages. wiped says that something private was
	// deleted and should leave the disk too. It reports whether it did
	// rewrite the store so that deleted content is gone.
	Tidy(ctx context.Context, wiped bool, named func(tx Tx, owner string) bool) (rewritten bool, err error)

	// Erase removes everything, whatever its state.
	Erase(ctx context.Context) error

	// Close ends what the store runs in the background and gives the owner
	// name up; keepOwner leaves the traces of the owner for others to find
	// gone.
	Close(keepOwner bool) error
}

var (
	// ErrUncertain: the change may or may not have been kept.
	ErrUncertain = errors.New("not known whether it was kept")
	// ErrNoBody: no body of that name.
	ErrNoBody = errors.New("no such body")
	// ErrDamaged, wrapped by an error of a function inside Update or View,
	// says that what it read cannot be right.
	ErrDamaged = errors.New("damaged")
)

// A Reason says why a store cannot be used now.
type Reason uint8

const (
	Broken   Reason = iota // any other failure of the system below
	Locked                 // another process holds the lock
	Full                   // no space left
	ReadOnly               // no right to write
	Newer                  // written by a newer version
	Closed                 // closed in this process
)

var reasons = [...]string{
	Broken:   "storage failed",
	Locked:   "locked by another process",
	Full:     "no space left",
	ReadOnly: "not writable",
	Newer:    "written by a newer mcpbridge",
	Closed:   "closed",
}

func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return fmt.Sprintf("reason %d", r)
}

// An UnavailableError says why a store could not be used.
type UnavailableError struct {
	Op     string // such as `open journal "jobs.db"`
	Reason Reason
	Holder int // process id of who holds the lock; 0 if not known
	Err    error
}

func (e *UnavailableError) Error() string {
	s := e.Op + ": " + e.Reason.String()
	if e.Holder != 0 {
		s += fmt.Sprintf(" (process %d)", e.Holder)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// A Schema is what a journal wants a store to hold.
type Schema struct {
	Tables []Table

	// Growing are the tables whose new keys come after the others: a store need
	// not leave room between them.
	Growing []Table

	// Migrations holds at index n the change from version n to n+1; version 0
	// is an empty store. The version of the schema is their number.
	Migrations []func(Tx) error
}

// Version is the version that a store of this schema has.
func (s Schema) Version() uint32 { return uint32(len(s.Migrations)) }
