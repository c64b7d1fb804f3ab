package cost

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// programVariable names the program to measure; it is built if it is not set.
const programVariable = "COST_PROGRAM"

// TestMain builds the program as users have it, if there is something to measure.
func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "mcpbridge-cost-")
	if bench := flag.Lookup("test.bench"); err == nil && bench.Value.String() != "" && os.Getenv(programVariable) == "" {
		path := filepath.Join(dir, "mcpbridge")
		if runtime.GOOS == "windows" {
			path += ".exe"
		}
		err = build(path)
		_ = os.Setenv(programVariable, path)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the program:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func build(path string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func program() string { return os.Getenv(programVariable) }
