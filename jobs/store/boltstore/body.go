package boltstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// bodyGrace spares young bodies from the sweep: the change that names them may
// still be waiting for its turn.
const bodyGrace = time.Hour

const partSuffix = ".part" // of a body being written

// Stage writes, syncs and renames a body, and syncs its directory.
func (s *Store) Stage(_ context.Context, name string, body []byte) error {
	if err := s.stage(name, body); err != nil {
		return &store.UnavailableError{Op: fmt.Sprintf("keep body %s", name), Reason: reasonOf(err), Err: err}
	}
	return nil
}

func (s *Store) stage(name string, body []byte) error {
	if err := s.makeSub(bodiesDir); err != nil {
		return err
	}
	tmp := s.path(bodiesDir, rand.Text()+partSuffix)
	err := writeSynced(tmp, body)
	if err == nil {
		err = s.at(AtStaged)
	}
	if err == nil {
		err = os.Rename(tmp, s.path(bodiesDir, name))
	}
	if err != nil {
		_ = os.Remove(tmp)
		return err
	}
	if err := s.at(AtRenamed); err != nil {
		return err
	}
	return syncDir(s.path(bodiesDir))
}

func (s *Store) makeSub(name string) error {
	if err := s.makeDir(); err != nil {
		return err
	}
	err := os.Mkdir(s.path(name), 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return syncDir(s.dir)
}

// Fetch reads a body.
func (s *Store) Fetch(_ context.Context, name string) ([]byte, error) {
	b, err := os.ReadFile(s.path(bodiesDir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("body %s: %w", name, store.ErrNoBody)
	}
	if err != nil {
		return nil, &store.UnavailableError{Op: fmt.Sprintf("read body %s", name), Reason: reasonOf(err), Err: err}
	}
	return b, nil
}

// Discard removes bodies; what fails is left for the sweep.
func (s *Store) Discard(names ...string) {
	for _, name := range names {
		_ = os.Remove(s.path(bodiesDir, name))
	}
}

// sweepBodies removes old bodies that nothing names.
func (s *Store) sweepBodies(named func(name string) bool) error {
	entries, err := os.ReadDir(s.path(bodiesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < bodyGrace {
			continue
		}
		if strings.HasSuffix(e.Name(), partSuffix) || !named(e.Name()) {
			_ = os.Remove(filepath.Join(s.path(bodiesDir), e.Name()))
		}
	}
	return nil
}
