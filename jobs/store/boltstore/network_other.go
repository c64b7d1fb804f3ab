//go:build !linux && !darwin && !windows

package boltstore

// networkFileSystem cannot tell on this system.
func networkFileSystem(string) string { return "" }
