package boltstore

import "testing"

func TestFileSystemOfPath(t *testing.T) {
	t.Parallel()
	const mounts = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /home/me rw - fuse.sshfs me@host:/ rw
31 22 0:27 / /home/me/local\040disk rw shared:2 master:3 - fuse.ntfs /dev/sdb1 rw
broken line
`
	for path, want := range map[string]string{
		"/":                        "ext4",
		"/home/meister":            "ext4",
		"/home/me":                 "fuse.sshfs",
		"/home/me/state":           "fuse.sshfs",
		"/home/me/local disk/deep": "fuse.ntfs",
	} {
		if got := fileSystemOf(path, mounts); got != want {
			t.Errorf("%s is on %q, want %q", path, got, want)
		}
	}
}
