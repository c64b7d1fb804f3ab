package bridge

import (
	"testing"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// Who has signed in is shown the last calls that this process began for nobody,
// a bounded number of them, and none that another process began.
func TestCallsOfNobodyAreShown(t *testing.T) {
	t.Parallel()
	b := &Bridge{cfg: Config{Server: "crm"}, access: newAccess(&Config{Principal: "oauth-1"})}
	k := &keeper{bridge: b}
	begin := func(principal string) *jobs.Job {
		job := &jobs.Job{Handle: jobs.NewHandle(), Account: jobs.Account{Server: "crm", Principal: principal}}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.noteAccount(job)
		return job
	}
	var all []*jobs.Job
	for range maxAnonymous + 3 {
		all = append(all, begin(auth.Anonymous))
	}
	for i, job := range all {
		if want := i >= 3; k.mayShow(job) != want {
			t.Fatalf("call %d of %d is shown: %v", i, len(all), !want)
		}
	}
	if n := len(k.anonymous); n != maxAnonymous {
		t.Errorf("%d handles are remembered", n)
	}
	if other := begin("oauth-2"); k.mayShow(other) || len(k.anonymous) != maxAnonymous {
		t.Error("a call of another account is shown, or remembered")
	}
	foreign := *all[len(all)-1]
	foreign.Handle = jobs.NewHandle()
	if k.mayShow(&foreign) {
		t.Error("a call of nobody that another process began is shown")
	}
	foreign = *all[len(all)-1]
	foreign.Server = "other"
	if k.mayShow(&foreign) {
		t.Error("a call to another server is shown")
	}
}
