package crash

import (
	"context"
	"encoding/json"
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
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

// A world is one server with its ledger and one state directory; hosts come
// and go in it.
type world struct {
	t       testing.TB
	ctx     context.Context
	era     bridgetest.Era
	up      *bridgetest.Upstream
	gates   *gates
	dir     string // state directory
	home    string // HOME and working directory of every host
	url     string
	args    []string
	journal *jobs.Journal // for looking only
	account jobs.Account
}

// newWorld starts a server. args are for every process.
func newWorld(t testing.TB, o bridgetest.Options, args ...string) *world {
	t.Helper()
	return newWorldIn(t, filepath.Join(t.TempDir(), "state"), o, args...)
}

// newWorldIn is newWorld in a state directory.
func newWorldIn(t testing.TB, dir string, o bridgetest.Options, args ...string) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callLimit)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, era: o.Era, gates: newGates(), dir: dir, home: t.TempDir(), args: args,
		account: jobs.Account{Server: "crm", Principal: "anonymous"}}
	if o.Tools == nil {
		o.Tools = w.gates.tools()
	}
	up, err := bridgetest.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	t.Cleanup(func() { close(w.gates.end) })
	w.up, w.url = up, up.URL()
	w.journal, err = jobs.Open(w.dir, jobs.Options{}, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.journal.Close(context.WithoutCancel(ctx)) })
	return w
}

// environment is what hosts give: HOME and PATH.
func environment(home string) []string {
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
	if runtime.GOOS == "windows" {
		env = append(env, "SYSTEMROOT="+os.Getenv("SYSTEMROOT"), "LOCALAPPDATA="+home, "APPDATA="+home)
	}
	return env
}

// command is how a host of this world starts the program.
func (w *world) command(more ...string) []string {
	args := append([]string{program(), "--state-dir=" + w.dir, "--server-id=" + w.account.Server}, w.args...)
	return append(append(args, more...), w.url)
}

// A lane is one host and its process.
type lane struct {
	*world
	host *bridgetest.Host
}

// alone starts a host whose program is a single process.
func (w *world) alone(args ...string) *lane {
	return w.start(append([]string{"--linger=0"}, args...)...)
}

// start starts a host in the server's era.
func (w *world) start(args ...string) *lane {
	w.t.Helper()
	return w.startHost(bridgetest.HostOptions{Command: w.command(args...), Dir: w.home})
}

func (w *world) startHost(o bridgetest.HostOptions) *lane {
	w.t.Helper()
	o.Env = environment(w.home)
	host, err := bridgetest.StartHost(o)
	if err != nil {
		w.t.Fatal(err)
	}
	l := &lane{w, host}
	w.t.Cleanup(l.stop)
	if w.era == bridgetest.Modern {
		_, err = host.Discover(w.ctx)
	} else {
		_, err = host.Initialize(w.ctx, "2025-11-25", o.Capabilities)
	}
	if err != nil {
		w.t.Fatalf("%v; standard error: %s", err, host.Stderr())
	}
	l.knowTools()
	return l
}

// stop ends the process and checks what it wrote.
func (l *lane) stop() {
	l.host.Kill()
	for _, v := range l.host.Violations() {
		l.t.Errorf("standard output: %s", v)
	}
	if log := l.host.Stderr(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") {
		l.t.Errorf("standard error: %s", log)
	}
}

// knowTools waits until the bridge knows the server's tools, and with them
// their classes.
func (l *lane) knowTools() {
	l.t.Helper()
	for {
		r := l.request("tools/list", "{}")
		if strings.Contains(string(r.Result), `"now"`) {
			return
		}
	}
}

func (l *lane) request(method, params string) bridgetest.Reply {
	l.t.Helper()
	r, err := l.host.Call(l.ctx, method, params)
	if err != nil {
		l.t.Fatalf("%s: %v; standard error: %s", method, err, l.host.Stderr())
	}
	return r
}

// call calls a tool and waits for the answer.
func (l *lane) call(tool, arguments string) told {
	l.t.Helper()
	return l.told(l.request("tools/call", bridgetest.ToolParams(tool, arguments)))
}

// send calls a tool and returns the id to wait for.
func (l *lane) send(tool, arguments string) string {
	l.t.Helper()
	return l.sendParams(bridgetest.ToolParams(tool, arguments))
}

func (l *lane) sendParams(params string) string {
	l.t.Helper()
	id := l.host.NextID()
	if err := l.host.Request(id, "tools/call", params); err != nil {
		l.t.Fatal(err)
	}
	return id
}

// answer waits for the answer to an id.
func (l *lane) answer(id string) told {
	l.t.Helper()
	r, err := l.host.WaitReply(l.ctx, id)
	if err != nil {
		l.t.Fatalf("%v; standard error: %s", err, l.host.Stderr())
	}
	return l.told(r)
}

// ping makes sure that the process has read all that was sent before.
func (l *lane) ping() {
	l.t.Helper()
	l.request("ping", "")
}

// A word is the kind of an answer, as its first words tell.
type word string

const (
	result   word = "result"
	running  word = "STILL RUNNING"
	unknown  word = "OUTCOME UNKNOWN"
	notSent  word = "NOT SENT"
	noAnswer word = "NO ANSWER"
	failed   word = "FAILED"
	settled  word = "COMPLETED"
	rpcError word = "a JSON-RPC error"
)

// told is what a host was told about a call.
type told struct {
	word    word
	text    string
	isError bool
	handle  jobs.Handle
	job     toldJob
	has     bool // an object about the job came along
	meta    map[string]json.RawMessage
	raw     json.RawMessage
	rpc     *bridgetest.ReplyError
}

type toldJob struct {
	Message      string
	Handle       string
	Tool, Server string
	State        string
	Effect       string
	Evidence     string
	EndedBy      string
	Deliveries   int
	Deduplicated bool
	Conflict     bool
	SupersededBy string
	Next         struct {
		Tool      string
		Arguments struct {
			Handle      string
			WaitSeconds int `json:"wait_seconds"`
		}
	}
}

const jobKey, verdictKey = "io.github.mcpbridge/job", "io.github.mcpbridge/verdict"

// told reads an answer and checks what must hold for each.
func (l *lane) told(r bridgetest.Reply) told {
	l.t.Helper()
	a := told{text: r.Text(), isError: r.IsError(), raw: r.Result, rpc: r.Error, word: result}
	for _, w := range []word{running, unknown, notSent, noAnswer, failed, settled} {
		if strings.HasPrefix(a.text, string(w)) {
			a.word = w
		}
	}
	if r.Error != nil {
		a.word, a.text = rpcError, fmt.Sprintf("%d %s", r.Error.Code, r.Error.Message)
	}
	var body struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if r.Result != nil {
		if err := json.Unmarshal(r.Result, &body); err != nil {
			l.t.Fatalf("result cannot be read: %v: %.300s", err, r.Result)
		}
	}
	a.meta = body.Meta
	if raw, ok := body.Meta[jobKey]; ok {
		a.has = true
		if err := json.Unmarshal(raw, &a.job); err != nil {
			l.t.Fatalf("job cannot be read: %v: %s", err, raw)
		}
		a.handle = jobs.Handle(a.job.Handle)
	}
	l.checkText(a)
	return a
}

// checkText checks the texts that a model reads (design, section 9).
func (l *lane) checkText(a told) {
	l.t.Helper()
	if a.word == result || a.word == rpcError {
		return
	}
	if !strings.Contains(a.text, l.account.Server) {
		l.t.Errorf("the text does not name the server: %s", a.text)
	}
	if n := len([]rune(a.text)); n >= 900 {
		l.t.Errorf("the text has %d characters: %s", n, a.text)
	}
	if a.word == unknown && !a.isError {
		l.t.Errorf("an unknown outcome must be an error: %s", a.raw)
	}
	if a.word == running && a.isError {
		l.t.Errorf("a running call is no error: %s", a.raw)
	}
	if a.has && !strings.Contains(a.text, string(a.handle)) && a.word != result {
		l.t.Errorf("the text does not name the handle: %s", a.text)
	}
}

// must fails the test unless the answer is of the kind.
func (a told) must(t testing.TB, want word) told {
	t.Helper()
	if a.word != want {
		t.Fatalf("told %q, want %q: %s %v", a.word, want, a.text, a.rpc)
	}
	return a
}

// find is the record of a handle.
func (w *world) find(h jobs.Handle) jobs.Job {
	w.t.Helper()
	j, err := w.journal.Find(w.ctx, h)
	if err != nil {
		w.t.Fatalf("find %s: %v", h, err)
	}
	return j
}

// records lists what the journal has of a tool, newest first.
func (w *world) records(tool string) []jobs.Job {
	w.t.Helper()
	list, err := w.journal.List(w.ctx, jobs.Filter{Server: w.account.Server, Tool: tool, Limit: 20_000})
	if err != nil {
		w.t.Fatalf("list jobs: %v", err)
	}
	return list
}

// until waits until ok holds, looking every few milliseconds.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			w.t.Fatalf("%s: did not come true", what)
		}
	}
}

// untilRecord waits for the newest record of a tool to be as told.
func (w *world) untilRecord(tool, what string, ok func(jobs.Job) bool) jobs.Job {
	w.t.Helper()
	var j jobs.Job
	w.until("record of "+tool+": "+what, func() bool {
		list := w.records(tool)
		if len(list) > 0 {
			j = list[0]
		}
		return len(list) > 0 && ok(j)
	})
	return j
}

func inState(s jobs.State) func(jobs.Job) bool {
	return func(j jobs.Job) bool { return j.State == s }
}

// ledger waits until ok holds of the server's ledger.
func (w *world) ledger(ok func(*bridgetest.View) bool) {
	w.t.Helper()
	if err := w.up.Ledger().Wait(w.ctx, ok); err != nil {
		w.t.Fatal(err)
	}
}

// poll asks for a job until it does not run any more.
func (l *lane) poll(h jobs.Handle) told {
	l.t.Helper()
	for {
		a := l.call("mcpbridge_job", fmt.Sprintf(`{"handle":%q,"wait_seconds":10}`, h))
		if a.word != running {
			return a
		}
	}
}

func (l *lane) resolve(h jobs.Handle, resolution, why string) told {
	l.t.Helper()
	return l.call("mcpbridge_job_resolve", fmt.Sprintf(`{"handle":%q,"resolution":%q,"why":%q}`, h, resolution, why))
}

// children lists the processes whose parent is pid.
func children(pid int) []int {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	var list []int
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) == 2 && f[1] == strconv.Itoa(pid) {
			if n, err := strconv.Atoi(f[0]); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// terminate asks one process to end, by SIGTERM.
func terminate(t testing.TB, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(syscall.SIGTERM)
	}
	if err != nil {
		t.Fatalf("terminate process %d: %v", pid, err)
	}
}

// kill ends one process by SIGKILL.
func kill(t testing.TB, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatalf("kill process %d: %v", pid, err)
	}
}
