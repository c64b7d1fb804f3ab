package jobs

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

const (
	maxCandidates = 64 // jobs that may hold a call back, of those that could
	maxOthers     = 3
	maxLooked     = 64 // filed jobs of a tool among which others are looked for
)

// neighbours are the other jobs that the begin of a call has to know of.
type neighbours struct {
	candidates [][]byte // keys of live jobs that may hold the call back, newest first
	others     []Handle // jobs of the same tool that are open or unknown, newest first
}

// neighbours looks around for a call. Jobs for which a host of this very process
// waits are no candidates.
func (t *txn) neighbours(p *prepared) (n neighbours) {
	print := p.guarded()
	candidates := shortlist{limit: maxCandidates, wanted: func(b brief) bool { return !b.waitedBy(p.owner) }}
	others := shortlist{limit: maxOthers, wanted: func(b brief) bool { return !b.state().Settled() }}
	for r := range t.recents().newest() {
		if !r.live() {
			continue
		}
		if print != nil && r.has(print) {
			candidates.offer(r.key, r.brief)
		}
		if r.has(&p.tool) {
			others.offer(r.key, r.brief)
		}
	}
	if print != nil {
		n.candidates = t.withFiled(&candidates, print, 0)
	}
	for _, k := range t.withFiled(&others, &p.tool, maxLooked) {
		n.others = append(n.others, Handle(k[timeLength:]))
	}
	return n
}

// guarded is the print of which no earlier job may be in doubt, nil if there is no
// guard.
func (p *prepared) guarded() *Print {
	switch p.Guard {
	case GuardOff:
		return nil
	case GuardTool:
		return &p.tool
	}
	return &p.print
}

// waitedBy reports whether a host of the process that owns a job waits for its
// answer.
func (b brief) waitedBy(process string) bool {
	return !b.handleOut() && string(b.waiter()) == process && string(b.owner()) == process
}

// A shortlist takes the first few jobs that are wanted.
type shortlist struct {
	limit  int
	wanted func(brief) bool
	keys   [][]byte
}

func (l *shortlist) offer(key []byte, b brief) {
	if len(l.keys) < l.limit && l.wanted(b) {
		l.keys = append(l.keys, key)
	}
}

// withFiled lists the keys of a shortlist of recent jobs together with filed ones
// that have the print, newest first. It looks at so many at most, if that is not 0.
func (t *txn) withFiled(recent *shortlist, p *Print, limit int) [][]byte {
	filed := shortlist{limit: recent.limit, wanted: recent.wanted}
	looked := 0
	for k, v := range t.tx.ScanBack(tablePrints, p[:]) {
		key, b := k[len(p):], brief(v)
		if len(key) <= timeLength || !b.valid() {
			t.fail(fmt.Errorf("%w: index of prints", store.ErrDamaged))
			return nil
		}
		filed.offer(key, b)
		if looked++; len(filed.keys) == filed.limit || looked == limit {
			break
		}
	}
	keys := append(recent.keys, filed.keys...)
	if len(filed.keys) > 0 {
		slices.SortFunc(keys, func(a, b []byte) int { return bytes.Compare(b, a) })
	}
	return keys[:min(len(keys), recent.limit)]
}
