package cost

import (
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A turner takes turns at a database of its own: open, overwrite one value, commit,
// close, with nothing of ours around it. That is the machine's own turn.
type turner struct {
	tb   testing.TB
	path string
	keys []string
}

// newTurner makes a database of so many values of 1 KiB. With one value a turn
// writes the least that bbolt can.
func newTurner(tb testing.TB, values int) *turner {
	tb.Helper()
	t := &turner{tb: tb, path: filepath.Join(tb.TempDir(), "turns.db")}
	for range values {
		t.keys = append(t.keys, rand.Text())
	}
	t.put(t.keys...)
	return t
}

func (t *turner) turn() {
	t.tb.Helper()
	t.put(t.keys[mathrand.IntN(len(t.keys))])
}

func (t *turner) put(keys ...string) {
	t.tb.Helper()
	db, err := bolt.Open(t.path, 0o600, nil)
	if err != nil {
		t.tb.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("turns"))
		for _, k := range keys {
			err = errors.Join(err, b.Put([]byte(k), make([]byte, 1<<10)))
		}
		return err
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
			own, least := newTurner(b, 1000), newTurner(b, 1)
			n := 0
			var reads, writes, turns, leasts []time.Duration
			round := func() {
				n++
				reads = append(reads, took(func() { h.tool("echo", n) }))
				writes = append(writes, took(func() { h.tool("write_echo", n) }))
				turns = append(turns, took(own.turn))
				leasts = append(leasts, took(least.turn))
			}
			for range 50 {
				round()
			}
			reads, writes, turns, leasts = nil, nil, nil, nil
			for b.Loop() {
				round()
			}
			if s.written() != n {
				b.Errorf("%d writes arrived, want %d", s.written(), n)
			}
			read, write, turn, leastTurn := p50(reads), p50(writes), p50(turns), p50(leasts)
			b.ReportMetric(micros(read), "µs-echo")
			b.ReportMetric(micros(write), "µs-write_echo")
			b.ReportMetric(micros(turn), "µs-turn")
			b.ReportMetric(micros(leastTurn), "µs-least-turn")
			b.ReportMetric(float64(write-read)/float64(turn), "turns/write")
			b.ReportMetric(float64(write-read)/float64(leastTurn), "least-turns/write")
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
