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

// unlockBolt frees the lock that bbolt took on its file.
func unlockBolt(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

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
