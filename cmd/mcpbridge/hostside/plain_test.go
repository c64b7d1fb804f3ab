package hostside

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A plain is a process on pipes that nobody reads unless the test does.
type plain struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	errs   *os.File
	lines  *bufio.Reader
	exited chan struct{}
}

func startPlain(t testing.TB, command ...string) *plain {
	t.Helper()
	p := &plain{t: t, exited: make(chan struct{})}
	home := t.TempDir()
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env, p.cmd.Dir = environment(home), home
	var ends [3]*os.File
	var err error
	for i, end := range []**os.File{&p.in, &p.out, &p.errs} {
		var reader, writer *os.File
		if reader, writer, err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
		ends[i], *end = writer, reader
		if i == 0 {
			ends[i], *end = reader, writer
		}
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = ends[0], ends[1], ends[2]
	err = p.cmd.Start()
	for _, end := range ends {
		_ = end.Close() // the process has them
	}
	if err != nil {
		t.Fatal(err)
	}
	p.lines = newLines(p.out)
	go func() {
		_ = p.cmd.Wait() // its state tells
		close(p.exited)
	}()
	t.Cleanup(p.stop)
	return p
}

// stop ends the process and looks at what is left in stderr.
func (p *plain) stop() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
	if p.errs.SetReadDeadline(time.Now().Add(50*time.Millisecond)) == nil { // its worker may have it open still
		log, _ := io.ReadAll(p.errs)
		if bytes.Contains(log, []byte("DATA RACE")) || bytes.Contains(log, []byte("panic:")) {
			p.t.Errorf("standard error: %s", log)
		}
	}
	for _, f := range []*os.File{p.in, p.out, p.errs} {
		_ = f.Close() // or is closed already
	}
}

func plainCommand(t testing.TB, args ...string) []string {
	return append([]string{program(), "--state-dir=" + t.TempDir(), "--server-id=crm"}, args...)
}

// send writes lines from a goroutine of its own: the process may not be reading.
func (p *plain) send(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		if _, err := p.in.WriteString(line + "\n"); err != nil {
			p.t.Fatalf("write %.80q: %v", line, err)
		}
	}
}

// next reads one line.
func (p *plain) next() string {
	p.t.Helper()
	_ = p.out.SetReadDeadline(time.Now().Add(testLimit)) // pipes of Windows have none
	line, err := p.lines.ReadBytes('\n')
	if err != nil {
		p.t.Fatalf("read a line: %v", err)
	}
	return string(bytes.TrimSuffix(line, []byte("\n")))
}

// nextWith reads up to a line that holds the text.
func (p *plain) nextWith(text string) string {
	p.t.Helper()
	for {
		if line := p.next(); bytes.Contains([]byte(line), []byte(text)) {
			return line
		}
	}
}

func (p *plain) initialize() {
	p.t.Helper()
	p.send(message("0", "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"plain","version":"1"}}`))
	p.nextWith(`"id":0`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// knowTool waits until the program knows the server's tool, and with it that it
// only reads.
func (p *plain) knowTool(name string) {
	p.t.Helper()
	for line := ""; !strings.Contains(line, `"`+name+`"`); {
		p.send(message(`"list"`, "tools/list", "{}"))
		line = p.nextWith(`"id":"list"`)
	}
}

// ends waits for the end of the process, which is to come in time.
func (p *plain) ends(within time.Duration) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), within)
	defer cancel()
	select {
	case <-p.exited:
	case <-ctx.Done():
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		_ = p.errs.SetReadDeadline(time.Now().Add(3 * time.Second))
		log, _ := io.ReadAll(p.errs)
		p.t.Errorf("the process is still there after %v: %s", within, log)
	}
}

func toolLine(id, name, arguments string) string {
	return message(id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
}

func newLines(f *os.File) *bufio.Reader { return bufio.NewReaderSize(f, 64<<10) }
