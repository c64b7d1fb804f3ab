package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// Opening the journal of a bridge touches nothing.
func TestOpenJournal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	p := program{stdin: in}
	o := options{Config: bridge.Config{StateDir: dir}, allowNetworkState: true}
	closeJournal, err := p.openJournal(&o)
	if err != nil || o.Jobs == nil || o.Directory == "" {
		t.Fatalf("journal %v, directory %q, %v", o.Jobs, o.Directory, err)
	}
	closeJournal()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state directory was touched: %v", err)
	}
	off := options{Config: bridge.Config{Journal: bridge.JournalOff}}
	if _, err := p.openJournal(&off); err != nil || off.Jobs != nil || off.Broken != nil {
		t.Errorf("--journal=off: %v, %v, %v", off.Jobs, off.Broken, err)
	}
}

// Without a place to note calls in, a bridge that has to says so to its host.
func TestNoStateDir(t *testing.T) {
	t.Parallel()
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	p := program{stdin: in}
	var o options
	if _, err := p.openJournal(&o); err != nil {
		t.Fatal(err)
	}
	var config *configError
	if !errors.As(o.Broken, &config) || !strings.Contains(o.Broken.Error(), "--state-dir") || o.Jobs != nil {
		t.Errorf("broken: %v, journal %v", o.Broken, o.Jobs)
	}
}
