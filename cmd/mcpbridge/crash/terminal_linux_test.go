package crash

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal makes a terminal: what a program sees, and what a person has.
func openTerminal(t *testing.T) (program, person *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return program, person
}

// stopsBackground makes a terminal stop the background processes of its session
// that write to it.
func stopsBackground(t *testing.T, terminal *os.File) {
	t.Helper()
	fd := int(terminal.Fd())
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mode.Lflag |= unix.TOSTOP
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, mode); err != nil {
		t.Fatal(err)
	}
}

// A worker is in the background of its host's terminal, and logs to it: that
// does not stop it, whatever the terminal is told.
func TestLogOnATerminal(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	end, person := openTerminal(t)
	stopsBackground(t, end)
	c := w.command("--log-level=debug")
	cmd := exec.CommandContext(w.ctx, c[0], c[1:]...)
	cmd.Env, cmd.Dir = environment(w.home), w.home
	cmd.Stderr = end
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	_ = end.Close()
	logged := bufio.NewReader(person)
	for id := 1; id <= 2; id++ {
		if _, err := fmt.Fprintf(stdin, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcpbridge_job"}}`+"\n", id); err != nil {
			t.Fatal(err)
		}
		if _, err := logged.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(stdout)
	for n := 0; n < 2 && lines.Scan(); n++ {
		if !strings.Contains(lines.Text(), `"result"`) || strings.Contains(lines.Text(), "linger: off") {
			t.Errorf("answer %s", lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}

// On a terminal one process serves: after Ctrl-Z a worker outside the session
// would take the lines that are typed.
func TestTerminal(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	end, person := openTerminal(t)
	c := w.command()
	cmd := exec.Command(c[0], c[1:]...)
	cmd.Env, cmd.Dir = environment(w.home), w.home
	cmd.Stdin, cmd.Stdout = end, end
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := person.WriteString(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcpbridge_job"}}` + "\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(person)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() { // the first line is what was typed
		if strings.Contains(lines.Text(), `"result"`) {
			break
		}
	}
	if !strings.Contains(lines.Text(), "linger: off (on a terminal)") {
		t.Errorf("a worker on a terminal: %q, %v", lines.Text(), lines.Err())
	}
	if list := children(cmd.Process.Pid); len(list) > 0 {
		t.Errorf("it has children: %v", list)
	}
}
