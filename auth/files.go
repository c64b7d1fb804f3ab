package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// makePrivateDir creates dir for the user alone, and narrows one that is wider.
func makePrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%q is not a directory", dir)
	}
	if !private(info.Mode()) {
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// readOwn reads a file of ours. Symbolic links are refused: somebody else chose
// where they lead. A mode that is too wide is narrowed.
func readOwn(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file; refused", path)
	}
	if info.Size() > maxDocument {
		return nil, fmt.Errorf("%q is larger than %d bytes", path, maxDocument)
	}
	if !private(info.Mode()) {
		if err := os.Chmod(path, 0o600); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(path)
}

// replaceFile writes a file for the user alone. Readers see the old content or
// the new, whole; after a crash as well, because content and directory are
// synced around the rename.
func replaceFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%q is not a regular file; refused", path)
	}
	tmp, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails after the rename, as it should
	if err := fill(tmp, content); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	syncDir(dir)
	return nil
}

func fill(f *os.File, content []byte) error {
	_, err := f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes a rename durable where directories can be synced.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) // below a file nothing can be
}
