//go:build unix

package auth

import "io/fs"

// private reports whether a file of this mode belongs to its owner alone.
func private(mode fs.FileMode) bool { return mode.Perm()&0o077 == 0 }
