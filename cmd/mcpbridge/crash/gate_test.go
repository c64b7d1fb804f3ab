package crash

import (
	"context"
	"sync"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// Gates stop a tool of the server where a test wants it, until the test lets
// it go on.
type gates struct {
	mu   sync.Mutex
	shut map[string]*gate
	end  chan struct{} // the test is over
}

type gate struct {
	reached chan struct{}
	opened  chan struct{}
	once    sync.Once
	open    func()
}

func newGates() *gates { return &gates{shut: map[string]*gate{}, end: make(chan struct{})} }

// close shuts a gate: "before" or "after" the effect of a key.
func (g *gates) close(where, key string) *gate {
	d := &gate{reached: make(chan struct{}), opened: make(chan struct{})}
	d.open = sync.OnceFunc(func() { close(d.opened) })
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut[where+" "+key] = d
	return d
}

// pass is called by the tool.
func (g *gates) pass(where, key string) {
	g.mu.Lock()
	d := g.shut[where+" "+key]
	g.mu.Unlock()
	if d == nil {
		return
	}
	d.once.Do(func() { close(d.reached) })
	select {
	case <-d.opened:
	case <-g.end:
	}
}

// wait waits until the tool stands at the gate.
func (d *gate) wait(ctx context.Context) error {
	select {
	case <-d.reached:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// entryArguments are those of the tools below.
type entryArguments struct {
	Key  string
	Size int
}

// tools are those of an ordinary test server, and some with gates: additive,
// destructive, idempotent, unannotated, streaming and reading.
func (g *gates) tools() []bridgetest.Tool {
	const additive, destructive, idempotent = `{"readOnlyHint":false,"destructiveHint":false}`, `{"destructiveHint":true}`, `{"idempotentHint":true,"destructiveHint":false}`
	const input = `{"key":{"type":"string"},"size":{"type":"integer"},"pad":{"type":"string"},"requestId":{"type":"string"}}`
	own := []bridgetest.Tool{
		{Name: "add_entry", Description: "Adds an entry.", Annotations: []byte(additive), Input: []byte(input), Run: g.run},
		{Name: "drop_entry", Description: "Drops an entry.", Annotations: []byte(destructive), Input: []byte(input), Run: g.run},
		{Name: "set_entry", Description: "Sets an entry.", Annotations: []byte(idempotent), Input: []byte(input), Run: g.run},
		{Name: "act", Description: "Does something.", Input: []byte(input), Run: g.run},
		{Name: "slow_add", Description: "Adds an entry, and tells how far it is.", Annotations: []byte(additive), Input: []byte(input), Run: g.slow},
		{Name: "look", Description: "Looks, slowly.", Annotations: []byte(`{"readOnlyHint":true}`), Input: []byte(input), Run: g.look},
	}
	return append(bridgetest.DefaultTools(), own...)
}

func (g *gates) run(c *bridgetest.Call) (any, error) {
	var a entryArguments
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	g.pass("before", a.Key)
	c.Effect(a.Key)
	g.pass("after", a.Key)
	return answerOf(a), nil
}

// slow says how far it is before it stands at its first gate, which makes its
// answer a stream.
func (g *gates) slow(c *bridgetest.Call) (any, error) {
	c.Progress(1, 2, "half done")
	return g.run(c)
}

func (g *gates) look(c *bridgetest.Call) (any, error) {
	var a entryArguments
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	g.pass("before", a.Key)
	return answerOf(a), nil
}

func answerOf(a entryArguments) any {
	text := "did " + a.Key
	for len(text) < a.Size {
		text += " and " + text
	}
	return bridgetest.Text(text)
}
