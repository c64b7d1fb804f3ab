// Package programtest builds the program for the tests that start it as a host
// does, once for all tests of a package.
package programtest

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// Variable is the environment variable that names a program to test in place of
// the one that is built: the path of a file.
const Variable = "MCPBRIDGE"

// source is what is built, and module what it may be built from.
const (
	source = "github.com/mcpbridge/mcpbridge/cmd/mcpbridge"
	module = "../../.." // from the folder of the tests
)

// Path returns the path of the program under test.
func Path() string { return os.Getenv(Variable) }

// Main is for TestMain: it builds the program, runs the tests and exits. Tests
// that leave goroutines behind have failed.
func Main(m *testing.M) {
	flag.Parse()
	remove, err := provide()
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
	remove()
	os.Exit(code)
}

// provide makes Path name a program.
func provide() (remove func(), err error) {
	if given := Path(); given != "" {
		path, err := filepath.Abs(given)
		if err != nil {
			return nil, err
		}
		return func() {}, os.Setenv(Variable, path)
	}
	dir, err := os.MkdirTemp("", "mcpbridge-test-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "mcpbridge")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	if err := build(path); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return func() { _ = os.RemoveAll(dir) }, os.Setenv(Variable, path)
}

// build compiles the program, with the race detector if the tests have it.
func build(path string) error {
	args := []string{"build", "-o", path}
	if RaceDetector {
		args = append(args, "-race")
	}
	if text, err := exec.Command("go", append(args, source)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	return nil
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

// Sources looks at all that the program is built from, so that go test knows
// when an earlier result of a package is that of another program.
func Sources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(filepath.FromSlash(module), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".git"):
			return fs.SkipDir
		case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go"), d.Name() == "go.mod":
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
