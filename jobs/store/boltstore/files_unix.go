//go:build unix

package boltstore

import (
	"errors"
	"os"
	"syscall"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// permissionsMatter: the mode bits say who may read.
const permissionsMatter = true

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // some file systems have no such thing
	}
	return errors.Join(err, d.Close())
}

// lockFile locks a file, for it alone or shared; it waits, or reports false if
// another holds it.
func lockFile(f *os.File, shared, wait bool) (bool, error) {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		switch err := syscall.Flock(int(f.Fd()), how); {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case err != nil:
			return false, os.NewSyscallError("flock", err)
		}
		return true, nil
	}
}

func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// unlockBolt frees the lock that bbolt took on its file.
func unlockBolt(f *os.File) error { return unlockFile(f) }

// reasonOf sorts an error of the system.
func reasonOf(err error) store.Reason {
	switch {
	case isAny(err, syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG):
		return store.Full
	case isAny(err, syscall.EROFS, syscall.EACCES, syscall.EPERM):
		return store.ReadOnly
	}
	return store.Broken
}
