//go:build !unix

package bridge

import (
	"fmt"
	"io"
	"os"
)

// unlinkOpen does nothing: an open file keeps its name here until Close.
func unlinkOpen(string) {}

// Map reads the file back: there is no private mapping to be had without more
// machinery, and by now other bodies may have been given back.
func (s *spool) Map() ([]byte, error) {
	if _, err := s.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read spool file: %w", err)
	}
	b, err := io.ReadAll(s.File)
	if err != nil {
		return nil, fmt.Errorf("read spool file: %w", err)
	}
	return b, nil
}

// Close removes the file.
func (s *spool) Close() error {
	err := s.File.Close()
	os.Remove(s.Name())
	return err
}
