//go:build unix

package bridge

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func unlinkOpen(name string) { os.Remove(name) }

// Map returns what was written so far as memory backed by the file.
func (s *spool) Map() ([]byte, error) {
	info, err := s.Stat()
	if err != nil {
		return nil, fmt.Errorf("map spool file: %w", err)
	}
	if info.Size() == 0 {
		return nil, nil
	}
	s.mapped, err = unix.Mmap(int(s.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map spool file: %w", err)
	}
	return s.mapped, nil
}

// Close gives back the memory and the file.
func (s *spool) Close() error {
	if s.mapped != nil {
		unix.Munmap(s.mapped)
		s.mapped = nil
	}
	return s.File.Close()
}
