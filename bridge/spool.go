package bridge

import (
	"fmt"
	"os"
	"path/filepath"
)

// A spool is a private file without a name that stands in for memory.
type spool struct {
	*os.File
	mapped []byte
}

// newSpool makes a spool in the state directory. The file has lost its name
// before anything is written to it where the system allows that, so a killed
// process leaves nothing behind.
func newSpool(stateDir string) (*spool, error) {
	dir := os.TempDir()
	if stateDir != "" {
		dir = filepath.Join(stateDir, "spool")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make spool directory: %w", err)
		}
	}
	f, err := os.CreateTemp(dir, "body-*")
	if err != nil {
		return nil, fmt.Errorf("make spool file: %w", err)
	}
	unlinkOpen(f.Name())
	return &spool{File: f}, nil
}
