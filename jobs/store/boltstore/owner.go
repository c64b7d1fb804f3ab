package boltstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// An ownerFile is a locked file in owners; while the lock is held its name
// belongs to a living process.
type ownerFile struct {
	name   string
	lock   *flock.Flock
	looked time.Time // when its path last named it
}

// lookGood is how long a look at an owner's own file is good: of the jobs that begin
// at the same time one has it looked at. The lock keeps sweeps from removing it; only
// somebody who knows nothing of them can.
const lookGood = 10 * time.Millisecond

// Owner makes, opens and locks this process's file when it is first asked for,
// and looks whether the path still names it.
func (s *Store) Owner(context.Context) (string, error) {
	s.ownerMu.Lock()
	defer s.ownerMu.Unlock()
	if s.owner.isThere() {
		return s.owner.name, nil
	}
	o, err := s.makeOwner()
	if err != nil {
		return "", &store.UnavailableError{Op: "make owner file", Reason: reasonOf(err), Err: err}
	}
	if s.owner != nil {
		_ = s.owner.lock.Unlock()
	}
	s.owner = o
	return o.name, nil
}

// isThere reports whether the path of a file still names it.
func (o *ownerFile) isThere() bool {
	if o == nil {
		return false
	}
	now := time.Now()
	if now.Sub(o.looked) < lookGood {
		return true
	}
	if !samePath(o.lock) {
		return false
	}
	o.looked = now
	return true
}

func (s *Store) makeOwner() (*ownerFile, error) {
	if err := s.makeSub(ownersDir); err != nil {
		return nil, err
	}
	for range maxReplaced {
		o, err := s.lockNewOwner()
		if err != nil {
			return nil, err
		}
		if o == nil {
			continue
		}
		if err := s.at(AtOwner); err != nil {
			return nil, errors.Join(err, o.lock.Unlock())
		}
		return o, syncDir(s.path(ownersDir))
	}
	return nil, errors.New("it is taken again and again in the moment in which it is made")
}

// lockNewOwner makes an owner file and locks it; nil and no error means that a
// sweep was faster.
func (s *Store) lockNewOwner() (*ownerFile, error) {
	name := fmt.Sprintf("p%d-%s", os.Getpid(), strings.ToLower(rand.Text()[:16]))
	o := &ownerFile{name: name, lock: flock.New(s.path(ownersDir, name))}
	ok, err := o.lock.TryLock()
	if err != nil {
		return nil, err
	}
	if !ok || !samePath(o.lock) {
		_ = o.lock.Unlock()
		return nil, nil
	}
	return o, nil
}

// Lost tries to share the lock of an owner's file. Sharing lets several
// processes look at the same time without taking each other for the owner.
func (s *Store) Lost(owner string) bool {
	if owner == "" || strings.ContainsAny(owner, `/\`) {
		return true
	}
	l := flock.New(s.path(ownersDir, owner), flock.SetFlag(os.O_RDONLY))
	ok, err := l.TryRLock()
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	if ok {
		_ = l.Unlock()
	}
	return ok
}

// disown removes this process's file, or leaves it unlocked for others to find.
func (s *Store) disown(keep bool) error {
	s.ownerMu.Lock()
	defer s.ownerMu.Unlock()
	if s.owner == nil {
		return nil
	}
	o := s.owner
	s.owner = nil
	if keep {
		return o.lock.Unlock()
	}
	return removeLocked(o.lock)
}

// removeLocked removes a locked file and unlocks it. Where open files cannot be
// removed it does so the other way round: no name of an owner is used twice.
func removeLocked(l *flock.Flock) error {
	if os.Remove(l.Path()) == nil {
		return l.Unlock()
	}
	err := l.Unlock()
	_ = removeIfThere(l.Path())
	return err
}

// sweepOwners removes the files of owners that are gone and that no job names.
// The turn lock is held, so no job begins to name one meanwhile.
func (s *Store) sweepOwners(named func(owner string) bool) error {
	entries, err := os.ReadDir(s.path(ownersDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := s.path(ownersDir, e.Name())
		l := flock.New(path, flock.SetFlag(os.O_RDONLY))
		if ok, err := l.TryLock(); err != nil || !ok {
			continue
		}
		if samePath(l) && !named(e.Name()) {
			_ = removeLocked(l)
			continue
		}
		_ = l.Unlock()
	}
	return nil
}
