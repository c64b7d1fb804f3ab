package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

// journalGrace is how long the journal may take to write its last notes; a
// lost one costs at most an answer given twice.
const journalGrace = 300 * time.Millisecond

// openJournal gives the bridge its journal. Nothing is touched on disk before
// the first call that is journaled. The returned function closes the journal in
// bounded time.
func (p *program) openJournal(o *options) (closeJournal func(), err error) {
	none := func() {}
	if o.Broken != nil || o.Journal == bridge.JournalOff {
		return none, nil
	}
	j, err := stateJournal(o, func(d boltstore.Damage) {
		o.Log.Error("the journal of jobs was damaged and set aside; calls made before are not known any more", "file", d.Path, "error", d.Err)
	})
	if err != nil && p.hosted() {
		o.Broken = err
		return none, nil
	}
	if err != nil {
		return none, err
	}
	if o.Directory, err = os.Getwd(); err != nil {
		o.Directory = "" // it was removed: jobs are listed as those of no directory
	}
	o.Jobs = j
	return func() { closeSoon(j) }, nil
}

// stateJournal opens the journal of the state directory that o names.
func stateJournal(o *options, setAside func(boltstore.Damage)) (*jobs.Journal, error) {
	if o.StateDir == "" {
		return nil, configf("no state directory is known, and calls with an effect are noted in one; " +
			"name one with --state-dir, or use --journal=off")
	}
	j, err := jobs.Open(o.StateDir, jobs.Options{GuardWindow: o.guardWindow},
		boltstore.Options{AllowNetwork: o.allowNetworkState, SetAside: setAside})
	var network *boltstore.NetworkError
	if errors.As(err, &network) {
		return nil, configf("state directory %s is on a network file system (%s), which cannot keep a journal safe; "+
			"name a local one with --state-dir, or use --allow-network-state at your own risk", network.Dir, network.FileSystem)
	}
	if err != nil {
		return nil, configf("state directory %s: %v; name another one with --state-dir", o.StateDir, err)
	}
	return j, nil
}

// closeSoon closes j, without waiting for a lock that somebody else holds: what
// is not finished then is as if the process had been killed, which the journal
// is made for.
func closeSoon(j *jobs.Journal) {
	ctx, cancel := context.WithTimeout(context.Background(), journalGrace)
	defer cancel()
	closed := make(chan struct{})
	go func() { defer close(closed); _ = j.Close(ctx) }()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}
