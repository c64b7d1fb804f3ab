//go:build unix && !darwin

package auth

import (
	"os"
	"path/filepath"
)

// keyringReachable reports whether a session bus runs. Without this check the
// D-Bus library would start one.
func keyringReachable() bool {
	if os.Getenv("DBUS_SESSION_BUS_ADDRESS") != "" {
		return true
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		return false
	}
	info, err := os.Stat(filepath.Join(dir, "bus"))
	return err == nil && info.Mode().Type() == os.ModeSocket
}
