package boltstore

import "golang.org/x/sys/unix"

// networkFileSystem names the network file system that holds path, or returns
// "".
func networkFileSystem(path string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil || st.Flags&unix.MNT_LOCAL != 0 {
		return ""
	}
	return unix.ByteSliceToString(st.Fstypename[:])
}
