package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

var me = Account{Server: "crm", Principal: "me"}

// TestRecentRow reads what was written, and refuses what is cut off before the
// record.
func TestRecentRow(t *testing.T) {
	t.Parallel()
	j := Job{Handle: NewHandle(), Fingerprint: Print{1}, ToolPrint: Print{2}, State: InputRequired, HandleOut: true,
		Owner: "owner", Waiter: "waiter", CreatedAt: time.Now(), UpdatedAt: time.Now()}
	head := j.appendHead(nil, []byte(`{"a":1}`), []byte("12"))
	value := append(slices.Clone(head), "{}"...)
	r, ok := readRecent(rowKey(&j), value)
	if !ok || r.handle() != j.Handle || !r.created().Equal(j.CreatedAt) || !r.live() {
		t.Fatalf("read %+v, %v", r, ok)
	}
	if string(r.arguments) != `{"a":1}` || string(r.result) != "12" || string(r.text) != "{}" {
		t.Errorf("arguments %q, result %q, record %q", r.arguments, r.result, r.text)
	}
	if !r.has(&j.Fingerprint) || !r.has(&j.ToolPrint) || r.has(&Print{3}) {
		t.Error("the prints are not those of the job")
	}
	b := r.brief
	if b.state() != j.State || !b.handleOut() || string(b.owner()) != j.Owner || string(b.waiter()) != j.Waiter {
		t.Errorf("brief %q", b)
	}
	for n := range head {
		if _, ok := readRecent(rowKey(&j), value[:n]); ok {
			t.Errorf("a row of %d bytes was read, its record begins at %d", n, len(head))
		}
	}
	for n := range value { // whatever it says, it is only read within its bytes
		broken := slices.Clone(value)
		broken[n] = 0xff
		readRecent(rowKey(&j), broken)
	}
	for _, key := range []string{"", "12345678"} {
		if _, ok := readRecent([]byte(key), value); ok {
			t.Errorf("a row with the key %q was read", key)
		}
	}
}

func beginOne(t *testing.T, j *Journal, n int, change ...func(*Call)) Begun {
	t.Helper()
	c := Call{Account: me, Tool: "add", Arguments: fmt.Appendf(nil, `{"n":%d}`, n)}
	for _, f := range change {
		f(&c)
	}
	b, err := j.Begin(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tell(t *testing.T, j *Journal, h Handle) {
	t.Helper()
	e := End{State: Completed, Effect: Reported, Evidence: ToolResult, Result: []byte("{}"), Kind: ToolAnswer}
	if _, err := j.Finish(context.Background(), h, e); err != nil {
		t.Fatal(err)
	}
	j.Note(h, Note{Told: true})
}

func leaveUnknown(t *testing.T, j *Journal, h Handle) Job {
	t.Helper()
	job, err := j.Finish(context.Background(), h, End{State: OutcomeUnknown, Effect: Possible, Evidence: BridgeLeft})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// TestIndexOfHandlesLagsBehind: jobs are found by handle before and after the index
// of handles has them, and it gets them many at a time; one that was created before
// those that it has comes late.
func TestIndexOfHandlesLagsBehind(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	j, s := inMemory(t)
	late := beginOne(t, j, -1).Job.Handle
	var all []Handle
	changes := 0 // of the index
	was := 0
	for n := range maxBehind + 4*recentRoom {
		h := beginOne(t, j, n).Job.Handle
		tell(t, j, h)
		all = append(all, h)
		if have := countRows(t, s, tableHandles); have != was {
			changes, was = changes+1, have
		}
	}
	if changes != 1 || was < maxBehind {
		t.Errorf("the index changed %d times and has %d of %d jobs", changes, was, len(all))
	}
	tell(t, j, late)
	for n := range 2 * recentRoom {
		tell(t, j, beginOne(t, j, -2-n).Job.Handle)
	}
	if have := countRows(t, s, tableHandles); have != was+1 {
		t.Errorf("the index has %d jobs, want that of %d and a late one", have, was)
	}
	other := New(s.Share(), Options{})
	for _, h := range append(all, late) {
		if job, err := other.Find(ctx, h); err != nil || job.Handle != h {
			t.Fatalf("job %s: %v", h, err)
		}
		if job, err := other.FindPrefix(ctx, string(h[:20])); err != nil || job.Handle != h {
			t.Fatalf("job %s by prefix: %v", h, err)
		}
	}
	if err := other.Check(ctx); err != nil {
		t.Error(err)
	}
}

// TestIndexOfHandlesAfterAWrongClock: what was created under a clock that was ahead
// does not let every later job be indexed by itself for ever.
func TestIndexOfHandlesAfterAWrongClock(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	j, s := inMemory(t)
	tell(t, j, beginOne(t, j, 0).Job.Handle)
	err := s.Update(ctx, func(tx store.Tx) error {
		return tx.Put(tableMarks, markIndexed, timeKey(time.Now().Add(20*365*24*time.Hour), NewHandle()))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.File(ctx); err != nil {
		t.Fatal(err)
	}
	if n := countRows(t, s, tableHandles); n != 1 {
		t.Fatalf("%d jobs are indexed", n)
	}
	for n := range 2 * recentRoom {
		tell(t, j, beginOne(t, j, n+1).Job.Handle)
	}
	if n := countRows(t, s, tableHandles); n != 1 {
		t.Errorf("%d jobs are indexed", n)
	}
	if err := j.Check(ctx); err != nil {
		t.Error(err)
	}
	if _, err := j.Forget(ctx, Account{}, true); err != nil {
		t.Fatal(err)
	}
	if err := j.File(ctx); err != nil {
		t.Fatal(err)
	}
	if err := j.Check(ctx); err != nil {
		t.Error(err)
	}
}

// TestLostArguments: a call whose arguments a damaged journal has lost is not sent
// again without them.
func TestLostArguments(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	j, s := inMemory(t)
	h := beginOne(t, j, 1).Job.Handle
	job := leaveUnknown(t, j, h)
	if err := j.File(ctx); err != nil {
		t.Fatal(err)
	}
	err := s.Update(ctx, func(tx store.Tx) error { return tx.Delete(tableBodies, bodyKey(h, suffixArguments)) })
	if err != nil {
		t.Fatal(err)
	}
	if body, err := j.Arguments(ctx, h); !errors.Is(err, ErrNoArguments) {
		t.Errorf("arguments %q, %v", body, err)
	}
	if _, b, err := j.Resolve(ctx, h, job.Seen(), Resolution{Word: SendAgain}); !errors.Is(err, ErrNoArguments) {
		t.Errorf("sent again as %s, %v", b.Job.Handle, err)
	}
}

// TestSentAgainIsNotBesideItself: of the job that it replaces a job says so, and not
// that it is open beside it.
func TestSentAgainIsNotBesideItself(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	j, _ := inMemory(t)
	other := beginOne(t, j, 0).Job.Handle
	h := beginOne(t, j, 1).Job.Handle
	job := leaveUnknown(t, j, h)
	old, b, err := j.Resolve(ctx, h, job.Seen(), Resolution{Word: SendAgain})
	if err != nil || old.SupersededBy != b.Job.Handle || b.Job.Supersedes != h || !slices.Equal(b.Others, []Handle{other}) {
		t.Errorf("superseded by %q, supersedes %q, beside %q, %v", old.SupersededBy, b.Job.Supersedes, b.Others, err)
	}
	if err := j.Check(ctx); err != nil {
		t.Error(err)
	}
}

func countRows(t *testing.T, s store.Store, table store.Table) (n int) {
	t.Helper()
	err := s.View(context.Background(), func(tx store.Tx) error {
		for range tx.Scan(table, nil) {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestOpenJobsAreFiled: more jobs are open than stand in recent rows. The guard, the
// jobs beside a new one, what needs somebody and what bodies are kept do not depend
// on where a job stands.
func TestOpenJobsAreFiled(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	j, s := inMemory(t)
	out := beginOne(t, j, 0).Job.Handle
	if _, err := j.GiveHandle(ctx, out); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("a", maxInRow)
	var open []Handle
	for n := range maxRecent + 10 {
		b := beginOne(t, j, n+1, func(c *Call) {
			if n%50 == 0 {
				c.Arguments = fmt.Appendf(nil, `{"n":%d,"large":%q}`, n+1, large)
			}
		})
		open = append([]Handle{b.Job.Handle}, open...)
		want := append(slices.Clone(open[1:]), out)
		if got := b.Others; !slices.Equal(got, want[:min(3, len(want))]) {
			t.Fatalf("job %d has %q beside it, want %q", n, got, want[:min(3, len(want))])
		}
		if got := beginOne(t, j, 0); got.Hold != StillRun || got.Job.Handle != out {
			t.Fatalf("with %d others a repeat is %v by %s", n, got.Hold, got.Job.Handle)
		}
	}
	if filed, recent := countRows(t, s, tableJobs), countRows(t, s, tableRecent); filed == 0 || recent == 0 {
		t.Fatalf("%d jobs are filed and %d are not: nothing is tested", filed, recent)
	}
	list, err := j.List(ctx, Filter{Attention: true})
	if err != nil || len(list) != len(open)+1 {
		t.Fatalf("%d jobs need somebody, %v", len(list), err)
	}
	for n, h := range open {
		if list[n].Handle != h {
			t.Fatalf("at %d stands %s, want %s", n, list[n].Handle, h)
		}
		body, err := j.Arguments(ctx, h)
		if err != nil || int64(len(body)) != list[n].Arguments.Size || !strings.HasPrefix(string(body), `{"n":`) {
			t.Errorf("arguments %.40q of %d, %v", body, list[n].Arguments.Size, err)
		}
	}
	if err := j.Check(ctx); err != nil {
		t.Error(err)
	}
	for _, h := range open {
		tell(t, j, h)
	}
	if err := j.File(ctx); err != nil {
		t.Fatal(err)
	}
	if n := countRows(t, s, tableBodies); n != 1 {
		t.Errorf("%d bodies are left, only one job is open", n)
	}
	if err := j.Check(ctx); err != nil {
		t.Error(err)
	}
}

// TestFiledWithTheirBodies: what is kept of a job that needs nobody moves with it.
func TestFiledWithTheirBodies(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	j, _ := inMemory(t)
	full := beginOne(t, j, 1, func(c *Call) { c.Store = StoreFull }).Job.Handle
	tell(t, j, full)
	plain := beginOne(t, j, 2).Job.Handle
	tell(t, j, plain)
	for range 2 {
		if err := j.File(ctx); err != nil {
			t.Fatal(err)
		}
		if body, err := j.Arguments(ctx, full); err != nil || string(body) != `{"n":1}` {
			t.Errorf("arguments %q, %v", body, err)
		}
		if body, _, err := j.Result(ctx, full); err != nil || string(body) != "{}" {
			t.Errorf("result %q, %v", body, err)
		}
		if body, _, err := j.Result(ctx, plain); err == nil {
			t.Errorf("a result %q that was told is kept", body)
		}
		if err := j.Check(ctx); err != nil {
			t.Error(err)
		}
	}
}
