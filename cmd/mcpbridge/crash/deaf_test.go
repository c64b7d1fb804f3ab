package crash

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// A deafHost is a host that stops reading what the program writes, so that
// lines stay in the pipe or cannot leave the program at all.
type deafHost struct {
	*world
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *os.File
	lines *bufio.Reader
}

// startDeaf starts the program and shakes hands; after that nothing is read.
func (w *world) startDeaf(args ...string) *deafHost {
	w.t.Helper()
	c := w.command(args...)
	h := &deafHost{world: w, cmd: exec.Command(c[0], c[1:]...)}
	h.cmd.Env, h.cmd.Dir = environment(w.home), w.home
	stdin, err := h.cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, outEnd, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	h.stdin, h.out, h.lines, h.cmd.Stdout = stdin, out, bufio.NewReaderSize(out, 1<<20), outEnd
	if err := h.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	_ = outEnd.Close()
	w.t.Cleanup(h.end)
	h.shakeHands()
	return h
}

func (h *deafHost) end() {
	_ = h.stdin.Close()
	_ = h.cmd.Process.Kill() // it may have ended
	_ = h.cmd.Wait()
	_ = h.out.Close()
}

// shakeHands does the legacy handshake, which serves a server of any era, and
// waits for the list of tools.
func (h *deafHost) shakeHands() {
	h.write(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"deaf","version":"1"}}}`)
	h.until("the handshake", func() bool { return strings.Contains(h.read(), `"id":"i"`) })
	h.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	h.until("the list of tools", func() bool {
		h.write(`{"jsonrpc":"2.0","id":"l","method":"tools/list"}`)
		for {
			if line := h.read(); strings.Contains(line, `"id":"l"`) {
				return strings.Contains(line, `"now"`)
			}
		}
	})
}

func (h *deafHost) write(line string) {
	if _, err := io.WriteString(h.stdin, line+"\n"); err != nil {
		h.t.Fatal(err)
	}
}

func (h *deafHost) read() string {
	line, err := h.lines.ReadString('\n')
	if err != nil {
		h.t.Fatalf("read: %v", err)
	}
	return line
}

// fill makes the program write until the pipe is full: a pipe takes 64 KiB at
// most unless somebody enlarged it.
func (h *deafHost) fill() {
	name := strings.Repeat("x", 1000)
	for i := range 200 {
		h.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s%d","method":"ping"}`, name, i))
	}
}

func (h *deafHost) call(id, tool, arguments string) {
	h.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":%s}`, id, bridgetest.ToolParams(tool, arguments)))
}
