package boltstore

import (
	"fmt"
	"os"
	"path/filepath"
)

// A NetworkError refuses a state directory on a network file system.
type NetworkError struct {
	Dir        string
	FileSystem string // such as "nfs"
}

func (e *NetworkError) Error() string {
	return fmt.Sprintf("state directory %q is on a network file system (%s), where its locks do not hold: "+
		"name a local directory with --state-dir, or accept the risk with --allow-network-state", e.Dir, e.FileSystem)
}

// refuseNetwork looks at dir, or at the nearest directory above it that exists.
// What cannot be found out counts as local.
func refuseNetwork(dir string) error {
	at := dir
	for {
		if _, err := os.Stat(at); err == nil {
			break
		}
		up := filepath.Dir(at)
		if up == at {
			return nil
		}
		at = up
	}
	if name := networkFileSystem(at); name != "" {
		return &NetworkError{Dir: dir, FileSystem: name}
	}
	return nil
}
