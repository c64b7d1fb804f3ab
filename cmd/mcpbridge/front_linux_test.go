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
	"github.com/mcpbridge/mcpbridge/bridge/stdio"
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

// A worker that a passed signal ends before it could listen to it has left as it
// was told to; one that another signal ends has not.
func TestSignalMeetsAWorkerThatDoesNotListenYet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		passed, deadly syscall.Signal
		want           int
	}{
		{syscall.SIGTERM, 0, exitOK},
		{syscall.SIGHUP, 0, exitOK},
		{0, syscall.SIGKILL, 128 + int(syscall.SIGKILL)},
	} {
		lifeEnd, life, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		release, releaseEnd, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		sleep, err := exec.LookPath("sleep")
		if err != nil {
			t.Skip("there is no sleep to stand for the worker")
		}
		f := &front{signals: make(chan os.Signal, 1), life: life, release: release}
		f.worker, err = syscall.ForkExec(sleep, []string{"sleep", "600"}, &syscall.ProcAttr{
			Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), lifelineFD: lifeEnd.Fd(), releaseFD: releaseEnd.Fd()},
		})
		for _, file := range []*os.File{null, lifeEnd, releaseEnd} {
			_ = file.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.passed != 0 {
			f.signals <- c.passed
		} else if err := syscall.Kill(f.worker, c.deadly); err != nil {
			t.Fatal(err)
		}
		if code := f.wait(stdio.CurrentParent()); code != c.want {
			t.Errorf("%v passed on, %v met it: exit code %d, want %d", c.passed, c.deadly, code, c.want)
		}
		_, _ = life.Close(), release.Close()
	}
}
