//go:build !unix

package crash

import "testing"

// splits says whether there are workers on this system.
const splits = false

func killGroup(t testing.TB, leader int) {
	t.Helper()
	kill(t, leader)
}
