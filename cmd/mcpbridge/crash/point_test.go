package crash

import (
	"fmt"
	"os"
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// A point is how far a call has got when processes are killed.
type point struct {
	name string
	// reach brings the call of the stage there and returns when it is proven
	// that it is there.
	reach func(*stage)
	// sent says how many whole requests may have reached the server by then,
	// acted whether the tool has acted, now or when it is let go on.
	sent int
	// dead and alive are what the same call may be told next, where the process
	// that held the call is dead, or goes on.
	dead, alive []word
	// again says that the repeat is a call of its own: the first was read.
	again bool
	// stuck says that the server never goes on with the first request.
	stuck bool
}

func points() []point {
	sentNow := []word{result}
	return []point{
		{name: "before begin", reach: (*stage).beforeBegin, dead: sentNow, alive: []word{result, running, unknown}},
		{name: "begun", reach: (*stage).begun, dead: []word{unknown}, alive: []word{running}},
		{name: "first byte written", reach: (*stage).firstByte, dead: []word{unknown}, alive: []word{running}, stuck: true},
		{name: "request written, before the effect", reach: (*stage).beforeEffect, sent: 1, dead: []word{unknown}, alive: []word{running}},
		{name: "request written, after the effect", reach: (*stage).afterEffect, sent: 1, dead: []word{unknown}, alive: []word{running}},
		{name: "half a reply", reach: (*stage).halfReply, sent: 1, dead: []word{unknown}, alive: []word{running}, stuck: true},
		{name: "reply read", reach: (*stage).replyRead, sent: 1, dead: []word{unknown}, alive: []word{result, running}},
		{name: "end journaled", reach: (*stage).endJournaled, sent: 1, dead: []word{result}, alive: []word{result}},
		{name: "line written", reach: (*stage).lineWritten, sent: 1, dead: []word{result}, alive: []word{result}},
		{name: "read", reach: (*stage).told, sent: 1, dead: sentNow, alive: sentNow, again: true},
	}
}

// A stage is one run: a world, the call in it and the host that made it.
type stage struct {
	*world
	split   bool // front and worker
	tool    string
	args    string
	lane    *lane     // nil where the host is deaf
	deaf    *deafHost // nil where it is not
	killed  func()    // called right after the kill
	release func()    // lets the server go on; called after the repeat was answered
	proxy   *bridgetest.TCPProxy
}

const entry = `{"key":"one"}`

// lanes start a host as the stage wants it.
func (s *stage) startLane() *lane {
	if s.split {
		return s.start()
	}
	return s.alone()
}

func (s *stage) beforeBegin() {
	s.prime()
	s.lane = s.startLane()
	s.killed = s.holdJournal()
	s.lane.send(s.tool, s.args)
	s.lane.ping()
	s.awaitTurn()
}

// begun: the record stands, but the handshake with the server hangs.
func (s *stage) begun() {
	s.lane = s.startLane()
	s.proxy.SetFault(bridgetest.ProxyFault{Freeze: true})
	s.proxy.Drop()
	s.release = func() { s.proxy.SetFault(bridgetest.ProxyFault{}) }
	s.lane.ping()
	s.lane.send(s.tool, s.args)
	s.untilRecord(s.tool, "working", inState(jobs.Working))
}

// firstByte: the server has read the head and reads no further; the body is
// larger than what the network holds.
func (s *stage) firstByte() {
	s.args = fmt.Sprintf(`{"key":"one","pad":%q}`, strings.Repeat("p", 5<<20))
	s.lane = s.startLane()
	s.fault("stall:head-read@POSTx1")
	s.lane.send(s.tool, s.args)
	s.ledger(func(v *bridgetest.View) bool { return stalled(v.Entries(), "head-read") })
	s.untilRecord(s.tool, "working", inState(jobs.Working))
}

func (s *stage) fault(text string) {
	if err := s.up.SetFault(text); err != nil {
		s.t.Fatal(err)
	}
	s.release = func() { _ = s.up.SetFaults() }
}

func stalled(entries []bridgetest.Entry, at string) bool {
	for _, e := range entries {
		for _, ev := range e.Events {
			if ev.Mark == bridgetest.MarkFault && strings.HasSuffix(ev.Detail, at) {
				return true
			}
		}
	}
	return false
}

func (s *stage) stopAt(where string) {
	s.lane = s.startLane()
	g := s.gates.close(where, "one")
	s.release = g.open
	s.lane.send(s.tool, s.args)
	if err := g.wait(s.ctx); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) beforeEffect() { s.stopAt("before") }
func (s *stage) afterEffect()  { s.stopAt("after") }

func (s *stage) halfReply() {
	s.lane = s.startLane()
	s.fault("stall:half-reply@" + s.tool + "x1")
	s.lane.send(s.tool, s.args)
	s.ledger(func(v *bridgetest.View) bool { return stalled(v.Entries(), "half-reply") })
}

// replyRead: the reply is here, and its end cannot be journaled yet.
func (s *stage) replyRead() {
	s.stopAt("after")
	open := s.release
	s.release = nil
	s.killed = s.holdJournal()
	open()
	s.ledger(func(v *bridgetest.View) bool {
		for _, e := range v.Requests("tools/call") {
			if e.Tool == s.tool && e.Has(bridgetest.MarkReply) {
				return true
			}
		}
		return false
	})
	s.awaitTurn()
}

// endJournaled: the pipe to the host is full, so that the line stays here.
func (s *stage) endJournaled() {
	s.deaf = s.startDeaf(s.lingerArgs()...)
	s.deaf.fill()
	s.deaf.call("c", s.tool, s.args)
	s.untilRecord(s.tool, "completed", inState(jobs.Completed))
}

func (s *stage) lingerArgs() []string {
	if s.split {
		return nil
	}
	return []string{"--linger=0"}
}

// lineWritten: the host has the line, and nothing says so to the program.
func (s *stage) lineWritten() {
	s.lane = s.startLane()
	s.lane.call(s.tool, s.args).must(s.t, result)
}

// told: the host went on, and the next turn at the journal said so.
func (s *stage) told() {
	s.lane = s.startLane()
	s.lane.call(s.tool, s.args).must(s.t, result)
	s.lane.call("set_entry", `{"key":"other"}`).must(s.t, result)
	s.untilRecord(s.tool, "told", func(j jobs.Job) bool { return j.Told })
}

func (s *stage) pid() int {
	if s.deaf != nil {
		return s.deaf.cmd.Process.Pid
	}
	return s.lane.host.PID()
}

// A victim is what is killed.
type victim struct {
	name  string
	split bool // there are a front and a worker
	alive bool // the process that holds the call goes on
	kill  func(s *stage, worker int)
}

func victims() []victim {
	return []victim{
		{name: "one process", kill: func(s *stage, _ int) { kill(s.t, s.pid()) }},
		{name: "front", split: true, alive: true, kill: func(s *stage, _ int) { kill(s.t, s.pid()) }},
		{name: "worker", split: true, kill: func(s *stage, w int) { kill(s.t, w) }},
		{name: "group", split: true, alive: true, kill: func(s *stage, _ int) { killGroup(s.t, s.pid()) }},
		{name: "all", split: true, kill: func(s *stage, w int) { kill(s.t, w); _ = tryKill(s.pid()) }},
	}
}

func tryKill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
