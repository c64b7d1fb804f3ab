package boltstore

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// networkFileSystem names the network file system that holds path, or returns
// "".
func networkFileSystem(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	volume := filepath.VolumeName(abs)
	if strings.HasPrefix(volume, `\\`) && !strings.HasPrefix(volume, `\\?\`) && !strings.HasPrefix(volume, `\\.\`) {
		return "share " + volume
	}
	root, err := windows.UTF16PtrFromString(volume + `\`)
	if err == nil && windows.GetDriveType(root) == windows.DRIVE_REMOTE {
		return "drive " + volume
	}
	return ""
}
