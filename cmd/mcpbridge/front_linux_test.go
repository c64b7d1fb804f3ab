package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// What a host left open by mistake is not held by a worker that outlives it.
func TestLeakedDescriptor(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	path, err := exec.LookPath("mcpbridge")
	if err != nil {
		t.Fatal(err)
	}
	ours, leaked, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	cmd := exec.Command(path, "--drain=10ms", "--state-dir="+t.TempDir(), up.URL())
	cmd.Env = []string{"HOME=" + t.TempDir(), "GORACE=atexit_sleep_ms=0"}
	cmd.ExtraFiles = []*os.File{leaked, leaked, leaked} // two of them where the worker's own pipes go
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = leaked.Close()
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + bridgetest.ToolParams("slow_write", `{"key":"k","ms":1500}`) + "}\n"
	if _, err := io.WriteString(stdin, call); err != nil {
		t.Fatal(err)
	}
	err = up.Ledger().Wait(limited(t), func(v *bridgetest.View) bool { return v.Deliveries("slow_write") == 1 })
	if err != nil {
		t.Fatal(err)
	}
	worker := watchProcess(t, children(t, cmd.Process.Pid)[0])
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := ours.SetReadDeadline(time.Now().Add(someLoad)); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the pipe is still open: %v", err)
	}
	if !worker.ended(awaitLimit) {
		t.Error("the worker stays")
	}
	if n := up.Ledger().Effects("slow_write"); n != 1 {
		t.Errorf("%d effects, want 1: the worker was to finish the call", n)
	}
}

// A variable alone makes no worker: the descriptor that it names must be there.
func TestForgedFront(t *testing.T) {
	t.Parallel()
	host, _ := startBridge(t, []string{frontVariable + "=1:1"}, startUpstream(t).URL())
	if _, err := host.Initialize(limited(t), "2025-06-18", "{}"); err != nil {
		t.Fatal(err)
	}
	if n := len(children(t, host.PID())); n != 1 {
		t.Errorf("%d children, want the worker", n)
	}
}

// A host that is gone although its pipe is held open by somebody is gone.
func TestHostProcessGone(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("mcpbridge")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `exec 3<&0; "$@" <&3 3<&- & echo $!; wait`, "sh", path, startUpstream(t).URL())
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := out.ReadString('\n'); err != nil || !strings.Contains(line, `"result"`) {
		t.Fatalf("%q, %v", line, err)
	}
	fronts := children(t, cmd.Process.Pid)
	if len(fronts) != 1 {
		t.Fatalf("the shell has the children %v", fronts)
	}
	front := watchProcess(t, fronts[0])
	worker := watchProcess(t, children(t, front.pid)[0])
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !worker.ended(awaitLimit) || !front.ended(someLoad) {
		t.Error("they stay without their host")
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
}
