package main

import (
	"os"
	"path/filepath"
	"runtime"
)

// defaultStateDir is where the platform keeps what a program notes for itself.
// It is only named here; whoever needs it first creates it. "" if the system
// knows none, as in a process without HOME.
func defaultStateDir(env lookup) string { return stateDirOn(runtime.GOOS, env) }

func stateDirOn(system string, env lookup) string {
	get := func(name string) string { v, _ := env(name); return v }
	home := get("HOME")
	switch {
	case system == "windows":
		return below(get("LOCALAPPDATA"), "mcpbridge")
	case system == "darwin":
		return below(home, "Library", "Application Support", "mcpbridge")
	}
	// XDG base directories, version 0.8: a relative path is to be ignored.
	if state := get("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return below(state, "mcpbridge")
	}
	return below(home, ".local", "state", "mcpbridge")
}

func below(dir string, names ...string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, names...)...)
}

// makePrivate creates dir and what is missing above it, for this user only.
func makePrivate(dir string) error { return os.MkdirAll(dir, 0o700) }
