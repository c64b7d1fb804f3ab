package crash

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// callLimit bounds whatever a test waits for; it says nothing about the bridge.
const callLimit = 60 * time.Second

// Environment of these tests.
const (
	programVariable = "CRASH_PROGRAM" // the program under test; built if it is not set
	fullVariable    = "CRASH_FULL"    // "1" runs the whole table and the long hammer
	seedVariable    = "CRASH_SEED"    // picks what a short run looks at
	tableVariable   = "CRASH_TABLE"   // file for the table, as markdown
)

// TestMain builds the program once, with the race detector if the tests have it.
func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "mcpbridge-crash-")
	if err == nil && os.Getenv(programVariable) == "" {
		name := filepath.Join(dir, programName())
		err = build(name)
		_ = os.Setenv(programVariable, name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the program:", err)
		os.Exit(1)
	}
	code := m.Run()
	if code == 0 {
		if err := leaks(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// leaks reports goroutines that outlive the tests. A server's connection takes
// half a second to close, in net/http.
func leaks() (err error) {
	for range 10 {
		if err = goleak.Find(); err == nil {
			return nil
		}
	}
	return err
}

func programName() string {
	if runtime.GOOS == "windows" {
		return "mcpbridge.exe"
	}
	return "mcpbridge"
}

func build(to string) error {
	args := []string{"build", "-o", to}
	if raceDetector {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "..")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func program() string { return os.Getenv(programVariable) }

func full() bool { return os.Getenv(fullVariable) == "1" }
