// Package interop proves that hosts and servers of others work with each other
// through the program itself: each test starts the built mcpbridge on pipes, in
// front of it a client that is not ours, behind it a server.
//
// Every host meets every upstream, and each pair goes through the same features.
// node/ holds the same for the packages of the official TypeScript SDK, and
// conformance.txt what the conformance suite is known to say.
package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

// binary is the path of the program under test, set once by TestMain.
var binary string

// binaryVariable names a program to test in place of one built here.
const binaryVariable = "MCPBRIDGE"

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "mcpbridge-interop-")
	if err != nil {
		fail(err)
	}
	if binary = os.Getenv(binaryVariable); binary == "" {
		binary, err = build(dir)
	} else {
		binary, err = filepath.Abs(binary)
	}
	if err != nil {
		fail(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fail(err)
		}
	}
	os.Exit(code)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// build compiles the program, with the race detector if the tests have it.
func build(dir string) (string, error) {
	out := filepath.Join(dir, "mcpbridge")
	if runtime.GOOS == "windows" {
		out += ".exe"
	}
	args := append([]string{"build", "-o", out}, buildFlags()...)
	cmd := exec.Command("go", append(args, "github.com/mcpbridge/mcpbridge/cmd/mcpbridge")...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build mcpbridge: %w\n%s", err, text)
	}
	return out, nil
}
