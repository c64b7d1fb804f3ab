//go:build unix

package crash

import (
	"errors"
	"syscall"
	"testing"
)

const splits = true

// killGroup ends all processes of a group by SIGKILL, as a host does.
func killGroup(t testing.TB, leader int) {
	t.Helper()
	err := syscall.Kill(-leader, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		err = syscall.Kill(leader, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatalf("kill group %d: %v", leader, err)
	}
}
