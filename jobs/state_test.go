package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

// TestMovesVisitEveryState pins the whole table of moves against an independent
// statement of it.
func TestMovesVisitEveryState(t *testing.T) {
	t.Parallel()
	all := []State{OutcomeUnknown, Working, InputRequired, Completed, Failed, Cancelled}
	if len(all) != len(stateNames) {
		t.Fatalf("%d states are tested, there are %d", len(all), len(stateNames))
	}
	settled := map[State]bool{Completed: true, Failed: true, Cancelled: true}
	for _, from := range all {
		if from.Settled() != settled[from] {
			t.Errorf("%v settled: %v", from, from.Settled())
		}
		for _, to := range all {
			j := Job{State: from, Version: 3}
			err := j.move(to, j.Seen(), time.Unix(1, 0))
			legal := !settled[from] && !(from == OutcomeUnknown && to == InputRequired)
			if (err == nil) != legal {
				t.Errorf("%v to %v: %v", from, to, err)
			}
			var illegal *IllegalMoveError
			if !legal && !settled[from] && !errors.As(err, &illegal) {
				t.Errorf("%v to %v: %v, want an IllegalMoveError", from, to, err)
			}
			if settled[from] && !errors.Is(err, ErrSettled) {
				t.Errorf("%v to %v: %v, want ErrSettled", from, to, err)
			}
			if err != nil && (j.State != from || j.Version != 3) {
				t.Errorf("%v to %v: refused and yet %v, version %d", from, to, j.State, j.Version)
			}
		}
		stale := Job{State: from, Version: 3}
		if err := stale.move(Completed, Seen{State: from, Version: 2}, time.Time{}); err == nil {
			t.Errorf("%v moved for a caller who saw an older version", from)
		}
	}
}

func TestSetsSpellEveryMember(t *testing.T) {
	t.Parallel()
	check := func(what string, names []string) {
		for i, n := range names {
			if n == "" || slices.Index(names, n) != i {
				t.Errorf("%s %d is %q", what, i, n)
			}
		}
	}
	for what, names := range map[string][]string{
		"state": stateNames[:], "class": classNames[:], "effect": effectNames[:], "store mode": storeNames[:],
		"guard": guardNames[:], "kind": kindNames[:], "hold": holdNames[:],
	} {
		check(what, names)
	}
	for _, v := range []any{State(200), Class(200), Effect(200), StoreMode(200), Guard(200), Kind(200)} {
		b, err := json.Marshal(v)
		if err != nil || !strings.Contains(string(b), "unknown(200)") {
			t.Errorf("%T(200) is %s, %v", v, b, err)
		}
	}
	var s State
	if err := json.Unmarshal([]byte(`"complete"`), &s); err == nil {
		t.Error("a state that does not exist was read")
	}
}

// FuzzState plays any sequence of moves, ends and words to a job: none leaves a
// settled state, none contradicts the first end silently, and no version comes
// twice.
func FuzzState(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5})
	f.Add([]byte{0x10, 0x23, 0x31, 0x42, 0x04, 0x15})
	f.Fuzz(func(t *testing.T, moves []byte) {
		x := &txn{now: time.Unix(1000, 0), due: time.Unix(1000, 0), j: &Journal{}}
		j := Job{Handle: NewHandle(), State: Working, Version: 1}
		var first *Job
		for i, m := range moves {
			before := j
			seen := j.Seen()
			if m&0x80 != 0 {
				seen.Version--
			}
			e := End{State: State(m & 7), Effect: Effect(m >> 3 & 3 % 3), Evidence: "e"}
			var err error
			if m&0x40 != 0 || !e.State.Settled() {
				err = j.move(e.State, seen, x.now)
			} else {
				err = x.settle(&j, seen, e)
			}
			switch {
			case err == nil && j.Version != before.Version+1:
				t.Fatalf("move %d: version %d after %d", i, j.Version, before.Version)
			case err == nil && before.State.Settled():
				t.Fatalf("move %d left %v for %v", i, before.State, j.State)
			case err == nil && m&0x80 != 0:
				t.Fatalf("move %d: a stale caller moved the job", i)
			case err != nil && (j.State != before.State || j.Effect != before.Effect || j.Version != before.Version):
				t.Fatalf("move %d was refused and changed the job", i)
			}
			if first == nil && j.State.Settled() {
				c := j
				first = &c
			}
			if len(j.Timeline) > maxTimeline {
				t.Fatalf("%d events", len(j.Timeline))
			}
		}
		if first != nil && (j.State != first.State || j.Effect != first.Effect || !j.EndedAt.Equal(first.EndedAt)) {
			t.Fatalf("first settled as %v, now %v", first.State, j.State)
		}
	})
}

func TestHandles(t *testing.T) {
	t.Parallel()
	h := NewHandle()
	if len(h) != handleLength {
		t.Fatalf("%s has %d characters", h, len(h))
	}
	for _, good := range []string{string(h), " " + string(h) + "\n", strings.ToUpper(string(h)), strings.TrimPrefix(string(h), "job_")} {
		if got, err := ParseHandle(good); err != nil || got != h {
			t.Errorf("ParseHandle(%q) = %q, %v", good, got, err)
		}
	}
	for _, bad := range []string{"", "job_", string(h) + "a", string(h[:20]), "job_" + strings.Repeat("1", 26), "../" + string(h), "job_\x00"} {
		if got, err := ParseHandle(bad); err == nil {
			t.Errorf("ParseHandle(%q) = %q", bad, got)
		}
	}
}

func TestClockJudges(t *testing.T) {
	t.Parallel()
	day := func(n float64) time.Time { return time.Unix(0, 0).Add(time.Duration(n * 24 * float64(time.Hour))) }
	for _, c := range []struct {
		name        string
		was         clock
		wall        time.Time
		next        clock
		wantCertain time.Time
		wantSure    bool
	}{
		{"new journal", clock{}, day(5), clock{kept: day(5)}, day(5), true},
		{"ordinary", clock{kept: day(5)}, day(5.5), clock{kept: day(5.5)}, day(5.5), true},
		{"behind", clock{kept: day(5)}, day(4), clock{kept: day(5)}, day(5), true},
		{"far ahead", clock{kept: day(5)}, day(7), clock{kept: day(5), ahead: day(7)}, day(5), false},
		{"still in doubt", clock{kept: day(5), ahead: day(7)}, day(7.01), clock{kept: day(5), ahead: day(7)}, day(5), false},
		{"agreed", clock{kept: day(5), ahead: day(7)}, day(7.05), clock{kept: day(7.05)}, day(7.05), true},
		{"another jump back, still ahead", clock{kept: day(5), ahead: day(9)}, day(7), clock{kept: day(5), ahead: day(7)}, day(5), false},
		{"was wrong", clock{kept: day(5), ahead: day(9)}, day(5.1), clock{kept: day(5.1)}, day(5.1), true},
	} {
		next, certain, sure := c.was.judge(c.wall)
		if !next.kept.Equal(c.next.kept) || !next.ahead.Equal(c.next.ahead) || !certain.Equal(c.wantCertain) || sure != c.wantSure {
			t.Errorf("%s: %+v, %v, %v", c.name, next, certain, sure)
		}
	}
}

// TestGuardTable states the guard independently of the code: it holds when
// nobody waits and nobody has seen the end.
func TestGuardTable(t *testing.T) {
	t.Parallel()
	at := time.Unix(1e6, 0)
	n := 0
	for _, class := range []Class{Write, Idempotent, Read, PresumedRead} {
		for _, state := range []State{OutcomeUnknown, Working, InputRequired, Completed, Failed, Cancelled} {
			for bits := range 64 {
				b := func(i int) bool { return bits>>i&1 == 1 }
				out, waited, lost, told, none, old := b(0), b(1), b(2), b(3), b(4), b(5)
				j := Job{State: state, HandleOut: out, Told: told && state.Settled(), ChangedAt: at, EndedAt: at}
				if none {
					j.Effect = None
				}
				now := at.Add(time.Hour)
				if old {
					now = at.Add(48 * time.Hour)
				}
				got, _ := j.holds(repeat{class: class, window: GuardWindow, waited: waited, lost: lost, at: now})
				if want := wantHold(class, j, waited, lost, old); got != want {
					t.Errorf("%v %v out=%v waited=%v lost=%v told=%v none=%v old=%v: %v, want %v", class, state, out, waited, lost, told, none, old, got, want)
				}
				n++
			}
		}
	}
	if n != 4*6*64 {
		t.Fatalf("%d cases", n)
	}
}

func wantHold(class Class, j Job, waited, lost, old bool) Hold {
	read := class == Read || class == PresumedRead
	open := j.State == Working || j.State == InputRequired
	switch {
	case read && j.State == Working && j.HandleOut && !lost:
		return StillRun
	case read:
		return NotHeld
	case open && (j.HandleOut || !waited || lost):
		return StillRun
	case j.State == OutcomeUnknown && !old && (j.HandleOut || !waited):
		return Unknown
	case j.State == Completed && !old && !j.Told && !waited:
		return KeptEnd
	case j.State == Failed && j.Effect != None && !old && !j.Told && !waited:
		return KeptEnd
	}
	return NotHeld
}

func TestMigrationsAreCounted(t *testing.T) {
	t.Parallel()
	tested := map[uint32]bool{
		1: true, // 0 to 1: every test that makes a journal
		2: true, // TestJournalOfVersion1
		3: true, // TestJournalOfVersion2
	}
	if v := Schema().Version(); int(v) != len(tested) || !tested[v] {
		t.Errorf("schema version %d: each migration needs a test, and %d have one", v, len(tested))
	}
}

// TestJournalOfVersion1 makes one, in which records stand by handle and each job has
// a row in due and in times, and uses it with this version.
func TestJournalOfVersion1(t *testing.T) {
	t.Parallel()
	const times store.Table = "times"
	journalOfVersion(t, 1, func(tx store.Tx, r row, job *Job) error {
		h := r.handle()
		due := job.ExpiresAt()
		if job.Result.Kept {
			due = job.resultUntil()
		}
		return errors.Join(
			tx.Put(tableDue, timeKey(due, h), []byte{}),
			tx.Put(times, r.key, []byte{}),
			tx.Put(tableJobs, []byte(h), r.text),
			tx.Delete(tableJobs, r.key),
			tx.Delete(tableHandles, []byte(h)))
	}, times)
}

// TestJournalOfVersion2 makes one, in which recent records have rows in the indexes,
// and the others all in that of handles.
func TestJournalOfVersion2(t *testing.T) {
	t.Parallel()
	recent := false
	journalOfVersion(t, 2, func(tx store.Tx, r row, _ *Job) error {
		recent = !recent
		if !recent {
			return nil
		}
		return errors.Join(
			tx.Put(tableRecent, r.key, append([]byte{r.flags}, r.text...)),
			tx.Delete(tableJobs, r.key),
			tx.Delete(tableHandles, []byte(r.handle())),
			tx.Put(tableMarks, []byte("room"), make([]byte, 8)),
			tx.Delete(tableMarks, markIndexed))
	})
}

// journalOfVersion makes a journal of an older version, for which change undoes what
// came later, of each job, and uses it with this one.
func journalOfVersion(t *testing.T, version int, change func(store.Tx, row, *Job) error, more ...store.Table) {
	t.Helper()
	ctx := context.Background()
	dir, now := t.TempDir(), time.Now()
	opts := Options{Now: func() time.Time { return now }}
	schema := Schema()
	schema.Migrations = schema.Migrations[:version]
	schema.Tables = append(schema.Tables, more...)
	s, err := boltstore.Open(dir, boltstore.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	j := New(s, opts)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	end := End{State: Completed, Effect: Reported, Evidence: ToolResult, Result: []byte("1"), Kind: ToolAnswer}
	for n, live := range []func(Handle){
		func(h Handle) { must(j.Finish(ctx, h, end)); j.Note(h, Note{Told: true}) },
		func(h Handle) { must(j.GiveHandle(ctx, h)); must(j.Finish(ctx, h, end)) },
		func(h Handle) { now = now.Add(2 * time.Hour); must(j.Finish(ctx, h, end)); j.Note(h, Note{Told: true}) },
		func(Handle) {},
	} {
		b, err := j.Begin(ctx, Call{Account: Account{Server: "crm", Principal: "me"}, Tool: "add", Arguments: []byte(strconv.Itoa(n))})
		must(b, err)
		live(b.Job.Handle)
	}
	must(nil, j.Flush(ctx))
	must(nil, j.File(ctx))
	must(nil, s.Update(ctx, func(tx store.Tx) error {
		var rows []row
		for k, v := range tx.Scan(tableJobs, nil) {
			r, _ := readFiled(k, v)
			rows = append(rows, r)
		}
		for _, r := range rows {
			var job Job
			must(nil, json.Unmarshal(r.text, &job))
			must(nil, change(tx, r, &job))
		}
		return nil
	}))
	must(nil, j.Close(ctx))

	j, err = Open(dir, opts, boltstore.Options{})
	must(j, err)
	defer func() { must(nil, j.Close(ctx)) }()
	must(nil, j.Check(ctx))
	all, err := j.List(ctx, Filter{})
	if err != nil || len(all) != 4 {
		t.Errorf("%d jobs, %v", len(all), err)
	}
	for _, job := range all {
		must(j.Find(ctx, job.Handle))
		if result, _, err := j.Result(ctx, job.Handle); job.Result.Kept && (err != nil || string(result) != "1") {
			t.Errorf("result %q, %v", result, err)
		}
	}
	for range 80 { // so that the clock is not in doubt
		now = now.Add(12 * time.Hour)
		must(j.Prune(ctx))
	}
	must(nil, j.Check(ctx))
	if left, err := j.List(ctx, Filter{}); err != nil || len(left) != 0 {
		t.Errorf("%d jobs after 40 days, %v; one of them was open and its owner is gone", len(left), err)
	}
}

func TestSealsAndPrints(t *testing.T) {
	t.Parallel()
	s, other := secrets{key: make([]byte, 32)}, secrets{key: []byte(strings.Repeat("k", 32))}
	sealed, err := s.seal("job_a", Resumption{Session: "token-like"})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(sealed), "token-like") {
		t.Error("the seal shows what is in it")
	}
	var r Resumption
	if err := s.open("job_a", sealed, &r); err != nil || r.Session != "token-like" {
		t.Errorf("opened: %+v, %v", r, err)
	}
	for _, bad := range []error{s.open("job_b", sealed, &r), other.open("job_a", sealed, &r), s.open("job_a", sealed[:5], &r)} {
		if bad == nil {
			t.Error("opened what it must not")
		}
	}
	if s.print("p", []byte("ab"), []byte("c")) == s.print("p", []byte("a"), []byte("bc")) {
		t.Error("parts run into each other")
	}
	if s.print("p", []byte("a")) == other.print("p", []byte("a")) || s.print("p") == s.print("q") {
		t.Error("prints do not depend on key and purpose")
	}
}
