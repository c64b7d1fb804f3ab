//go:build unix

package stdio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// TestMain plays a process of a test if the environment names one.
func TestMain(m *testing.M) {
	switch os.Getenv("STDIO_TEST_PROCESS") {
	case "answer":
		os.Exit(answerBrokenPipe())
	case "parent":
		os.Exit(startChild())
	case "child":
		os.Exit(watchParent())
	}
	goleak.VerifyTestMain(m)
}

// process returns this program as a process of that name.
func process(name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STDIO_TEST_PROCESS="+name)
	return cmd
}

// answerBrokenPipe writes to a stdout that nobody reads and lives to tell.
func answerBrokenPipe() int {
	bufio.NewReader(os.Stdin).ReadByte() // until the host is gone
	w := NewWriter(os.Stdout, WriterOptions{})
	e := NewStderr(os.Stderr)
	w.Notify("", []byte("x"))
	e.Write([]byte("x"))
	if err := errors.Join(w.Err(), e.Close(time.Second)); errors.Is(err, unix.EPIPE) {
		return 7
	}
	return 1
}

func TestBrokenStdoutDoesNotKill(t *testing.T) {
	t.Parallel()
	for _, m := range pipeMakers {
		out, stdout := m.make(t)
		stdin, in := newPipe(t)
		cmd := process("answer")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.Close()
		in.Close()
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// startChild starts a process that outlives this one.
func startChild() int {
	cmd := process("child")
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	if err := cmd.Start(); err != nil {
		return 1
	}
	io.Copy(io.Discard, os.Stdin) // until the child said hello
	return 0
}

// watchParent says what Gone says before its parent ends, and after.
func watchParent() int {
	p := CurrentParent()
	fmt.Println(p.Gone())
	tick := time.NewTicker(time.Millisecond) // Unix tells nobody that a parent ended
	defer tick.Stop()
	for range 10_000 {
		if p.Gone() {
			break
		}
		<-tick.C
	}
	fmt.Println(p.Gone())
	return 0
}

func TestParent(t *testing.T) {
	t.Parallel()
	stdin, in := newPipe(t)
	r, out := newPipe(t)
	cmd := process("parent")
	cmd.Stdin, cmd.Stdout = stdin, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Close()
	lines := bufio.NewReader(r)
	if got := readLine(t, lines); got != "false" {
		t.Errorf("with its parent: %s", got)
	}
	in.Close() // ends the parent
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := readLine(t, lines); got != "true" {
		t.Errorf("without its parent: %s", got)
	}
}

func TestParentThatIsNotJudged(t *testing.T) {
	t.Parallel()
	for pid := range 2 {
		if (Parent{pid}).Gone() {
			t.Errorf("parent %d is gone", pid)
		}
	}
}
