package boltstore

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// permissionsMatter: access lists are inherited from the user's profile.
const permissionsMatter = false

// syncDir does nothing: NTFS journals names, and directories cannot be synced.
func syncDir(string) error { return nil }

// lockFile locks the first byte of a file, for it alone or shared; it waits, or
// reports false if another holds it.
func lockFile(f *os.File, shared, wait bool) (bool, error) {
	var flags uint32
	if !shared {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	if !wait {
		flags |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	switch {
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	case err != nil:
		return false, os.NewSyscallError("LockFileEx", err)
	}
	return true, nil
}

func unlockFile(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{})
}

// unlockBolt frees the lock that bbolt took on its file: one byte, at the very
// end of what can be addressed.
func unlockBolt(f *os.File) error {
	const last = 1<<32 - 1
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{Offset: last, OffsetHigh: last})
}

// reasonOf sorts an error of the system.
func reasonOf(err error) store.Reason {
	switch {
	case isAny(err, windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED):
		return store.Full
	case isAny(err, windows.ERROR_WRITE_PROTECT, windows.ERROR_ACCESS_DENIED):
		return store.ReadOnly
	}
	return store.Broken
}
