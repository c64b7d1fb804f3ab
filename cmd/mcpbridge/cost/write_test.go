package cost

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A turner takes turns at a database of its own: open, commit one small value,
// close, with nothing of ours around it. That is the machine's own turn.
type turner struct {
	tb   testing.TB
	path string
}

func newTurner(tb testing.TB) *turner {
	tb.Helper()
	t := &turner{tb, filepath.Join(tb.TempDir(), "turns.db")}
	t.turn() // makes the file
	return t
}

func (t *turner) turn() {
	t.tb.Helper()
	db, err := bolt.Open(t.path, 0o600, nil)
	if err != nil {
		t.tb.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("turns"))
		if err != nil {
			return err
		}
		return b.Put([]byte("x"), []byte("y"))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.tb.Fatal(err)
	}
}

// took is how long f takes.
func took(f func()) time.Duration {
	at := time.Now()
	f()
	return time.Since(at)
}

func p50(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// BenchmarkWrite makes a read, a journaled write and a turn in turns. The write
// costs two turns that the read does not: one before it is sent and one before
// its end is told.
func BenchmarkWrite(b *testing.B) {
	for name, args := range map[string][]string{"two processes": nil, "one process": {"--linger=0"}} {
		b.Run(name, func(b *testing.B) {
			s := startServer(b)
			h := startHost(b, s.url, b.TempDir(), args...)
			h.initialize()
			h.knowTools()
			least := newTurner(b)
			n := 0
			round := func() (read, write, turn time.Duration) {
				n++
				return took(func() { h.tool("echo", n) }), took(func() { h.tool("write_echo", n) }), took(least.turn)
			}
			for range 50 {
				round()
			}
			var reads, writes, turns []time.Duration
			for b.Loop() {
				read, write, turn := round()
				reads, writes, turns = append(reads, read), append(writes, write), append(turns, turn)
			}
			if s.written() != n {
				b.Errorf("%d writes arrived, want %d", s.written(), n)
			}
			read, write, turn := p50(reads), p50(writes), p50(turns)
			b.ReportMetric(micros(read), "µs-echo")
			b.ReportMetric(micros(write), "µs-write_echo")
			b.ReportMetric(micros(turn), "µs-turn")
			b.ReportMetric(float64(write-read)/float64(turn), "turns/write")
		})
	}
}

// writes makes n journaled writes, so many of them in flight at once, and says
// how long all of them take.
func (h *host) writes(n, inFlight int) time.Duration {
	h.tb.Helper()
	at := time.Now()
	first, sent := h.id+1, 0
	send := func() {
		h.id++
		sent++
		h.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"write_echo","arguments":{"text":"hello","n":%d}}}`, h.id, h.id))
	}
	for sent < min(n, inFlight) {
		send()
	}
	for answered := 0; answered < n; {
		line := h.line()
		if id := answers(line); id < first || id > h.id {
			continue
		}
		if !strings.Contains(line, `"text":"hello"`) {
			h.tb.Fatal(line)
		}
		if answered++; sent < n {
			send()
		}
	}
	return time.Since(at)
}

// BenchmarkGroupCommit compares 64 writes in flight, which share turns, with one
// at a time.
func BenchmarkGroupCommit(b *testing.B) {
	const inFlight = 64
	for name, args := range map[string][]string{"two processes": nil, "one process": {"--linger=0"}} {
		b.Run(name, func(b *testing.B) {
			s := startServer(b)
			h := startHost(b, s.url, b.TempDir(), args...)
			h.initialize()
			h.knowTools()
			h.writes(200, inFlight)
			const few, many = 100, 2000
			var ones, all []time.Duration
			for b.Loop() {
				ones = append(ones, h.writes(few, 1)/few)
				all = append(all, h.writes(many, inFlight)/many)
			}
			one, together := p50(ones), p50(all)
			b.ReportMetric(float64(time.Second)/float64(one), "writes/s-1")
			b.ReportMetric(float64(time.Second)/float64(together), "writes/s-64")
			b.ReportMetric(float64(one)/float64(together), "x")
		})
	}
}
