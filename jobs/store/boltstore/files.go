package boltstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// cacheTag is what the Cache Directory Tagging Specification asks for.
const cacheTag = "Signature: 8a477f597d28d172789f06886806bc55\n" +
	"# This directory holds mcpbridge's journal; it belongs to this machine alone.\n"

// makeDir makes the state directory, or takes rights away that others have to
// it.
func (s *Store) makeDir() error {
	info, err := os.Stat(s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.MkdirAll(s.dir, 0o700)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("state directory %q is not a directory", s.dir)
	case info.Mode().Perm()&0o077 != 0 && permissionsMatter:
		return os.Chmod(s.dir, 0o700)
	}
	return nil
}

func (s *Store) tag() error {
	err := writeSynced(s.path("CACHEDIR.TAG"), []byte(cacheTag))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// create makes an empty file of version 0 under a temporary name and renames
// it, so that nobody ever sees half of one. The lock is held.
func (s *Store) create(setAside time.Time) error {
	tmp := s.path(newName)
	if err := errors.Join(s.tag(), removeIfThere(tmp)); err != nil {
		return err
	}
	db, err := bolt.Open(tmp, 0o600, &bolt.Options{Timeout: boltTimeout})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	err = db.Update(func(b *bolt.Tx) error {
		if _, err := b.CreateBucket([]byte(storeTable)); err != nil {
			return err
		}
		t := &tx{b: b}
		if !setAside.IsZero() {
			if err := t.Put(storeTable, keySetAside, setAside.AppendFormat(nil, time.RFC3339Nano)); err != nil {
				return err
			}
		}
		if err := t.Put(storeTable, keyGeneration, []byte(rand.Text())); err != nil {
			return err
		}
		return t.Put(storeTable, keyVersion, binary.BigEndian.AppendUint32(nil, 0))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := s.at(AtCreated); err != nil {
		return err
	}
	return renameSynced(tmp, s.path(fileName))
}

// setAside renames a damaged file and makes a new one that remembers it. The
// lock is held.
func (s *Store) setAside(why error) error {
	now := time.Now().UTC()
	d := Damage{
		Path: s.path(fileName + ".damaged-" + now.Format("20060102T150405Z") + "-" + rand.Text()[:4]),
		Time: now,
		Err:  why,
	}
	if err := renameSynced(s.path(fileName), d.Path); err != nil {
		return fmt.Errorf("set damaged journal aside: %w", err)
	}
	if s.opts.SetAside != nil {
		s.opts.SetAside(d)
	}
	if err := s.at(AtSetAside); err != nil {
		return err
	}
	return s.create(now)
}

// Secret returns the key of the state directory. It is made under a name of
// its own and linked into place, so that of two makers one wins and both use
// the same.
func (s *Store) Secret(context.Context) ([]byte, error) {
	s.secretMu.Lock()
	defer s.secretMu.Unlock()
	if s.secret != nil {
		return s.secret, nil
	}
	key, err := os.ReadFile(s.path(keyName))
	if errors.Is(err, fs.ErrNotExist) {
		key, err = s.makeSecret()
	}
	if err != nil {
		return nil, s.unavailable(reasonOf(err), err)
	}
	if len(key) != 32 {
		return nil, s.unavailable(store.Broken, fmt.Errorf("%q has %d bytes, not 32; remove it to have a new one made", s.path(keyName), len(key)))
	}
	s.secret = key
	return key, nil
}

func (s *Store) makeSecret() ([]byte, error) {
	if err := s.makeDir(); err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	rand.Read(key)
	tmp := s.path(keyName + "." + rand.Text())
	defer os.Remove(tmp)
	if err := writeSynced(tmp, key); err != nil {
		return nil, err
	}
	if err := os.Link(tmp, s.path(keyName)); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := syncDir(s.dir); err != nil {
		return nil, err
	}
	return os.ReadFile(s.path(keyName))
}

// writeSynced writes a new file and syncs its content, not its name.
func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// renameSynced renames a file and syncs the directory of both names.
func renameSynced(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isAny reports whether err is one of the system's errors. bbolt passes some on
// as text only.
func isAny(err error, errnos ...syscall.Errno) bool {
	for _, errno := range errnos {
		if errors.Is(err, errno) || err != nil && strings.HasSuffix(err.Error(), errno.Error()) {
			return true
		}
	}
	return false
}
