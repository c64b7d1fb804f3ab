package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
	"golang.org/x/sys/unix"
)

// A process is one that is no child of the test.
type process struct {
	pid int
	fd  int // of the process itself, not of its number
}

func watchProcess(t *testing.T, pid int) process {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	p := process{pid, fd}
	t.Cleanup(func() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		_ = unix.Close(fd)
	})
	return p
}

// ended waits for the end of p.
func (p process) ended(limit time.Duration) bool {
	for until := time.Now().Add(limit); ; {
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(0, time.Until(until).Milliseconds())))
		if err != unix.EINTR {
			return n == 1
		}
	}
}

func (p process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := unix.PidfdSendSignal(p.fd, s, nil, 0); err != nil {
		t.Fatal(err)
	}
}

// link returns what a link in the process's directory of /proc points to.
func (p process) link(name string) string {
	target, _ := os.Readlink(fmt.Sprintf("/proc/%d/%s", p.pid, name))
	return target
}

// children lists the processes that pid started.
func children(t *testing.T, pid int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var list []int
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}

// A rig is a host with its bridge and all that it needs.
type rig struct {
	up     *bridgetest.Upstream
	host   *bridgetest.Host
	worker process
	state  string
}

// startRig starts a bridge and has it answer initialize.
func startRig(t *testing.T, args ...string) *rig {
	t.Helper()
	r := &rig{up: startUpstream(t), state: filepath.Join(t.TempDir(), "state")}
	r.host, _ = startBridge(t, nil, append(args, "--state-dir="+r.state, r.up.URL())...)
	if _, err := r.host.Initialize(limited(t), "2025-06-18", "{}"); err != nil {
		t.Fatal(err)
	}
	list := children(t, r.host.PID())
	if len(list) != 1 {
		t.Fatalf("the front has %d children, want the worker", len(list))
	}
	r.worker = watchProcess(t, list[0])
	return r
}

// write begins a call that takes a while and returns when it has arrived.
func (r *rig) write(t *testing.T, ms int) {
	t.Helper()
	params := bridgetest.ToolParams("slow_write", fmt.Sprintf(`{"key":"k","ms":%d}`, ms))
	if err := r.host.Request(r.host.NextID(), "tools/call", params); err != nil {
		t.Fatal(err)
	}
	err := r.up.Ledger().Wait(limited(t), func(v *bridgetest.View) bool { return v.Deliveries("slow_write") == 1 })
	if err != nil {
		t.Fatal(err)
	}
}

// job returns the only job of the journal.
func (r *rig) job(t *testing.T) jobs.Job {
	t.Helper()
	list := r.list(t)
	if len(list) != 1 {
		t.Fatalf("%d jobs, want 1", len(list))
	}
	return list[0]
}

// list returns the jobs of the journal.
func (r *rig) list(t *testing.T) []jobs.Job {
	t.Helper()
	j, err := jobs.Open(r.state, jobs.Options{}, boltstore.Options{AllowNetwork: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close(context.Background()) }()
	list, err := j.List(limited(t), jobs.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// checkFinished waits for the worker and checks that the call's result is kept.
func (r *rig) checkFinished(t *testing.T) {
	t.Helper()
	if !r.worker.ended(awaitLimit) {
		t.Fatal("the worker stays after the call has ended")
	}
	job := r.job(t)
	if job.State != jobs.Completed || !job.Result.Kept || job.Told {
		t.Errorf("job is %v, result kept: %v, told: %v; want a kept result that nobody has", job.State, job.Result.Kept, job.Told)
	}
	if n := r.up.Ledger().EffectsOf("slow_write", "k"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// checkGone wants the front to leave soon with a code, and the host's pipes to
// end with it (bridgetest.Host calls open output a violation).
func (r *rig) checkGone(t *testing.T, within time.Duration, want int) {
	t.Helper()
	begun := time.Now()
	code, err := r.host.Wait(limited(t))
	if err != nil || code != want {
		t.Errorf("exit code %d, want %d: %v", code, want, err)
	}
	if took := time.Since(begun); took > within {
		t.Errorf("the front left after %v, want %v", took, within)
	}
	if err := r.host.SendRaw([]byte("{}\n")); err == nil {
		t.Error("somebody still reads the host's pipe")
	}
}

const (
	longWrite = 1500 // ms; longer than any way of leaving takes
	someLoad  = time.Second
)

// Whatever the host does to what it started, a call that is under way is
// finished, and the host is held up by nothing.
func TestWorkerFinishes(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*rig) (code int, err error){
		"end of input": func(r *rig) (int, error) { return exitOK, r.host.CloseStdin() },
		"SIGTERM":      func(r *rig) (int, error) { return exitOK, r.host.Signal(syscall.SIGTERM) },
		"SIGINT":       func(r *rig) (int, error) { return exitOK, r.host.Signal(syscall.SIGINT) },
		"SIGHUP":       func(r *rig) (int, error) { return exitOK, r.host.Signal(syscall.SIGHUP) },
		"SIGTERM to the group and end of input": func(r *rig) (int, error) {
			_ = r.host.CloseStdin()
			return exitOK, r.host.SignalGroup(syscall.SIGTERM)
		},
		"SIGKILL":              func(r *rig) (int, error) { return -1, r.host.Signal(syscall.SIGKILL) },
		"SIGKILL to the group": func(r *rig) (int, error) { return -1, r.host.SignalGroup(syscall.SIGKILL) },
		"SIGTERM to the worker": func(r *rig) (int, error) {
			return exitOK, unix.PidfdSendSignal(r.worker.fd, unix.SIGTERM, nil, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRig(t, "--drain=10ms")
			r.write(t, longWrite)
			code, err := leave(r)
			if err != nil {
				t.Fatal(err)
			}
			r.checkGone(t, someLoad, code)
			if n := r.up.Ledger().Effects("slow_write"); n != 0 {
				t.Fatal("the call ended before the host left: nothing was tested")
			}
			r.checkFinished(t)
		})
	}
}

// A worker that lingers holds nothing of the host's, also not what the host
// left open by mistake, and the journal is never one of the three descriptors.
func TestWorkerLetsGo(t *testing.T) {
	t.Parallel()
	r := startRig(t, "--drain=10ms")
	r.write(t, longWrite)
	if err := r.host.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.checkGone(t, someLoad, exitOK)
	for fd := range 3 {
		if target := r.worker.link(fmt.Sprintf("fd/%d", fd)); target != os.DevNull {
			t.Errorf("descriptor %d is open on %s", fd, target)
		}
	}
	if dir := r.worker.link("cwd"); dir != r.state {
		t.Errorf("it stays in %s", dir)
	}
	r.checkFinished(t)
	for fd := range 3 {
		if target := r.worker.link(fmt.Sprintf("fd/%d", fd)); target != "" {
			t.Errorf("descriptor %d is open on %s", fd, target)
		}
	}
}

// Without an open delivery there is no reason to stay.
func TestWorkerLeavesWithTheHost(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*rig) error{
		"end of input": func(r *rig) error { return r.host.CloseStdin() },
		"SIGTERM":      func(r *rig) error { return r.host.Signal(syscall.SIGTERM) },
		"SIGKILL":      func(r *rig) error { return r.host.SignalGroup(syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRig(t)
			if _, err := r.host.CallTool(limited(t), "write_note", `{"key":"k"}`); err != nil {
				t.Fatal(err)
			}
			params := bridgetest.ToolParams("sleep", `{"ms":60000}`) // a read: nobody waits for it any more
			if name != "end of input" {
				if err := r.host.Request(r.host.NextID(), "tools/call", params); err != nil {
					t.Fatal(err)
				}
			}
			if err := leave(r); err != nil {
				t.Fatal(err)
			}
			if !r.worker.ended(2 * someLoad) {
				t.Error("the worker stays without an open delivery")
			}
		})
	}
}

// Long after the host's going, SIGTERM is for the worker: what is open is
// unknown then.
func TestWorkerEnds(t *testing.T) {
	t.Parallel()
	r := startRig(t, "--drain=10ms")
	r.write(t, 60_000)
	if err := r.host.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.checkGone(t, someLoad, exitOK)
	r.worker.signal(t, syscall.SIGTERM) // still the host's: opencode signals all descendants
	if r.worker.ended(hostSignals + 100*time.Millisecond) {
		t.Fatal("the host's second signal ended the worker")
	}
	r.worker.signal(t, syscall.SIGTERM)
	if !r.worker.ended(time.Second) {
		t.Error("the worker stays for more than a second after SIGTERM")
	}
	if job := r.job(t); job.State != jobs.OutcomeUnknown || job.Effect != jobs.Possible {
		t.Errorf("job is %v, %v", job.State, job.Effect)
	}
}

// Nobody lingers for longer than --linger.
func TestLingerLimit(t *testing.T) {
	t.Parallel()
	r := startRig(t, "--drain=10ms", "--linger=200ms")
	r.write(t, 60_000)
	if err := r.host.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	r.checkGone(t, someLoad, exitOK)
	if !r.worker.ended(2 * someLoad) {
		t.Fatal("the worker stays")
	}
	if job := r.job(t); job.State != jobs.OutcomeUnknown {
		t.Errorf("job is %v", job.State)
	}
}

// The exit code is that of the process that did the work.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	host, _ := startBridge(t, nil, "--retries=many", anywhere)
	if code, err := host.Wait(limited(t)); code != exitUsage || err != nil || !strings.Contains(host.Stderr(), "--retries") {
		t.Errorf("usage: exit code %d, %v, %q", code, err, host.Stderr())
	}
	r := startRig(t)
	r.worker.signal(t, syscall.SIGKILL)
	if code, err := r.host.Wait(limited(t)); code != 128+int(syscall.SIGKILL) || err != nil {
		t.Errorf("worker killed: exit code %d, %v", code, err)
	}
}

// Where a worker makes no sense the process serves alone, and says so.
func TestNoWorker(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(config, []byte("linger = '0s'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := startUpstream(t)
	for name, told := range map[string]struct{ env, args []string }{
		"flag":        {args: []string{"--linger=0"}},
		"variable":    {env: []string{"MCPBRIDGE_LINGER=0s"}},
		"config.toml": {args: []string{"--config=" + config}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, _ := startBridge(t, told.env, append(told.args, up.URL())...)
			if _, err := host.Initialize(limited(t), "2025-06-18", "{}"); err != nil {
				t.Fatal(err)
			}
			if list := children(t, host.PID()); len(list) > 0 {
				t.Errorf("it has children: %v", list)
			}
			if reply, err := host.CallTool(limited(t), "mcpbridge_job", "{}"); err != nil || !strings.Contains(reply.Text(), "linger: off (--linger 0)") {
				t.Errorf("%q, %v", reply.Text(), err)
			}
		})
	}
}

// Hosts start several copies and kill them at once: that costs nothing and
// leaves nothing.
func TestKilledStarts(t *testing.T) {
	t.Parallel()
	var workers []process
	for n := range 10 {
		host, home := startBridge(t, nil, "http://127.0.0.1:9/mcp")
		if n%2 == 0 {
			if _, err := host.Call(limited(t), "ping", "{}"); err != nil {
				t.Fatal(err)
			}
			for _, pid := range children(t, host.PID()) {
				workers = append(workers, watchProcess(t, pid))
			}
		}
		host.Kill()
		entries, err := os.ReadDir(home)
		if err != nil || len(entries) > 0 {
			t.Errorf("left behind: %v, %v", entries, err)
		}
	}
	if len(workers) == 0 {
		t.Error("no worker was seen")
	}
	for _, w := range workers {
		if !w.ended(2 * someLoad) {
			t.Errorf("process %d stays", w.pid)
		}
	}
}
