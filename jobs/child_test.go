package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

// The test binary runs itself as the processes that share a journal. What a
// child is to do comes in this variable, as JSON.
const childVariable = "JOBS_TEST_CHILD"

// A childTask is what one child does.
type childTask struct {
	Do     string // "crash", "hammer" or "full"
	Dir    string
	Ledger string

	Point boltstore.Point // crash: die here,
	Nth   int             // at the nth time,
	Spoil bool            // after having damaged the journal

	Jobs   int // hammer: jobs to run,
	After  int // whose numbers come after this one
	Polite bool

	Announce bool // print each handle that was told
}

func runChild() bool {
	text := os.Getenv(childVariable)
	if text == "" {
		return false
	}
	var task childTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		fail(err)
	}
	switch task.Do {
	case "crash":
		crashChild(task)
	case "hammer":
		hammerChild(task)
	case "full":
		fullDiskChild(task)
	default:
		fail(fmt.Errorf("unknown task %q", task.Do))
	}
	return true
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

// startChild starts this test binary on a task; it is killed when the test ends.
func startChild(t testing.TB, task childTask) *exec.Cmd {
	t.Helper()
	cmd := childCommand(t, task)
	cmd.Stdout = os.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func childCommand(t testing.TB, task childTask) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	return cmd
}

// A ledger is a file that children append whole lines to: the ground truth of
// what was sent and what was told.
type ledger struct{ f *os.File }

func openLedger(path string) ledger {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	check(err)
	return ledger{f}
}

func (l ledger) add(what string, h jobs.Handle) {
	_, err := fmt.Fprintf(l.f, "%s %s\n", what, h)
	check(err)
}

// readLedger returns the handles by what happened to them, in order.
func readLedger(t testing.TB, path string) map[string][]jobs.Handle {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	got := make(map[string][]jobs.Handle)
	for line := range strings.Lines(string(b)) {
		what, h, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok {
			t.Fatalf("ledger holds half a line: %q", line)
		}
		got[what] = append(got[what], jobs.Handle(h))
	}
	return got
}

// die ends this process as SIGKILL does: nothing is flushed, nothing deferred.
func die() {
	p, err := os.FindProcess(os.Getpid())
	check(err)
	check(p.Kill())
	select {}
}

var account = jobs.Account{Server: "crm", Principal: "anonymous"}

func numbered(n int, size int) jobs.Call {
	return jobs.Call{Account: account, Tool: "add", Arguments: fmt.Appendf(nil, `{"n":%d,"pad":%q}`, n, strings.Repeat("x", size))}
}

func completed(result string) jobs.End {
	return jobs.End{State: jobs.Completed, Effect: jobs.Reported, Evidence: jobs.ToolResult, EndedBy: "upstream",
		Result: []byte(result), Kind: jobs.ToolAnswer}
}
