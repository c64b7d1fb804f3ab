package faults

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

var (
	updateReadme = flag.Bool("update-readme", false, "write the table of faults into README.md between its markers")
	printMatrix  = flag.Bool("print-matrix", false, "print every cell of the matrix as a table")
)

// atOnce is how many processes run at a time; most of them wait.
const atOnce = 8

// A group is one fault on one kind of server: the calls of all classes in one
// process.
type group struct {
	fault
	era      bridgetest.Era
	replicas int
}

func (g group) String() string {
	s := g.name + ", " + g.era.String()
	if g.replicas > 1 {
		s += ", two replicas, host of the other era"
	}
	return s
}

// A cell is what one class met in a group.
type cell struct {
	group
	class
	deliveries int // that the ledger has
	claimed    int // that the bridge says it made; -1 where it does not say
	effects    int
	said       statement
	problems   []string
}

// groups is the part of the matrix that is to run: all of it for FAULTS=all,
// else the part that FAULTS, a word, chooses.
func groups() []group {
	seed := os.Getenv("FAULTS")
	var out []group
	for _, f := range allFaults() {
		for _, era := range f.eras() {
			for replicas := 1; replicas <= 2; replicas++ {
				if replicas > 1 && (f.rig == tcp || f.rig == connect) {
					continue // they lead to one server
				}
				g := group{f, era, replicas}
				if seed == "all" || chosen(seed, g) {
					out = append(out, g)
				}
			}
		}
	}
	return out
}

// chosen picks one kind of server for each fault, by the seed.
func chosen(seed string, g group) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(seed + g.name)) // never fails
	n := h.Sum32()
	eras := g.eras()
	return g.era == eras[int(n)%len(eras)] && g.replicas == 1+int(n>>8)%2*twoReplicas(g)
}

func twoReplicas(g group) int {
	if g.rig == tcp || g.rig == connect {
		return 0
	}
	return 1
}

// TestMatrix runs every chosen fault against every class of tool and compares
// what came of it with the rules, and what the host was told with the ledger.
func TestMatrix(t *testing.T) {
	t.Parallel()
	all := groups()
	cells := make([][]cell, len(all))
	slots := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i, g := range all {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			cells[i] = g.run(t)
		})
	}
	running.Wait()
	for i, g := range all {
		t.Run(g.String(), func(t *testing.T) {
			for _, c := range cells[i] {
				c.report(t)
			}
		})
	}
	flat := slices.Concat(cells...)
	if *printMatrix {
		fmt.Println(longTable(flat))
	}
	if *updateReadme {
		update(t, shortTable(flat))
	}
}

func (c cell) report(t *testing.T) {
	for _, p := range c.problems {
		t.Errorf("%s: %s\n%s\n%+v", c.tool, p, c.said.text, c.said.verdict)
	}
}

// run makes the four calls of a group. A failure of the set-up ends the group.
func (g group) run(t *testing.T) []cell {
	var out []cell
	t.Run("run "+g.String(), func(t *testing.T) {
		r := newRig(t, g.fault, g.era, g.replicas)
		r.knowTools()
		r.call("put_item", `{"key":"seed","value":"a value of some length"}`)
		for _, c := range classes() {
			out = append(out, g.call(r, c))
		}
	})
	return out
}

// call makes one call under the fault and one after it.
func (g group) call(r *rig, c class) cell {
	key := strings.ReplaceAll(c.tool+"-"+g.name, `"`, "")
	arguments := fmt.Sprintf(`{"key":%q,"text":%q,"value":"v"}`, key, key)
	if c.tool == "get_item" {
		arguments = `{"key":"seed"}`
	}
	before := last(r.up.Ledger().Entries())
	g.strike(r)
	id := r.host.NextID()
	reply, err := r.host.CallID(r.ctx, id, "tools/call", bridgetest.ToolParams(c.tool, arguments))
	if err != nil {
		return cell{group: g, class: c, problems: []string{"no answer: " + err.Error()}}
	}
	result := cell{group: g, class: c, said: read(reply), claimed: -1}
	result.entries(r.up.Ledger().Entries(), before)
	g.heal(r, &result)
	if c.writes {
		result.effects = r.up.Ledger().EffectsOf(c.tool, key)
		g.repeat(r, &result, arguments)
	}
	if v := result.said.verdict; v != nil {
		result.claimed = v.Deliveries
	}
	if n := len(r.host.Replies(id)); n != 1 {
		result.problem("%d answers for one id", n)
	}
	result.judge()
	return result
}

// repeat makes the same call again where its outcome is unknown or open: it is
// held back, and answered by the job that there is.
func (g group) repeat(r *rig, c *cell, arguments string) {
	if c.said.head != unknown && c.said.head != running || c.said.job == nil {
		return // judged elsewhere
	}
	before := r.up.Ledger().Deliveries(c.tool)
	again, err := r.host.CallTool(r.ctx, c.tool, arguments)
	said := read(again)
	if n := r.up.Ledger().Deliveries(c.tool) - before; n != 0 {
		c.problem("a repeat was delivered %d times, and answered %q", n, said.text)
	}
	if err != nil || said.job == nil || said.job.Handle != c.said.job.Handle || !said.job.Deduplicated {
		c.problem("a repeat was not answered by the job: %v, %q, %+v", err, said.text, said.job)
	}
}

func last(entries []bridgetest.Entry) int {
	if len(entries) == 0 {
		return 0
	}
	return entries[len(entries)-1].Seq
}

func (g group) strike(r *rig) {
	if g.always {
		return
	}
	if err := r.up.SetFault(g.specs...); err != nil {
		r.t.Errorf("set the fault: %v", err)
	}
	if g.set != nil {
		g.set(r)
	}
}

// heal ends the fault and demands that the next call works. A fault that
// strikes once is left alone: what it left behind is the bridge's to mend.
func (g group) heal(r *rig, c *cell) {
	if g.unset != nil {
		g.unset(r)
	}
	if !g.selfLimited() && !g.always {
		if err := r.up.SetFaults(); err != nil {
			r.t.Errorf("clear the faults: %v", err)
		}
	}
	next, err := r.host.CallTool(r.ctx, "echo", fmt.Sprintf(`{"text":"after %s"}`, c.tool))
	said := read(next)
	for err == nil && said.head == running && said.job != nil { // the deadline may be short, and the machine busy
		next, err = r.host.CallTool(r.ctx, "mcpbridge_job", fmt.Sprintf(`{"handle":%q,"wait_seconds":1}`, said.job.Handle))
		said = read(next)
	}
	if err != nil || said.head != told {
		c.problem("the next call does not work: %v, %s", err, said.text)
	}
}

// selfLimited reports whether the fault's own specs end it.
func (g group) selfLimited() bool {
	return len(g.specs) > 0 && !slices.ContainsFunc(g.specs, func(s string) bool { return !strings.HasSuffix(s, "x1") })
}

// entries counts the deliveries of the call. One whose body is not read has no
// method in the ledger.
func (c *cell) entries(all []bridgetest.Entry, after int) {
	for _, e := range all {
		if e.Seq > after && e.HTTP == "POST" && (e.Tool == c.tool || c.unread && e.Method == "") {
			c.deliveries++
		}
	}
}

func (c *cell) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// judge compares the cell with the rules and the words with the ledger.
func (c *cell) judge() {
	e := expect(c.fault, c.class, c.era == bridgetest.Legacy)
	if !slices.Contains(e.deliveries, c.deliveries) {
		c.problem("%d deliveries, the rules say %d", c.deliveries, e.deliveries)
	}
	if !slices.Contains(e.effects, c.effects) {
		c.problem("%d effects, the rules say %d", c.effects, e.effects)
	}
	if !slices.Contains(e.told, c.said.head) {
		c.problem("the host was told %q, the rules say %q", c.said.head, e.told)
	}
	c.judgeWords()
}

// judgeWords holds for every cell, whatever the rules say.
func (c *cell) judgeWords() {
	if c.effects > 0 && c.said.denies() {
		c.problem("the statement denies an effect that the ledger has")
	}
	if c.writes && c.said.head == told && c.effects == 0 {
		c.problem("the host was told a result, and the ledger has no effect")
	}
	if !c.repeats && c.effects > 1 {
		c.problem("%d effects of a call that must not be repeated", c.effects)
	}
	if c.claimed >= 0 && c.claimed < c.deliveries {
		c.problem("the bridge says %d deliveries, the ledger has %d", c.claimed, c.deliveries)
	}
	c.judgeJob()
	if c.longAsk && !strings.Contains(c.said.text, "1h") {
		c.problem("the host is not told how long the server asks to wait")
	}
	if n := len(c.said.text); n > 900 && c.said.verdict != nil {
		c.problem("the text has %d bytes", n)
	}
	if c.said.verdict != nil && !strings.Contains(c.said.text, "crm") {
		c.problem("the text does not name the server")
	}
}

// judgeJob: a call that may have an effect and has no end yet has a job, in the
// state that the text says.
func (c *cell) judgeJob() {
	state := map[string]string{unknown: "outcome_unknown", running: "working"}[c.said.head]
	j := c.said.job
	switch {
	case state == "" || j == nil && !c.writes && c.said.head == unknown:
	case j == nil:
		c.problem("no job is spoken of")
	case j.State != state || j.Effect != "possible":
		c.problem("the job is %s with effect %s", j.State, j.Effect)
	case j.Deliveries < c.deliveries:
		c.problem("the job says %d deliveries, the ledger has %d", j.Deliveries, c.deliveries)
	}
}
