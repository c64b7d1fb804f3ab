package jobs_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/journaltest"
	"github.com/mcpbridge/mcpbridge/jobs/store"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
	"github.com/mcpbridge/mcpbridge/jobs/store/memstore"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

func TestJournalInFile(t *testing.T) {
	journaltest.Run(t, func(t testing.TB) journaltest.World {
		dir := t.TempDir()
		return func(t testing.TB, opts jobs.Options) *jobs.Journal {
			j, err := jobs.Open(dir, opts, boltstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
	})
}

func TestJournalInMemory(t *testing.T) {
	journaltest.Run(t, func(t testing.TB) journaltest.World {
		s, err := memstore.New(jobs.Schema())
		if err != nil {
			t.Fatal(err)
		}
		return func(_ testing.TB, opts jobs.Options) *jobs.Journal { return jobs.New(s.Share(), opts) }
	})
}

func TestTroubleInFile(t *testing.T) {
	journaltest.RunTrouble(t, func(t testing.TB) journaltest.Stores {
		dir := t.TempDir()
		return func(t testing.TB) store.Store {
			s, err := boltstore.Open(dir, boltstore.Options{Schema: jobs.Schema()})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	})
}

func TestTroubleInMemory(t *testing.T) {
	journaltest.RunTrouble(t, func(t testing.TB) journaltest.Stores {
		s, err := memstore.New(jobs.Schema())
		if err != nil {
			t.Fatal(err)
		}
		return func(testing.TB) store.Store { return s.Share() }
	})
}
