package crash

import (
	"strings"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/jobs"
)

// lose makes a call whose reply is lost, and returns its handle.
func (l *lane) lose(tool, arguments string) jobs.Handle {
	l.t.Helper()
	if err := l.up.SetFault("lost-reply@" + tool + "x1"); err != nil {
		l.t.Fatal(err)
	}
	h := l.call(tool, arguments).must(l.t, unknown).handle
	if h == "" {
		l.t.Fatal("an unknown outcome without a handle")
	}
	return h
}

// Two leaves to send again, given at once by two windows, are one.
func TestTwoSendAgainAtOnce(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	a, b := w.alone(), w.alone()
	h := a.lose("add_entry", `{"key":"one"}`)
	var both sync.WaitGroup
	answers := make([]told, 2)
	for i, l := range []*lane{a, b} {
		both.Go(func() { answers[i] = l.resolve(h, "send_again", "the entry is not there") })
	}
	both.Wait()
	results := 0
	for _, a := range answers {
		if a.word == result {
			results++
		}
	}
	if results != 1 {
		t.Errorf("%d of two leaves were followed: %s / %s", results, answers[0].text, answers[1].text)
	}
	if n := w.up.Ledger().Deliveries("add_entry"); n != 2 {
		t.Errorf("%d requests, want the first and one more", n)
	}
}

// A call that runs cannot be settled by a word, and goes on.
func TestResolveOnALiveJob(t *testing.T) {
	t.Parallel()
	w := newCalls(t, "--answer-within=300ms")
	l := w.alone()
	id, open := l.hold("before", "add_entry", "one")
	h := l.answer(id).must(t, running).handle
	for _, word := range []string{"happened", "did_not_happen", "send_again"} {
		a := l.resolve(h, word, "so it is")
		a.must(t, running)
		if !strings.Contains(a.text, "Nothing was changed") {
			t.Errorf("%s on a running call: %s", word, a.text)
		}
	}
	open()
	l.poll(h).must(t, result)
	w.once("add_entry")
	if a := l.resolve(h, "did_not_happen", "no"); !strings.Contains(a.text, "Nothing was changed") {
		t.Errorf("did_not_happen on a completed call: %s", a.text)
	}
}

// A model must say why, may not have a destructive call sent again without a
// person, and nothing is sent by a word that is none.
func TestResolveIsRefused(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	l := w.alone()
	h := l.lose("drop_entry", `{"key":"one"}`)
	for _, c := range []struct{ word, why, says string }{
		{"happened", "", "why is missing"},
		{"send_again", "it is not there", "only a person"},
		{"perhaps", "hm", "no resolution"},
	} {
		if a := l.resolve(h, c.word, c.why); !a.isError || !strings.Contains(a.text, c.says) {
			t.Errorf("%s: %s", c.word, a.text)
		}
	}
	w.once("drop_entry")
	if j := w.find(h); j.State != jobs.OutcomeUnknown {
		t.Errorf("the job is %s", j.State)
	}
}

// A model's word lifts the guard and proves nothing.
func TestModelsWord(t *testing.T) {
	t.Parallel()
	w := newCalls(t)
	l := w.alone()
	h := l.lose("add_entry", `{"key":"one"}`)
	a := l.resolve(h, "did_not_happen", "the list does not show it")
	if a.job.Effect != "possible" || a.job.Evidence != "resolved_by_model" || a.job.State != "failed" {
		t.Errorf("after a model's word: %s", a.raw)
	}
	l.call("add_entry", `{"key":"one"}`).must(t, result)
	if n := w.up.Ledger().Effects("add_entry"); n != 2 {
		t.Errorf("the tool acted %d times", n)
	}
}

// With --store none there is nothing to send again, and it is said.
func TestStoreNone(t *testing.T) {
	t.Parallel()
	w := newCalls(t, "--store=none")
	l := w.alone()
	h := l.lose("add_entry", `{"key":"one","pad":"a secret of the arguments"}`)
	a := l.resolve(h, "send_again", "the entry is not there").must(t, notSent)
	if !a.isError || !strings.Contains(a.text, "arguments") {
		t.Errorf("send_again without arguments: %s", a.text)
	}
	l.call("add_entry", `{"key":"one","pad":"a secret of the arguments"}`).must(t, unknown)
	w.once("add_entry")
	if _, err := w.journal.Arguments(w.ctx, h); err == nil {
		t.Error("the arguments are kept")
	}
}
