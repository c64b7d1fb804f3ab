package boltstore

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/windows"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// permissionsMatter: access lists are inherited from the user's profile.
const permissionsMatter = false

// syncDir does nothing: NTFS journals names, and directories cannot be synced.
func syncDir(string) error { return nil }

// reasonOf sorts an error of the system.
func reasonOf(err error) store.Reason {
	switch {
	case errors.Is(err, windows.ERROR_DISK_FULL), errors.Is(err, windows.ERROR_HANDLE_DISK_FULL), errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED):
		return store.Full
	case errors.Is(err, windows.ERROR_WRITE_PROTECT), errors.Is(err, fs.ErrPermission):
		return store.ReadOnly
	}
	return store.Broken
}
