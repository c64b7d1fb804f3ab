package retry

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

const (
	maxCounted = 1000
	otherTools = "other" // what tools beyond that are counted as
)

// Counts are what happened to the calls of one tool.
type Counts struct {
	Tool         string
	First        int64 // first deliveries
	Retries      int64 // further deliveries
	Deduplicated int64 // answered without a delivery
	Failures     int64 // calls that ended without a result
}

// Counters count by tool, up to 1,000 tools; those beyond are counted together
// as "other". The zero Counters are ready and may be used concurrently.
type Counters struct {
	mu    sync.Mutex
	tools map[string]*Counts
}

// First counts the first delivery of a call.
func (c *Counters) First(tool string) { c.update(tool, func(n *Counts) { n.First++ }) }

// Retry counts a further delivery.
func (c *Counters) Retry(tool string) { c.update(tool, func(n *Counts) { n.Retries++ }) }

// Deduplicated counts a call that was answered from an earlier one.
func (c *Counters) Deduplicated(tool string) { c.update(tool, func(n *Counts) { n.Deduplicated++ }) }

// Failed counts a call that ended without a result.
func (c *Counters) Failed(tool string) { c.update(tool, func(n *Counts) { n.Failures++ }) }

func (c *Counters) update(tool string, f func(*Counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, known := c.tools[tool]
	if !known && len(c.tools) >= maxCounted {
		tool = otherTools
		n, known = c.tools[tool]
	}
	if !known {
		if c.tools == nil {
			c.tools = make(map[string]*Counts)
		}
		n = &Counts{Tool: tool}
		c.tools[tool] = n
	}
	f(n)
}

// Snapshot returns the counts of all tools in the order of their names.
func (c *Counters) Snapshot() []Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Counts, 0, len(c.tools))
	for n := range maps.Values(c.tools) {
		all = append(all, *n)
	}
	slices.SortFunc(all, func(a, b Counts) int { return strings.Compare(a.Tool, b.Tool) })
	return all
}
