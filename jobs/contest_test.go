package jobs_test

import (
	"testing"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

// A call that another process's host seems to wait for is contested to whoever
// has the patience to ask again, held back once that host is known to be gone,
// and begun by whoever asks without patience.
func TestContestedCall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *jobs.Journal {
		j, err := jobs.Open(dir, jobs.Options{}, boltstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = j.Close(t.Context()) })
		return j
	}
	begin := func(j *jobs.Journal, patient bool) jobs.Begun {
		t.Helper()
		b, err := j.Begin(t.Context(), jobs.Call{Account: jobs.Account{Server: "crm", Principal: "me"}, Tool: "add",
			Arguments: []byte(`{"a":1}`), Patient: patient})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	here, there := open(), open()
	first := begin(here, true)
	if first.Hold != jobs.NotHeld {
		t.Fatalf("the first call is %v", first.Hold)
	}
	if own := begin(here, true); own.Hold != jobs.NotHeld {
		t.Errorf("a second call of the same host is %v", own.Hold)
	}
	if b := begin(there, true); b.Hold != jobs.Contested || b.Job.Handle == "" {
		t.Errorf("a call of another process is %v", b.Hold)
	}
	for _, j := range here.Mine() {
		here.Note(j.Handle, jobs.Note{NobodyWait: "host gone"})
	}
	if err := here.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b := begin(there, true); b.Hold != jobs.StillRun {
		t.Errorf("after the host was gone the call is %v", b.Hold)
	}
	again := open()
	if b := begin(again, false); b.Hold != jobs.StillRun {
		t.Errorf("without patience the call is %v", b.Hold)
	}
}
