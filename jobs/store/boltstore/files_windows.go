package boltstore

import (
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
	case isAny(err, windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED):
		return store.Full
	case isAny(err, windows.ERROR_WRITE_PROTECT, windows.ERROR_ACCESS_DENIED):
		return store.ReadOnly
	}
	return store.Broken
}
