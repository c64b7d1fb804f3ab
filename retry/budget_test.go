package retry

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// take takes until the budget refuses, and counts.
func take(b *Budget, now time.Time) int {
	n := 0
	for b.Take(now) {
		n++
	}
	return n
}

func TestBudget(t *testing.T) {
	t.Parallel()
	b := new(Budget)
	if n := take(b, noon); n != 10 {
		t.Errorf("an idle server gets %d retries", n)
	}
	for range 100 {
		b.First(noon.Add(time.Second))
	}
	if n := take(b, noon.Add(2*time.Second)); n != 10 {
		t.Errorf("100 first deliveries allow %d more retries, want 10 to make 20", n)
	}
	if n := take(b, noon.Add(59*time.Second)); n != 0 {
		t.Errorf("%d retries more within the minute", n)
	}
	if n := take(b, noon.Add(60*time.Second)); n != 10 {
		t.Errorf("%d retries are free again after a minute, want the 10 of its first second", n)
	}
	if n := take(b, noon.Add(10*time.Minute)); n != 10 {
		t.Errorf("%d retries after long silence", n)
	}
	if n := take(b, noon); n != 0 {
		t.Errorf("a clock that went back frees %d retries", n)
	}
}

func TestBudgetTogether(t *testing.T) {
	t.Parallel()
	b := new(Budget)
	var group sync.WaitGroup
	var mu sync.Mutex
	taken := 0
	for range 8 {
		group.Go(func() {
			for range 50 {
				b.First(noon)
			}
			for range 50 {
				if b.Take(noon) {
					mu.Lock()
					taken++
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	if taken < 10 || taken > 80 {
		t.Errorf("%d retries for 400 first deliveries", taken)
	}
}

func TestCounters(t *testing.T) {
	t.Parallel()
	var c Counters
	c.First("b")
	c.First("b")
	c.Retry("b")
	c.Deduplicated("a")
	c.Failed("a")
	got := fmt.Sprint(c.Snapshot())
	if want := "[{a 0 0 1 1} {b 2 1 0 0}]"; got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
	for i := range 1500 {
		c.First(fmt.Sprintf("tool%d", i))
	}
	all := c.Snapshot()
	sum := int64(0)
	for _, n := range all {
		sum += n.First
		if n.Tool == "other" && n.First != 502 {
			t.Errorf("other is %d", n.First)
		}
	}
	if len(all) != 1001 || sum != 1502 {
		t.Errorf("%d tools with %d first deliveries", len(all), sum)
	}
}
