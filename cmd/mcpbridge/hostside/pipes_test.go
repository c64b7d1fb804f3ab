package hostside

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/cmd/mcpbridge/programtest"
)

// Times that the bridge promises.
const (
	drain      = 1500 * time.Millisecond // --drain
	drainSlack = 500 * time.Millisecond
	signalEnd  = time.Second
)

// A host that stops reading blocks nothing but itself: the process lives, takes
// lines and holds a bounded part of what waits, and leaves at the end of stdin.
func TestStdoutReaderThatStops(t *testing.T) {
	t.Parallel()
	const calls, size = 40, 1 << 20
	url, arrived := startBlobs(t, size)
	p := startPlain(t, append(plainCommand(t, "--max-memory=8MiB", "--linger=0"), url)...)
	p.initialize()
	p.knowTool("blob")
	before := memoryOf(t, p.cmd.Process.Pid)
	for i := range calls {
		p.send(toolLine(strconv.Itoa(i+1), "blob", fmt.Sprintf(`{"n":%d}`, i)))
	}
	await(t, arrived, calls)
	p.send(cancelLine("5"), message(`"p"`, "ping", "{}")) // it still reads
	limit := int64(calls * size / 2)
	if programtest.RaceDetector {
		limit *= 4 // it keeps a record of all memory
	}
	if grown := memoryOf(t, p.cmd.Process.Pid) - before; grown > limit {
		t.Errorf("memory grew by %d MiB for %d MiB of answers that nobody reads", grown>>20, calls*size>>20)
	}
	select {
	case <-p.exited:
		t.Fatal("the process has ended")
	default:
	}
	_ = p.in.Close()
	p.ends(drain + drainSlack + 2*slack)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A host that stops for a while and reads on has every answer, whole and once.
func TestStdoutReaderThatComesBack(t *testing.T) {
	t.Parallel()
	const calls, size = 28, 1 << 20 // more than the queue to stdout holds
	url, arrived := startBlobs(t, size)
	p := startPlain(t, append(plainCommand(t, "--max-memory=4MiB"), url)...)
	p.initialize()
	p.knowTool("blob")
	for i := range calls {
		p.send(toolLine(strconv.Itoa(i+1), "blob", fmt.Sprintf(`{"n":%d}`, i)))
	}
	await(t, arrived, calls)
	p.send(message(`"p"`, "ping", "{}"))
	answers := map[string]int{}
	for len(answers) < calls+1 {
		line := p.next()
		id, rest, _ := strings.Cut(strings.TrimPrefix(line, `{"jsonrpc":"2.0","id":`), ",")
		if strings.Contains(line, `"method"`) {
			continue // a notice
		}
		answers[id]++
		if id != `"p"` && strings.Count(rest, "x") < size {
			t.Errorf("the answer to %s is not whole: %d bytes, %.200s", id, len(line), line)
		}
	}
	for id, n := range answers {
		if n != 1 {
			t.Errorf("%d answers to %s", n, id)
		}
	}
}

// await takes n values.
func await(t testing.TB, c <-chan struct{}, n int) {
	t.Helper()
	ctx := limited(t)
	for i := range n {
		select {
		case <-c:
		case <-ctx.Done():
			t.Fatalf("only %d of %d arrived", i, n)
		}
	}
}

// memoryOf is the private resident memory of a process in bytes, 0 where it
// cannot be read. Pages of a spool file are none of it.
func memoryOf(t testing.TB, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// A host that never reads stderr still has its answers, at the loudest level and
// after a megabyte of logs (gemini-cli does not read it).
func TestStderrThatNobodyReads(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{})
	p := startPlain(t, append(plainCommand(t, "--log-level=debug"), up.URL())...)
	p.initialize()
	long := strings.Repeat("l", 8<<10)
	for i := range 160 { // each is logged with its id
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d%s","result":{}}`, i, long))
	}
	for i := range 40 {
		id := strconv.Itoa(i + 1)
		p.send(toolLine(id, "echo", `{"text":"still here"}`))
		if line := p.nextWith(`"id":` + id); !strings.Contains(line, "still here") {
			t.Fatalf("call %d: %s", i, line)
		}
	}
	_ = p.in.Close()
	p.ends(drain + drainSlack + 2*slack)
	// It was loud indeed: a pipe's worth waits in stderr.
	buf := make([]byte, 32<<10)
	if n, _ := p.errs.Read(buf); n < 4<<10 {
		t.Errorf("only %d bytes were logged", n)
	}
}

// At the end of stdin what is about to end is answered.
func TestEOFDrain(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{})
	lines := strings.Join([]string{
		message("0", "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"shell","version":"1"}}`),
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		message("1", "tools/list", "{}"), toolLine("2", "echo", `{"text":"a"}`), toolLine("3", "sleep", `{"ms":300}`),
		toolLine("4", "write_note", `{"key":"last"}`), message("5", "ping", "{}"), // the last one without its line end
	}, "\n")
	const long = 30 * time.Second // a busy machine may need more than 1.5 s to start and connect
	cmd := exec.CommandContext(limited(t), program(), "--state-dir="+t.TempDir(), "--drain="+long.String(), up.URL())
	cmd.Env, cmd.Dir, cmd.Stdin = environment(t.TempDir()), t.TempDir(), strings.NewReader(lines)
	began := time.Now()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if took := time.Since(began); took > long {
		t.Errorf("it stayed for %v with nothing left to answer", took)
	}
	for id := range 6 {
		if n := strings.Count(string(out), fmt.Sprintf(`"id":%d,"result"`, id)); n != 1 {
			t.Errorf("request %d has %d answers", id, n)
		}
	}
	if n := up.Ledger().EffectsOf("write_note", "last"); n != 1 {
		t.Errorf("the note was written %d times", n)
	}
}

// What does not end in time does not hold the process.
func TestEOFWithCallThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := start(t, startUpstream(t, bridgetest.Options{Tools: withTool(g.tool())}), setup{version: v2506})
	defer close(g.open)
	r.knowTools()
	if err := r.host.Request(`"g"`, "tools/call", bridgetest.ToolParams("gate", "")); err != nil {
		t.Fatal(err)
	}
	r.ledger(func(v *bridgetest.View) bool { return v.Deliveries("gate") == 1 })
	began := time.Now()
	r.quit()
	if took := time.Since(began); took > drain+drainSlack+slack {
		t.Errorf("left after %v", took)
	}
	if err := r.host.WaitStderr(r.ctx, "unanswered=1"); err != nil { // somebody may have typed "mcpbridge URL < file"
		t.Errorf("%v\n%s", err, r.host.Stderr())
	}
}

// A signal during a call ends the process that the host started within a second,
// a read and a write alike.
func TestSignalsDuringCall(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals to send")
	}
	g := newGate()
	up := startUpstream(t, bridgetest.Options{Tools: withTool(g.tool())})
	defer close(g.open)
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		for _, call := range [][2]string{{"gate", "{}"}, {"slow_write", `{"key":"` + sig.String() + `","ms":1500,"effect_at":"START"}`}} {
			r := start(t, up, setup{version: v2506})
			r.knowTools()
			up.Ledger().Reset()
			if err := r.host.Request(`"g"`, "tools/call", bridgetest.ToolParams(call[0], call[1])); err != nil {
				t.Fatal(err)
			}
			r.ledger(func(v *bridgetest.View) bool { return v.Deliveries(call[0]) == 1 })
			began := time.Now()
			if err := r.host.Signal(sig); err != nil {
				t.Fatal(err)
			}
			code, err := r.host.Wait(r.ctx)
			if took := time.Since(began); code != 0 || err != nil || took > signalEnd+slack/4 {
				t.Errorf("%v during %s: exit code %d after %v, %v", sig, call[0], code, took, err)
			}
		}
	}
}

// A server that answers nothing any more, the DELETE of its session included, does
// not hold a host that leaves. Not beside the other tests of this package, whose
// processes would be what is measured.
func TestLeavingHungServer(t *testing.T) {
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
	for _, sig := range []os.Signal{nil, syscall.SIGTERM} {
		if sig != nil && runtime.GOOS == "windows" {
			continue // which has no signals to send
		}
		r := start(t, up, setup{version: v2506})
		r.echo("a session and a stream")
		if err := up.SetFault("stall:head-read@*"); err != nil {
			t.Fatal(err)
		}
		if err := r.host.Request(`"hangs"`, "resources/list", "{}"); err != nil {
			t.Fatal(err)
		}
		r.barrier()
		limit, began := signalEnd, time.Now()
		if sig == nil {
			limit = drain + drainSlack
			r.quit()
		} else if err := r.host.Signal(sig); err != nil {
			t.Fatal(err)
		} else if code, err := r.host.Wait(r.ctx); code != 0 || err != nil {
			t.Errorf("%v: exit code %d, %v", sig, code, err)
		}
		if took := time.Since(began); took > limit+slack/2 {
			t.Errorf("%v: left after %v", sig, took)
		}
		if err := up.SetFault(); err != nil {
			t.Fatal(err)
		}
	}
}

// A stdout that nobody can read any more is the end of the host.
func TestFailedStdoutWrite(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{})
	p := startPlain(t, append(plainCommand(t), up.URL())...)
	p.initialize()
	_ = p.out.Close()
	p.send(message("1", "ping", "{}"))
	p.ends(drain + drainSlack + 2*slack)
}

// A host whose process is gone while something else keeps its pipes open is
// noticed.
func TestVanishedParent(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("no shell that could be the host's process")
	}
	up := startUpstream(t, bridgetest.Options{})
	hold, release, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hold.Close() }()
	// The shell is the host: it starts the bridge on its own pipes and ends when
	// a byte arrives on descriptor 4.
	script := `exec 5<&0; "$@" <&5 4<&- 5<&- & exec 5<&- ; read x <&4; exit 0`
	args := append([]string{"-c", script, "sh"}, append(plainCommand(t), up.URL())...)
	cmd := exec.Command(shell, args...)
	cmd.Env, cmd.Dir = environment(t.TempDir()), t.TempDir()
	inEnd, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, outEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	unused, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = inEnd, outEnd, []*os.File{unused, hold}
	err = cmd.Start()
	for _, f := range []*os.File{inEnd, outEnd, unused} {
		_ = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &plain{t: t, cmd: cmd, in: in, out: out, lines: newLines(out)}
	defer func() { _ = in.Close(); _ = out.Close() }()
	p.initialize()
	if _, err := release.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	_ = release.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := out.SetReadDeadline(began.Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for err == nil { // up to the end of stdout: whoever held it is gone
		_, err = p.lines.ReadByte()
	}
	if took := time.Since(began); os.IsTimeout(err) || took > 15*time.Second {
		t.Errorf("the bridge was there for %v after its host's process had gone: %v", took, err)
	}
}

// HOME and PATH are all that it needs, in any directory: the root, one that may
// not be written, one that is gone.
func TestAnyDirectory(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{})
	sealed := filepath.Join(t.TempDir(), "sealed")
	if err := os.Mkdir(sealed, 0o500); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{string(filepath.Separator), sealed} {
		r := start(t, up, setup{version: v2506, cwd: dir})
		r.echo("here")
	}
	if runtime.GOOS == "windows" {
		return // a directory in use cannot be removed there
	}
	gone := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	command := append([]string{"sh", "-c", `cd "$0" && rmdir "$0" && exec "$@"`, gone}, append(plainCommand(t), up.URL())...)
	p := startPlain(t, command...)
	p.initialize()
	p.send(toolLine("1", "echo", `{"text":"nowhere"}`))
	if line := p.nextWith(`"id":1`); !strings.Contains(line, "nowhere") {
		t.Error(line)
	}
}

// listing names all that is in a directory, and below.
func listing(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Starting costs nothing: what is killed after 200 ms has made no session, no
// connection even, and left no file behind, known catalogue or not.
func TestTenStartsKilled(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
	known := start(t, up, setup{version: v2506})
	known.knowTools()
	known.quit()
	for _, dir := range []string{known.dir, t.TempDir()} {
		before := listing(t, dir)
		up.Ledger().Reset()
		var all []*rig
		for range 10 { // hosts start several at once
			all = append(all, start(t, up, setup{dir: dir}))
		}
		for _, r := range all {
			if dir == known.dir { // answered from what is known
				r.shakeHands(v2506)
			} else {
				r.barrier()
			}
		}
		for _, r := range all {
			ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond) // 200 ms in all
			if code, err := r.host.Wait(ctx); err == nil {
				t.Errorf("the process ended by itself: exit code %d", code)
			}
			cancel()
		}
		for _, r := range all {
			r.host.Kill()
			if left := listing(t, r.home); len(left) > 0 {
				t.Errorf("left in the user's directory: %v", left)
			}
		}
		if n := len(up.Ledger().Entries()); n != 0 {
			t.Errorf("%d requests by processes that nobody asked anything", n)
		}
		if after := listing(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("state directory: %v, before %v", after, before)
		}
	}
}
