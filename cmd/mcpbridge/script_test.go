package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/rogpeppe/go-internal/testscript"
)

// awaitLimit bounds "await" and how long a signalled program may take.
const awaitLimit = 20 * time.Second

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mcpbridge": main, "browser": browse})
}

// TestScript runs testdata/script: the program as a user meets it, against an
// upstream of its own whose address is $UPSTREAM.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		RequireExplicitExec: true,
		Setup:               setUp,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": await, "start": start, "stop": stop, "get": get, "fill": fill, "fails": fails,
		},
	})
}

type (
	upstreamKey struct{} // of the script's *bridgetest.Upstream
	programsKey struct{} // of its map[string]*started
)

func setUp(env *testscript.Env) error {
	up, err := bridgetest.Start(bridgetest.Options{})
	if err != nil {
		return err
	}
	env.Defer(up.Close)
	env.Values[upstreamKey{}] = up
	env.Values[programsKey{}] = map[string]*started{}
	env.Setenv("UPSTREAM", up.URL())
	env.Setenv("GORACE", "atexit_sleep_ms=0") // else each program takes a second to leave under -race
	home := env.WorkDir + "/home"
	for _, name := range []string{"HOME", "USERPROFILE"} {
		env.Setenv(name, home)
	}
	for _, name := range []string{"APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME"} {
		env.Setenv(name, home+"/config")
	}
	env.Setenv("XDG_STATE_HOME", home+"/state")
	return os.Mkdir(home, 0o700)
}

// await waits for what the ledger counts: "await deliveries echo 1" (of a
// tool), "await effects write_note 1", "await requests tools/list 2".
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: await deliveries|effects|requests NAME COUNT")
	}
	want, err := strconv.Atoi(args[2])
	ts.Check(err)
	count := map[string]func(*bridgetest.View) int{
		"deliveries": func(v *bridgetest.View) int { return v.Deliveries(args[1]) },
		"effects":    func(v *bridgetest.View) int { return v.Effects(args[1]) },
		"requests":   func(v *bridgetest.View) int { return len(v.Requests(args[1])) },
	}[args[0]]
	if count == nil {
		ts.Fatalf("await: unknown count %q", args[0])
	}
	ctx, cancel := context.WithTimeout(context.Background(), awaitLimit)
	defer cancel()
	seen := 0
	ledger := ts.Value(upstreamKey{}).(*bridgetest.Upstream).Ledger()
	err = ledger.Wait(ctx, func(v *bridgetest.View) bool {
		seen = count(v)
		return seen >= want
	})
	if err != nil {
		ts.Fatalf("await %s %s: %d, want %d: %v", args[0], args[1], seen, want, err)
	}
}

// A started program is one that runs beside the script.
type started struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// start runs "mcpbridge ARGS..." beside the script and puts its first line of
// output into the variable NAME: "start NAME ARGS...".
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME ARGS...")
	}
	path, err := exec.LookPath("mcpbridge")
	ts.Check(err)
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir = ts.Getenv("WORK")
	pipe, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p := &started{cmd: cmd, out: bufio.NewReader(pipe)}
	line, err := p.out.ReadString('\n')
	ts.Check(err)
	ts.Setenv(args[0], strings.TrimSpace(line))
	ts.Value(programsKey{}).(map[string]*started)[args[0]] = p
}

// stop interrupts what start started, prints the rest of its output and wants
// the exit code 0: "stop NAME".
func stop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: stop NAME")
	}
	p := ts.Value(programsKey{}).(map[string]*started)[args[0]]
	if p == nil {
		ts.Fatalf("stop %s: not started", args[0])
	}
	ts.Check(p.cmd.Process.Signal(os.Interrupt))
	limit := time.AfterFunc(awaitLimit, func() { _ = p.cmd.Process.Kill() })
	defer limit.Stop()
	_, err := io.Copy(ts.Stdout(), p.out)
	ts.Check(err)
	ts.Check(p.cmd.Wait())
}

// get prints what is found at a path of a server: "get URL PATH".
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get URL PATH")
	}
	base, err := url.Parse(args[0])
	ts.Check(err)
	target, err := base.Parse(args[1])
	ts.Check(err)
	client := http.Client{Timeout: awaitLimit}
	reply, err := client.Get(target.String())
	ts.Check(err)
	defer reply.Body.Close()
	_, err = io.Copy(ts.Stdout(), reply.Body)
	ts.Check(err)
}

// fill writes the template FROM to the file TO with its variables filled in:
// "fill TO FROM".
func fill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fill TO FROM")
	}
	text := os.Expand(ts.ReadFile(args[1]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// fails runs a program like exec and wants its exit code: "fails CODE PROGRAM
// ARGS...".
func fails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fails CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var ended *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ended) {
		got = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
