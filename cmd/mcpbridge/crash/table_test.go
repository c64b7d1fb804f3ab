package crash

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// A row is what one run came to.
type row struct {
	point, victim, era string
	alive, again       bool
	first              word
	end                string
	deduplicated       bool
	deliveries, effect int
}

// A table gathers rows.
type table struct {
	mu   sync.Mutex
	rows []row
}

func (t *table) add(r row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, r)
}

// told is what the host of the same call is told first, and what that comes to.
func (r row) told() string {
	s := string(r.first)
	switch {
	case r.again:
		s += " of a new call"
	case r.deduplicated:
		s += " of the first call"
	}
	if r.end != s && r.first != result {
		s += ", then " + r.end
	}
	return s
}

// markdown writes two tables: by what was killed, and each run.
func (t *table) markdown() string {
	return t.summary() + "\n" + t.detail()
}

// summary has a line for each point: what is told if the process that held the
// call is dead, and if it goes on.
func (t *table) summary() string {
	var b strings.Builder
	b.WriteString("| killed at | one process, the worker, or all | the front, or the host's process group | requests | effects |\n| --- | --- | --- | --- | --- |\n")
	for _, p := range points() {
		dead, alive, requests, effects := set{}, set{}, set{}, set{}
		for _, r := range t.rows {
			switch {
			case r.point != p.name:
				continue
			case r.alive:
				alive.add(r.told())
			default:
				dead.add(r.told())
			}
			requests.add(strconv.Itoa(r.deliveries))
			effects.add(strconv.Itoa(r.effect))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", p.name, dead, alive, requests, effects)
	}
	return b.String()
}

// detail has a line for each run.
func (t *table) detail() string {
	var b strings.Builder
	b.WriteString("| killed at | killed | server | the same call is told | requests | effects |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, p := range points() {
		for _, v := range victims() {
			for _, r := range t.rows {
				if r.point == p.name && r.victim == v.name {
					fmt.Fprintf(&b, "| %s | %s | %s | %s | %d | %d |\n", r.point, r.victim, r.era, r.told(), r.deliveries, r.effect)
				}
			}
		}
	}
	return b.String()
}

// A set is what was seen, each once, in order.
type set map[string]bool

func (s set) add(text string) { s[text] = true }

func (s set) String() string { return strings.Join(slices.Sorted(maps.Keys(s)), "; ") }

// TestCrashTable kills the program at every point of a call: the single
// process, the front, the worker, the host's process group, or all of them. A
// new host then makes the same call at once, and every promise is compared with
// the server's ledger. A short run looks at each point with some victims.
func TestCrashTable(t *testing.T) {
	t.Parallel()
	rows := &table{}
	seed := seed(t)
	t.Run("run", func(t *testing.T) {
		for _, c := range cases(seed) {
			t.Run(fmt.Sprintf("%s/%s/%s", c.point.name, c.victim.name, c.era), func(t *testing.T) {
				t.Parallel()
				rows.add(c.run(t))
			})
		}
	})
	text := rows.markdown()
	t.Log("\n" + text)
	if name := os.Getenv(tableVariable); name != "" && !t.Failed() {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
}

func seed(t testing.TB) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	if err != nil {
		n = rand.Uint64()
	}
	t.Logf("%s=%d", seedVariable, n)
	return n
}

// A crash is one cell of the table.
type crash struct {
	point  point
	victim victim
	era    bridgetest.Era
}

// cases lists the cells of this run: all of them, or for each point one victim
// that leaves the call alive and one that does not.
func cases(seed uint64) []crash {
	r := rand.New(rand.NewPCG(seed, 1))
	var list []crash
	for _, p := range points() {
		all := slices.DeleteFunc(victims(), func(v victim) bool { return v.split && !splits })
		if full() {
			for _, v := range all {
				list = append(list, crash{p, v, bridgetest.Modern}, crash{p, v, bridgetest.Legacy})
			}
			continue
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		slices.SortStableFunc(all, func(a, b victim) int { return boolInt(a.alive) - boolInt(b.alive) })
		eras := []bridgetest.Era{bridgetest.Modern, bridgetest.Legacy}
		list = append(list, crash{p, all[0], eras[r.IntN(2)]})
		if last := all[len(all)-1]; last.alive {
			list = append(list, crash{p, last, eras[r.IntN(2)]})
		}
	}
	return list
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// newStage makes the world that a point needs.
func newStage(t testing.TB, c crash) *stage {
	t.Helper()
	o := bridgetest.Options{Era: c.era}
	var args []string
	hangs := c.point.name == "begun"
	if hangs {
		conf, _, err := bridgetest.SelfSigned()
		if err != nil {
			t.Fatal(err)
		}
		o.TLS = conf
		args = append(args, "--ca-cert="+writeCertificate(t, conf.Certificates[0].Certificate[0]), "--proxy=direct")
	}
	s := &stage{world: newWorld(t, o, args...), split: c.victim.split, tool: "add_entry", args: entry}
	if hangs {
		p, err := bridgetest.StartProxy(address(s.url))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		s.proxy = p
		s.url = strings.Replace(s.url, address(s.url), p.Addr(), 1)
	}
	return s
}

// run kills at the point, repeats the call as a new host, and checks.
func (c crash) run(t *testing.T) row {
	s := newStage(t, c)
	c.point.reach(s)
	worker := 0
	if s.split {
		worker = s.workerOf(s.pid())
	}
	c.victim.kill(s, worker)
	if s.killed != nil {
		s.killed()
	}
	next := s.startLane()
	first := next.call(s.tool, s.args)
	want := c.point.dead
	if c.victim.alive {
		want = c.point.alive
	}
	if !slices.Contains(want, first.word) {
		t.Errorf("the same call was told %q, want one of %q: %s", first.word, want, first.text)
	}
	s.checkSent(1 + boolInt(c.point.again))
	s.checkTruth(first)
	if s.release != nil {
		s.release()
	}
	end, leave := s.settle(next, c, first)
	s.checkSent(1 + boolInt(c.point.again) + leave)
	s.checkRecords(1 + boolInt(c.point.again) + leave)
	return row{point: c.point.name, victim: c.victim.name, era: eraName(c.era), alive: c.victim.alive, again: c.point.again,
		first: first.word, end: end, deduplicated: first.job.Deduplicated,
		deliveries: s.up.Ledger().Deliveries(s.tool), effect: s.up.Ledger().Effects(s.tool)}
}

func eraName(e bridgetest.Era) string {
	if e == bridgetest.Modern {
		return "modern"
	}
	return "legacy"
}

func (w *world) workerOf(pid int) int {
	w.t.Helper()
	worker := 0
	w.until("the worker has started", func() bool {
		c := children(pid)
		if len(c) > 0 {
			worker = c[0]
		}
		return worker != 0
	})
	return worker
}

// settle follows the call to its end, as a careful model would, and returns
// what it came to and how many repeats were asked for.
func (s *stage) settle(l *lane, c crash, a told) (end string, leave int) {
	t := s.t
	if a.word == running && c.point.stuck {
		a = l.resolve(a.handle, "stop_waiting", "the server is stuck")
		if a.word == running {
			a = l.poll(a.handle)
		}
	}
	if a.word == running {
		a = l.poll(a.handle)
	}
	if a.word != unknown {
		s.checkTruth(a)
		return "its " + string(a.word), 0
	}
	if c.point.sent == 1 { // the server has all of it, so it will act
		s.ledger(func(v *bridgetest.View) bool { return v.Effects(s.tool) == 1 })
		s.checkTruth(a)
		got := l.resolve(a.handle, "happened", "the entry is there")
		if got.word != settled {
			t.Errorf("after happened: %s", got.text)
		}
		return "settled: happened", 0
	}
	got := l.resolve(a.handle, "send_again", "the entry is not there")
	got.must(t, result)
	s.checkTruth(got)
	if old := l.poll(a.handle); old.job.SupersededBy == "" {
		t.Errorf("the first job does not name the one that follows it: %s", old.text)
	}
	return "sent again with leave: " + string(got.word), 1
}

// checkSent compares the requests with the leave that was given.
func (s *stage) checkSent(most int) {
	s.t.Helper()
	if n := s.up.Ledger().Deliveries(s.tool); n > most {
		s.t.Errorf("the server got %d whole requests, at most %d are allowed", n, most)
	}
	if n := s.up.Ledger().Effects(s.tool); n > most {
		s.t.Errorf("the tool acted %d times, at most %d are allowed", n, most)
	}
}

// checkTruth compares what was told with the ledger.
func (s *stage) checkTruth(a told) {
	s.t.Helper()
	acted := s.up.Ledger().EffectsOf(s.tool, "one")
	switch a.word {
	case result:
		if acted == 0 {
			s.t.Errorf("a result was told and the tool has not acted: %s", a.raw)
		}
		if !strings.HasPrefix(a.text, "did one") {
			s.t.Errorf("the result is not the server's: %s", a.raw)
		}
	case notSent:
		if acted > 0 {
			s.t.Errorf("told %q, but the tool acted %d times: %s", a.word, acted, a.text)
		}
	case failed, noAnswer, rpcError:
		s.t.Errorf("told %q: %s", a.word, a.text)
	case unknown, running:
		if a.handle == "" {
			s.t.Errorf("no handle with: %s", a.text)
			return
		}
		if j := s.find(a.handle); j.Effect == jobs.None {
			s.t.Errorf("job %s says that nothing was executed; nothing proves it", a.handle)
		}
	}
}

// checkRecords compares the journal with the ledger.
func (s *stage) checkRecords(most int) {
	s.t.Helper()
	list := s.records(s.tool)
	if len(list) > most || len(list) == 0 {
		s.t.Errorf("%d records of the call, at least 1 and at most %d are allowed", len(list), most)
	}
	completed := 0
	for _, j := range list {
		if j.State == jobs.Completed && j.Evidence == jobs.ToolResult {
			completed++
		}
		if !j.State.Settled() {
			s.t.Errorf("job %s is still %s", j.Handle, j.State)
		}
		if j.Conflict {
			s.t.Errorf("job %s is in conflict with itself", j.Handle)
		}
	}
	if acted := s.up.Ledger().Effects(s.tool); completed > acted {
		s.t.Errorf("%d jobs have a result, the tool acted %d times", completed, acted)
	}
}
