package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

// jobsCommand runs "mcpbridge jobs ARGS..." on the rig's journal.
func (r *rig) jobsCommand(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	path, err := exec.LookPath("mcpbridge")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(limited(t), path, append(append([]string{"jobs"}, args...), "--state-dir="+r.state)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// lingering starts a rig whose host is gone while a call of so many
// milliseconds is open.
func lingering(t *testing.T, ms int) *rig {
	t.Helper()
	r := startRig(t, "--drain=10ms")
	r.write(t, ms)
	if err := r.host.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	r.checkGone(t, someLoad, exitOK)
	return r
}

// await looks at the only job until it is as wanted.
func (r *rig) await(t *testing.T, what string, ok func(*jobs.Job) bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx := limited(t)
	for {
		if job := r.job(t); ok(&job) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the job is never %s", what)
		}
	}
}

// A worker that outlives its host is named with its reason, and stopped by an
// ask that it finds in the journal.
func TestJobsStop(t *testing.T) {
	t.Parallel()
	r := lingering(t, 60_000)
	r.await(t, "named", lingers)
	if code, out, _ := r.jobsCommand(t); code != exitOK || !strings.Contains(out, "its host is gone; a worker waits for the answer") {
		t.Errorf("jobs: exit code %d, %s", code, out)
	}
	code, out, errs := r.jobsCommand(t, "stop")
	if code != exitOK || !strings.Contains(out, "stopped waiting") {
		t.Errorf("stop: exit code %d, %s%s", code, out, errs)
	}
	if !r.worker.ended(2 * someLoad) {
		t.Error("the worker stays")
	}
	if job := r.job(t); job.State != jobs.OutcomeUnknown {
		t.Errorf("job is %v", job.State)
	}
}

// A bridge whose host is there is left alone, unless all are meant.
func TestJobsStopAll(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.write(t, 60_000)
	if code, out, _ := r.jobsCommand(t, "stop"); code != exitOK || !strings.Contains(out, "no call outlives its host") {
		t.Errorf("stop: exit code %d, %s", code, out)
	}
	if job := r.job(t); job.State != jobs.Working {
		t.Fatalf("job is %v", job.State)
	}
	if code, out, _ := r.jobsCommand(t, "stop", "--all"); code != exitOK || !strings.Contains(out, "stopped waiting") {
		t.Errorf("stop --all: exit code %d, %s", code, out)
	}
	if job := r.job(t); job.State != jobs.OutcomeUnknown {
		t.Errorf("job is %v", job.State)
	}
}

// Cancel tells the server; its worker has nothing to wait for then.
func TestJobsCancel(t *testing.T) {
	t.Parallel()
	r := lingering(t, 60_000)
	if code, out, errs := r.jobsCommand(t, "cancel", "--last"); code != exitOK || !strings.Contains(out, "cancelled the call upstream") {
		t.Errorf("cancel: exit code %d, %s%s", code, out, errs)
	}
	if !r.worker.ended(2 * someLoad) {
		t.Error("the worker stays")
	}
}

// Wait returns when another process has the end, and not before.
func TestJobsWait(t *testing.T) {
	t.Parallel()
	r := lingering(t, longWrite)
	if code, _, errs := r.jobsCommand(t, "wait", "--last", "--timeout=100ms"); code != exitFailed || !strings.Contains(errs, "still runs") {
		t.Errorf("wait for less: exit code %d, %s", code, errs)
	}
	code, out, errs := r.jobsCommand(t, "wait", "--last", "--json", "--result")
	var o struct {
		State  string
		Result json.RawMessage
	}
	if err := json.Unmarshal([]byte(out), &o); err != nil || code != exitOK || o.State != "completed" || !strings.Contains(string(o.Result), "wrote k") {
		t.Errorf("wait: exit code %d, %v, %s%s", code, err, out, errs)
	}
	r.checkReadOnce(t)
}

// checkReadOnce wants that the end is noted as read.
func (r *rig) checkReadOnce(t *testing.T) {
	t.Helper()
	if job := r.job(t); !job.Read {
		t.Error("the end was read, and that is not noted")
	}
}

// A job whose process was killed is told as unknown; a person settles it, also
// where no bridge of its server will ever run again.
func TestJobsOwnerLost(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.write(t, 60_000)
	r.worker.signal(t, syscall.SIGKILL)
	if !r.worker.ended(someLoad) {
		t.Fatal("SIGKILL did not end the worker")
	}
	if code, out, _ := r.jobsCommand(t); code != exitOK || !strings.Contains(out, "NEEDS YOU") || !strings.Contains(out, "owner lost") {
		t.Errorf("jobs: exit code %d, %s", code, out)
	}
	if code, out, _ := r.jobsCommand(t, "wait", "--last"); code != exitUnknown || !strings.HasPrefix(out, "OUTCOME UNKNOWN") {
		t.Errorf("wait: exit code %d, %s", code, out)
	}
	if code, _, errs := r.jobsCommand(t, "cancel", "--last"); code != exitFailed || !strings.Contains(errs, "is gone") {
		t.Errorf("cancel: exit code %d, %s", code, errs)
	}
	if job := r.job(t); job.State != jobs.Working {
		t.Errorf("looking made the job %v", job.State)
	}
	if code, out, errs := r.jobsCommand(t, "resolve", "--last", "did_not_happen"); code != exitOK {
		t.Errorf("resolve: exit code %d, %s%s", code, out, errs)
	}
	if job := r.job(t); job.State != jobs.Failed || job.Evidence != jobs.ResolvedByUser || job.Effect != jobs.None {
		t.Errorf("job is %v, %v, %v", job.State, job.Evidence, job.Effect)
	}
}

// A call that is sent again on a person's word lives on if the command that
// started it is killed.
func TestJobsSendAgainSurvives(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.write(t, longWrite)
	r.worker.signal(t, syscall.SIGKILL)
	if !r.worker.ended(awaitLimit) { // until then the call is still its own
		t.Fatal("the worker lives on")
	}
	path, err := exec.LookPath("mcpbridge")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "jobs", "resolve", "--last", "send_again", "--state-dir="+r.state)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	err = r.up.Ledger().Wait(limited(t), func(v *bridgetest.View) bool { return v.Deliveries("slow_write") == 2 })
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("%v; jobs resolve says: %s; the journal: %+v", err, &said, r.list(t))
	}
	var senders []process // that go on without cmd
	for _, pid := range children(t, cmd.Process.Pid) {
		senders = append(senders, watchProcess(t, pid))
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	newest := func() jobs.Job {
		for _, j := range r.list(t) {
			if j.Supersedes != "" {
				return j
			}
		}
		t.Fatal("there is no new job")
		return jobs.Job{}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx := limited(t); newest().State == jobs.Working; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the call is never finished")
		}
	}
	if job := newest(); job.State != jobs.Completed || !job.Result.Kept {
		t.Errorf("job is %v, result kept: %v", job.State, job.Result.Kept)
	}
	for _, p := range senders {
		if !p.ended(awaitLimit) {
			t.Error("a process stays after the call has ended")
		}
	}
	if n := r.up.Ledger().EffectsOf("slow_write", "k"); n != 2 {
		t.Errorf("%d effects: the first, whose answer was lost, and the second", n)
	}
}

// Many commands at once keep each other from nothing.
func TestJobsTogether(t *testing.T) {
	t.Parallel()
	r := lingering(t, longWrite)
	done := make(chan string, 8)
	for range cap(done) {
		go func() {
			code, out, errs := r.jobsCommand(t, "list", "--json")
			if code != exitOK || strings.Count(out, "\n") != 1 {
				done <- out + errs
				return
			}
			done <- ""
		}()
	}
	for range cap(done) {
		if wrong := <-done; wrong != "" {
			t.Error(wrong)
		}
	}
	r.checkFinished(t)
}

// A call between two rounds is cancelled though its process is gone: nothing runs
// that would have to be told.
func TestJobsCancelBetweenRounds(t *testing.T) {
	t.Parallel()
	r := &rig{state: t.TempDir()}
	j, err := jobs.Open(r.state, jobs.Options{}, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := j.Begin(t.Context(), jobs.Call{Account: jobs.Account{Server: "crm", Principal: "me"}, Tool: "act"})
	if err == nil {
		_, err = j.Await(t.Context(), b.Job.Handle, []byte("step"))
	}
	if err = errors.Join(err, j.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := r.jobsCommand(t, "cancel", "--last"); code != exitOK || !strings.Contains(out, "nothing ran") {
		t.Errorf("cancel: exit code %d, %s%s", code, out, errs)
	}
	if code, out, _ := r.jobsCommand(t, "show", "--last", "--json"); code != exitOK || !strings.Contains(out, `"state":"failed"`) || !strings.Contains(out, `"evidence":"cancelled_by_host"`) {
		t.Errorf("show: exit code %d, %s", code, out)
	}
}
