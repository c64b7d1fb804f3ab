package jobs

import (
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

// Open returns the journal of a state directory. It touches nothing there; the
// directory is made by the first change. A *boltstore.NetworkError means that
// the directory is on a network file system.
func Open(dir string, opts Options, file boltstore.Options) (*Journal, error) {
	file.Schema = Schema()
	s, err := boltstore.Open(dir, file)
	if err != nil {
		return nil, err
	}
	return New(s, opts), nil
}
