package boltstore

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// networkFileSystem names the network file system that holds path, or returns
// "". The numbers are those of statfs(2).
func networkFileSystem(path string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return ""
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "smb"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "afs"
	case unix.CODA_SUPER_MAGIC:
		return "coda"
	case unix.CEPH_SUPER_MAGIC:
		return "ceph"
	case unix.NCP_SUPER_MAGIC:
		return "ncp"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.FUSE_SUPER_MAGIC:
		return remoteFUSE(path)
	}
	return ""
}

// remoteFUSE names the type of a FUSE mount that is known to go over a network.
// Others (NTFS drivers, encrypted directories) are as local as what is below.
func remoteFUSE(path string) string {
	abs, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	kind := fileSystemOf(abs, string(mounts))
	for _, word := range []string{"sshfs", "s3fs", "goofys", "rclone", "gcsfuse", "gluster", "ceph", "davfs", "smb", "nfs"} {
		if strings.Contains(kind, word) {
			return kind
		}
	}
	return ""
}

// fileSystemOf finds the type of the mount that holds path in the text of
// mountinfo, see proc_pid_mountinfo(5).
func fileSystemOf(path, mountinfo string) string {
	kind, best := "", -1
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		types := strings.Fields(after)
		if !ok || len(fields) < 5 || len(types) < 1 {
			continue
		}
		point := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(fields[4])
		if below(path, point) && len(point) >= best {
			kind, best = types[0], len(point)
		}
	}
	return kind
}

func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
