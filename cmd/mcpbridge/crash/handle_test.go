package crash

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// A call that outlives the answer deadline becomes a handle, in the words and
// fields that hosts and models need; its result comes exactly as the server
// gave it, in any process.
func TestHandle(t *testing.T) {
	t.Parallel()
	w := newCalls(t, "--answer-within=300ms")
	l := w.alone()
	id, open := l.hold("before", "add_entry", "one")
	a := l.answer(id).must(t, running)
	if a.isError || a.job.Effect != "possible" || a.job.Evidence != "answer_deadline" || a.job.EndedBy != "bridge" || a.job.Deliveries != 1 || a.job.Deduplicated {
		t.Errorf("the handle's answer: %s", a.raw)
	}
	if a.job.Message != a.text || a.job.Next.Tool != "mcpbridge_job" || a.job.Next.Arguments.Handle != string(a.handle) {
		t.Errorf("message or next: %s", a.raw)
	}
	var body struct {
		StructuredContent json.RawMessage
		Meta              map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(a.raw, &body); err != nil || string(body.StructuredContent) != string(body.Meta[jobKey]) {
		t.Errorf("structuredContent is not the job: %s", a.raw)
	}
	if again := l.call("add_entry", `{"key":"one"}`).must(t, running); again.handle != a.handle || !again.job.Deduplicated {
		t.Errorf("the repeat: %s", again.raw)
	}
	open()
	other := w.alone()
	got := other.poll(a.handle).must(t, result)
	var r struct{ Content []json.RawMessage }
	if err := json.Unmarshal(got.raw, &r); err != nil || len(r.Content) != 1 || got.text != "did one" || got.job.State != "completed" || got.job.Effect != "reported" {
		t.Errorf("the result: %s", got.raw)
	}
	l.poll(a.handle).must(t, result)
	w.once("add_entry")
}

// wait_seconds is cut to what this host waits, and the text says so.
func TestWaitIsCut(t *testing.T) {
	t.Parallel()
	w := newCalls(t, "--answer-within=2s")
	l := w.alone()
	id, open := l.hold("before", "add_entry", "one")
	h := l.answer(id).must(t, running).handle
	a := l.call("mcpbridge_job", fmt.Sprintf(`{"handle":%q,"wait_seconds":600}`, h)).must(t, running)
	if !strings.Contains(a.text, "wait_seconds was cut to") {
		t.Errorf("the text does not name the cut: %s", a.text)
	}
	if a.job.Next.Arguments.WaitSeconds > 2 {
		t.Errorf("the advice is to wait longer than the host does: %s", a.raw)
	}
	waiting := l.send("mcpbridge_job", fmt.Sprintf(`{"handle":%q,"wait_seconds":600}`, h))
	open()
	l.answer(waiting).must(t, result)
}

// Whoever asks again and again without waiting is slowed down, and never beyond
// what the host waits.
func TestQuickPollingIsHeld(t *testing.T) {
	t.Parallel()
	w := newCalls(t, "--answer-within=1200ms")
	l := w.alone()
	id, open := l.hold("before", "add_entry", "one")
	h := l.answer(id).must(t, running).handle
	ask := func() time.Duration {
		begun := time.Now()
		l.call("mcpbridge_job", fmt.Sprintf(`{"handle":%q}`, h)).must(t, running)
		return time.Since(begun)
	}
	ask()
	if d := ask(); d < 600*time.Millisecond {
		t.Errorf("the second look took %v: not held", d)
	}
	waiting := l.send("mcpbridge_job", fmt.Sprintf(`{"handle":%q}`, h))
	l.ping()
	open()
	begun := time.Now()
	if a := l.answer(waiting); a.word != result && time.Since(begun) > 5*time.Second {
		t.Errorf("a held look does not see the change: %s", a.text)
	}
}

// A result too long for a line of the host is read in pieces that together are
// the result as the server gave it.
func TestOversizeResultByOffset(t *testing.T) {
	t.Parallel()
	w := newCalls(t, "--host-line-limit=65536")
	l := w.alone()
	a := l.call("add_entry", `{"key":"one","size":300000}`)
	if a.handle == "" || !strings.Contains(a.text, "offset") || !strings.Contains(a.text, string(a.handle)) {
		t.Fatalf("a large result: %s", a.text)
	}
	t.Logf("told: %s", a.text)
	var whole strings.Builder
	other := w.alone("--host-line-limit=65536") // any process reads it
	for at, pieces := 0, 0; ; pieces++ {
		p := other.call("mcpbridge_job", fmt.Sprintf(`{"handle":%q,"offset":%d}`, a.handle, at))
		var s struct {
			StructuredContent struct {
				Offset, Total int
				NextOffset    *int
			}
		}
		if err := json.Unmarshal(p.raw, &s); err != nil || p.isError || s.StructuredContent.Offset != at || pieces > 100 {
			t.Fatalf("piece at %d: %v %.300s", at, err, p.raw)
		}
		whole.WriteString(p.text)
		if len([]rune(p.text)) > 40_000 {
			t.Errorf("a piece of %d characters", len([]rune(p.text)))
		}
		if s.StructuredContent.NextOffset == nil {
			if whole.Len() != s.StructuredContent.Total {
				t.Errorf("%d bytes in pieces, total %d", whole.Len(), s.StructuredContent.Total)
			}
			break
		}
		at = *s.StructuredContent.NextOffset
	}
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal([]byte(whole.String()), &r); err != nil || len(r.Content) != 1 || len(r.Content[0].Text) < 300_000 {
		t.Errorf("the pieces are no tool result: %v", err)
	}
	for _, offset := range []string{"-1", "99999999", "0.5", `"x"`} {
		if a := l.call("mcpbridge_job", fmt.Sprintf(`{"handle":%q,"offset":%s}`, a.handle, offset)).must(t, failed); !a.isError {
			t.Errorf("offset %s: %s", offset, a.text)
		}
	}
	w.once("add_entry")
}

// Without the bridge's tools no handle is given out: the call stays open until
// the server answers.
func TestJobToolsNone(t *testing.T) {
	t.Parallel()
	w := newCalls(t, "--job-tools=none", "--answer-within=300ms")
	l := w.alone()
	if list := l.request("tools/list", "{}"); strings.Contains(string(list.Result), "mcpbridge_") {
		t.Errorf("the bridge's tools are listed: %s", list.Result)
	}
	id, open := l.hold("before", "add_entry", "one")
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	<-timer.C // the answer deadline has passed
	if r := l.host.Replies(id); len(r) > 0 {
		t.Fatalf("answered before the server did: %s", r[0].Raw)
	}
	open()
	l.answer(id).must(t, result)
	w.once("add_entry")
}

// The journal is not needed for reads, is tried for tools that say nothing, and
// is required for writes.
func TestJournalThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	broken := func(t *testing.T, w *world) { // what should be the lock is a directory
		t.Helper()
		if err := os.MkdirAll(filepath.Join(w.dir, "jobs.lock"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		journal string
		tool    string
		sent    bool
		says    string // in _meta
	}{
		{"", "add_entry", false, ""},
		{"", "act", true, "unprotected"},
		{"", "look", true, ""},
		{"required", "act", false, ""},
		{"required", "look", true, ""},
		{"try", "add_entry", true, "unprotected"},
		{"off", "add_entry", true, ""},
	} {
		t.Run("journal="+c.journal+"/"+c.tool, func(t *testing.T) {
			t.Parallel()
			var args []string
			if c.journal != "" {
				args = append(args, "--journal="+c.journal)
			}
			w := newCalls(t, args...)
			broken(t, w)
			l := w.alone()
			a := l.call(c.tool, `{"key":"one"}`)
			if n := w.up.Ledger().Deliveries(c.tool); n != boolInt(c.sent) {
				t.Errorf("%d requests: %s", n, a.text)
			}
			if c.sent {
				a.must(t, result)
			} else if a.must(t, notSent); !a.isError || !strings.Contains(a.text, "-31008") {
				t.Errorf("refused: %s", a.text)
			}
			if got := string(a.meta["io.github.mcpbridge/journal"]); c.says != "" && got != `"`+c.says+`"` || c.says == "" && got != "" {
				t.Errorf("_meta says %s, want %q", got, c.says)
			}
			t.Logf("told: %s", a.text)
		})
	}
}

// With a full disk a write is refused before it is sent, and a result that
// cannot be journaled is told all the same.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if !splits {
		t.Skip("needs the shell's limit of file sizes")
	}
	w := newCalls(t)
	c := w.command("--linger=0")
	shell := append([]string{"/bin/sh", "-c", `trap '' XFSZ; ulimit -f 512; exec "$@"`, "sh"}, c...)
	l := w.startHost(bridgetest.HostOptions{Command: shell, Dir: w.home})
	l.call("add_entry", `{"key":"one"}`).must(t, result)
	w.prime()
	big := fmt.Sprintf(`{"key":"big","pad":%q}`, strings.Repeat("p", 600<<10))
	a := l.call("add_entry", big).must(t, notSent)
	if !strings.Contains(a.text, "-31008") || !a.isError {
		t.Errorf("refused: %s", a.text)
	}
	if n := w.up.Ledger().EffectsOf("add_entry", "big"); n != 0 {
		t.Errorf("the tool acted %d times", n)
	}
	a = l.call("add_entry", `{"key":"large","size":600000}`).must(t, result)
	if got := string(a.meta["io.github.mcpbridge/journaled"]); got != "false" {
		t.Errorf("journaled: %q", got)
	}
	for _, j := range w.records("add_entry") {
		if j.State == jobs.Failed || j.Effect == jobs.None {
			t.Errorf("a wrong state in the journal: %+v", j)
		}
	}
	t.Logf("told: %s", a.text[:10])
}
