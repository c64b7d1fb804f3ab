package bridge

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// patience knows how long hosts wait for a call: by their name, and by when
// they were seen to leave.
type patience struct {
	file string // empty: nothing is kept

	mu     sync.Mutex
	loaded bool
	hosts  map[string]*leaving
}

// A leaving is what was learnt about when one client gives up.
type leaving struct {
	Seconds int `json:"seconds"` // after which it was last seen to leave
	Seen    int `json:"seen"`    // how often in a row
}

const (
	defaultPatience = 45 * time.Second
	maxPatience     = 10 * time.Minute
	// A host that leaves twice after the same whole number of seconds has a
	// timer; a person who presses Esc does not.
	timesToLearn    = 2
	shortestLearnt  = 5 * time.Second
	timerPrecision  = time.Second
	maxLearntHosts  = 100
	patienceShare   = 75 // percent of the host's limit
	patiencePercent = 100
)

func newPatience(stateDir string) *patience {
	p := &patience{hosts: map[string]*leaving{}}
	if stateDir != "" {
		p.file = filepath.Join(stateDir, "hosts.json")
	}
	return p
}

// hostLimit is how long a host known by its client name waits, 0 for one that
// is not known (hosts as measured and documented, 2026-11).
func hostLimit(client string) time.Duration {
	name := strings.ToLower(client)
	for _, h := range []struct {
		part  string
		limit time.Duration
	}{
		{"cursor", 60 * time.Second}, // before vscode: it calls itself cursor-vscode
		{"codex", 300 * time.Second},
		{"goose", 300 * time.Second},
		{"gemini", maxPatience * 2},
		{"claude-code", maxPatience * 2},
		{"claude code", maxPatience * 2},
		{"visual studio code", maxPatience * 2},
		{"vscode", maxPatience * 2},
		{"claude-ai", 60 * time.Second},
		{"claude desktop", 60 * time.Second},
		{"zed", 60 * time.Second},
		{"cline", 60 * time.Second},
		{"opencode", 60 * time.Second},
		{"inspector", 60 * time.Second},
		{"mcp-cli", 60 * time.Second},
	} {
		if strings.Contains(name, h.part) {
			return h.limit
		}
	}
	return 0
}

// answerWithin is --answer-within auto for a client.
func (p *patience) answerWithin(client string) time.Duration {
	within := defaultPatience
	if limit := hostLimit(client); limit > 0 {
		within = limit * patienceShare / patiencePercent
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.load()
	if l := p.hosts[client]; l != nil && l.Seen >= timesToLearn {
		within = min(within, time.Duration(l.Seconds)*time.Second*patienceShare/patiencePercent)
	}
	return min(within, maxPatience)
}

// hostLeft notes that a host cancelled a call after some time.
func (p *patience) hostLeft(client string, after time.Duration, method string) {
	whole := after.Round(time.Second)
	if method != "tools/call" || client == "" || whole < shortestLearnt || (after-whole).Abs() > timerPrecision/4 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.load()
	l := p.hosts[client]
	if l == nil {
		if len(p.hosts) >= maxLearntHosts {
			return
		}
		l = &leaving{}
		p.hosts[client] = l
	}
	if seconds := int(whole / time.Second); seconds == l.Seconds {
		l.Seen++
	} else {
		*l = leaving{seconds, 1}
	}
	p.save()
}

func (p *patience) load() {
	if p.loaded || p.file == "" {
		return
	}
	p.loaded = true
	if b, err := os.ReadFile(p.file); err == nil {
		var hosts map[string]*leaving
		if json.Unmarshal(b, &hosts) == nil && hosts != nil {
			p.hosts = hosts
		}
	}
}

func (p *patience) save() {
	if p.file == "" {
		return
	}
	if b, err := json.Marshal(p.hosts); err == nil {
		writeState(p.file, b) // what is not kept is learnt again
	}
}
