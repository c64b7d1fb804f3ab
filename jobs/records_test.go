package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
	"github.com/mcpbridge/mcpbridge/jobs/store/memstore"
)

func inMemory(t *testing.T) (*Journal, *memstore.Store) {
	t.Helper()
	s, err := memstore.New(Schema())
	if err != nil {
		t.Fatal(err)
	}
	j := New(s, Options{})
	t.Cleanup(func() { _ = j.Close(context.Background()) })
	return j, s
}

// TestKnownRecordsAreWhatIsStored changes jobs in many ways; whatever is kept
// decoded must be what decoding its text gives.
func TestKnownRecordsAreWhatIsStored(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	j, s := inMemory(t)
	compared := 0
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for h, k := range j.records.known {
			var decoded Job
			if err := json.Unmarshal(k.text, &decoded); err != nil || decoded.Handle != h {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(k.job, decoded) {
				t.Fatalf("after %s: kept    %+v\ndecoded %+v", k.job.Timeline[len(k.job.Timeline)-1].What, k.job, decoded)
			}
			compared++
		}
	}
	begin := func(c Call) Handle {
		c.Account, c.Tool = Account{Server: "crm", Principal: "me"}, "add"
		b, err := j.Begin(ctx, c)
		must(b, err)
		return b.Job.Handle
	}
	h := begin(Call{Arguments: []byte(`{"a":1}`), Key: "k"})
	must(j.SetTask(ctx, h, "task"))
	must(j.SetResumption(ctx, h, Resumption{Session: "s", EventID: "e"}))
	must(j.AskHost(ctx, h, Question{ID: "1", Request: json.RawMessage(`{}`)}))
	must(j.Answered(ctx, h, "1"))
	must(j.Await(ctx, h, []byte("state")))
	must(j.GiveHandle(ctx, h))
	must(j.TellEnd(ctx, h, "tasks", "failed"))
	for n := range maxTimeline {
		j.Note(h, Note{Event: fmt.Sprint("event ", n), Progress: &Progress{Progress: float64(n)}, EventID: "f"})
		must(nil, j.Flush(ctx))
	}
	must(j.Finish(ctx, h, End{State: Completed, Effect: Reported, Evidence: ToolResult, Result: []byte(`{}`), Kind: ToolAnswer}))
	unknown := begin(Call{Arguments: []byte(`{"a":2}`)})
	must(j.Finish(ctx, unknown, End{State: OutcomeUnknown, Effect: Possible, Evidence: BridgeLeft}))
	if compared < maxTimeline {
		t.Errorf("only %d records were compared", compared)
	}
	j.ReadEnd(h)
	must(nil, j.Flush(ctx))
	if _, known := j.records.known[h]; known {
		t.Error("a job that needs nobody is kept")
	}
	must(nil, s.Update(ctx, func(tx store.Tx) error { // as another process does
		job := j.records.known[unknown].job
		job.Tool = "changed"
		row, err := job.appendRecord(job.appendHead(nil, []byte(`{"a":2}`), nil))
		if err != nil {
			return err
		}
		return tx.Put(tableRecent, rowKey(&job), row)
	}))
	if job, err := j.Find(ctx, unknown); err != nil || job.Tool != "changed" {
		t.Errorf("after a change by another process: tool %q, %v", job.Tool, err)
	}
}

// TestNewRecordsAreKnown: jobs that stay live do not keep later ones from being
// known.
func TestNewRecordsAreKnown(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	j, _ := inMemory(t)
	for n := range maxRecords + 10 {
		b, err := j.Begin(ctx, Call{Account: Account{Server: "crm", Principal: "me"}, Tool: "add", Arguments: []byte(fmt.Sprint(n))})
		if err != nil {
			t.Fatal(err)
		}
		if _, known := j.records.known[b.Job.Handle]; !known {
			t.Fatalf("job %d is not known", n)
		}
	}
	if n := len(j.records.known); n != maxRecords {
		t.Errorf("%d records are known, at most %d may be", n, maxRecords)
	}
	for h := range j.mine {
		if j.rowKey(h) == nil {
			t.Errorf("when job %s of this process was created is not known", h)
		}
	}
}

// TestPruneEndsWithRowsThatLeadNowhere: rows without the index row that leads to
// them are removed when they are due, and not looked at for ever; one that is none
// hides no other.
func TestPruneEndsWithRowsThatLeadNowhere(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	j, s := inMemory(t)
	long := time.Now().Add(-2 * RecordLife)
	err := s.Update(ctx, func(tx store.Tx) error {
		for range pruneSlice {
			job := Job{Handle: NewHandle(), CreatedAt: long, UpdatedAt: long}
			if err := tx.Put(tableJobs, rowKey(&job), job.filedRow([]byte("{}"))); err != nil {
				return err
			}
			if err := tx.Put(tableDue, timeKey(long, NewHandle()), []byte{}); err != nil {
				return err
			}
		}
		return errors.Join(tx.Put(tableJobs, []byte{0}, []byte{0}), tx.Put(tableDue, []byte{0}, []byte{}),
			tx.Put(tableMarks, markIndexed, timeKey(time.Now(), "")))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Prune(ctx); err != nil {
		t.Fatal(err)
	}
	err = s.View(ctx, func(tx store.Tx) error {
		for _, table := range []store.Table{tableJobs, tableDue} {
			for k := range tx.Scan(table, nil) {
				if len(k) > 1 {
					return fmt.Errorf("row %q of %s is left", k, table)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestListPassesOverDamage: a damaged row hides no job, nor does one that the index of
// handles has lost.
func TestListPassesOverDamage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	j, s := inMemory(t)
	var begun []Handle
	for n := range 3 {
		b, err := j.Begin(ctx, Call{Account: Account{Server: "crm", Principal: "me"}, Tool: "add", Arguments: []byte(fmt.Sprint(n))})
		if err != nil {
			t.Fatal(err)
		}
		begun = append(begun, b.Job.Handle)
	}
	if err := j.File(ctx); err != nil {
		t.Fatal(err)
	}
	err := s.Update(ctx, func(tx store.Tx) error {
		return errors.Join(tx.Delete(tableHandles, []byte(begun[1])),
			tx.Put(tableJobs, []byte("short"), []byte{0}), tx.Put(tableLive, []byte("short"), []byte{}))
	})
	if err != nil {
		t.Fatal(err)
	}
	other := New(s.Share(), Options{}) // which has not seen them begin
	for _, f := range []Filter{{}, {Attention: true}} {
		list, err := other.List(ctx, f)
		if err != nil || len(list) != 3 || list[0].Handle != begun[2] || list[2].Handle != begun[0] {
			t.Errorf("%d jobs are listed, %v; want all three, newest first", len(list), err)
		}
	}
}
