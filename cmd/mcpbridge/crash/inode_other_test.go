//go:build !unix

package crash

import "io/fs"

func inodeOf(fs.FileInfo) uint64 { return 0 }
