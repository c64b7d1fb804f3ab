package hostside

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

// programVariable names the program under test: one that was built before, or
// the one that TestMain builds.
const programVariable = "MCPBRIDGE"

// TestMain builds the program once, with the race detector if the tests have it.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("10") // most of these tests wait for the clock
	}
	dir, err := os.MkdirTemp("", "mcpbridge-hostside-")
	if err == nil && os.Getenv(programVariable) == "" {
		err = build(filepath.Join(dir, programName()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the program:", err)
		os.Exit(1)
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
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
	if out, err := exec.Command("go", append(args, "..")...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return os.Setenv(programVariable, to)
}

func program() string { return os.Getenv(programVariable) }
