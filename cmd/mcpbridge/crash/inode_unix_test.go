//go:build unix

package crash

import (
	"io/fs"
	"syscall"
)

func inodeOf(info fs.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Ino) }
