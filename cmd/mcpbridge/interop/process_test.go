package interop

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/cmd/mcpbridge/programtest"
)

// endLimit is how long a host waits for the program to end by itself after
// its input has ended: --drain and half a second, and as much again because the
// machine may be busy.
const endLimit = 4 * time.Second

// A process is one start of the program under test.
type process struct {
	cmd    *exec.Cmd
	stderr *transcript
}

// command prepares a start of the program on the upstream, with a state
// directory and a home of its own.
func command(t *testing.T, up *upstream) *process {
	t.Helper()
	args := append([]string{"--state-dir", t.TempDir()}, up.flags...)
	cmd := exec.Command(programtest.Path(), append(args, up.url)...)
	home := t.TempDir()
	// A program with the race detector would sleep for a second when it ends.
	cmd.Env = append(cmd.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_STATE_HOME="+home, "GORACE=atexit_sleep_ms=0")
	p := &process{cmd: cmd, stderr: &transcript{}}
	cmd.Stderr = p.stderr
	return p
}

// checkEnd checks how the program ended once its host has closed it.
func (p *process) checkEnd(t *testing.T) {
	t.Helper()
	if p.cmd.ProcessState == nil {
		t.Error("the program has not ended")
	} else if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d after the end of input, want 0", code)
	}
	said := p.stderr.String()
	for _, word := range []string{"DATA RACE", "panic:", "goroutine "} {
		if strings.Contains(said, word) {
			t.Errorf("%q on standard error:\n%s", word, said)
			return
		}
	}
	if t.Failed() && said != "" {
		t.Logf("standard error:\n%s", said)
	}
}

// A transcript is a buffer that a process may write while a test reads it.
type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}
