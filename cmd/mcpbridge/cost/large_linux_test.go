package cost

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// setPipeSize is F_SETPIPE_SZ of fcntl(2).
const setPipeSize = 1031

// BenchmarkLargeJournal starts programs at a journal of 100,000 jobs, and at one
// that is empty: one that lists the newest page, and a bridge up to its first
// list of jobs.
func BenchmarkLargeJournal(b *testing.B) {
	for _, n := range []int{0, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			f := fill(b, n, 100)
			s := startServer(b)
			s.know(b, f.dir)
			var lists, starts []time.Duration
			var listPeak, bridgePeak int64
			for b.Loop() {
				d, peak := listNewest(b, f.dir)
				lists, listPeak = append(lists, d), max(listPeak, peak)
				d, peak = startBridge(b, s.url, f.dir)
				starts, bridgePeak = append(starts, d), max(bridgePeak, peak)
			}
			b.ReportMetric(float64(p50(lists))/1e6, "ms-list")
			b.ReportMetric(float64(p50(starts))/1e6, "ms-bridge")
			b.ReportMetric(float64(listPeak)/(1<<20), "MiB-list")
			b.ReportMetric(float64(bridgePeak)/(1<<20), "MiB-bridge")
		})
	}
}

// know lets a first bridge learn the tools, as the start of every other does not
// wait for the server.
func (s *server) know(tb testing.TB, dir string) {
	tb.Helper()
	h := startHost(tb, s.url, dir)
	h.initialize()
	h.knowTools()
	h.stop()
}

// listNewest runs `jobs list`, and returns how long it took and the most memory
// that it had when it began to write: what it says is more than its output takes
// at once.
func listNewest(b *testing.B, dir string) (d time.Duration, peak int64) {
	b.Helper()
	cmd := exec.Command(program(), "jobs", "list", "--json", "--limit=100", "--state-dir="+dir)
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	cmd.Stderr = os.Stderr
	out, in, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	if _, _, failed := syscall.Syscall(syscall.SYS_FCNTL, in.Fd(), setPipeSize, 4096); failed != 0 {
		b.Fatal(failed)
	}
	cmd.Stdout = in
	d = took(func() {
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		_ = in.Close()
		lines := bufio.NewReader(out)
		_, _ = lines.Peek(1) // an empty list ends at once
		peak = highWater(cmd.Process.Pid)
		_, _ = io.Copy(io.Discard, lines)
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	})
	return d, peak
}

// startBridge starts a bridge, shakes hands, and has it list jobs. It returns how
// long that took, and the most memory that the processes had, pages that they
// share counted in each.
func startBridge(b *testing.B, url, dir string) (d time.Duration, peak int64) {
	b.Helper()
	var h *host
	d = took(func() {
		h = startHost(b, url, dir)
		h.initialize()
		h.call("tools/call", `{"name":"mcpbridge_job","arguments":{}}`)
	})
	for _, pid := range h.processes() {
		peak += highWater(pid)
	}
	h.stop()
	return d, peak
}

// processes are the program that the host started, and its worker.
func (h *host) processes() []int {
	list := []int{h.cmd.Process.Pid}
	found, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", list[0]))
	for _, path := range found {
		text, _ := os.ReadFile(path)
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				list = append(list, pid)
			}
		}
	}
	return list
}

// highWater is the most memory that a process had resident, in bytes.
func highWater(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int64
	_, _ = fmt.Sscanf(strings.TrimSpace(rest), "%d kB", &kib)
	return kib << 10
}
