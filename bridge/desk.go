package bridge

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// A desk is where questions wait for their answers, whichever way those come:
// from the host that was asked, with the next round of a request, or by way of
// the journal.
type desk struct {
	mu    sync.Mutex
	open  map[string]chan []byte        // by the question's id
	asked map[string]context.CancelFunc // by the server's id of a question
	roots []byte                        // the last answer of a host to roots/list
}

func newDesk() *desk {
	return &desk{open: map[string]chan []byte{}, asked: map[string]context.CancelFunc{}}
}

// errWithdrawn ends the wait for an answer that the server wants no more.
var errWithdrawn = errors.New("the server took its question back")

// askedUnder is ctx for a question that the server asks under id; it ends when
// the server cancels that id. done is to be called when there is an answer.
func (b *Bridge) askedUnder(ctx context.Context, id []byte) (asking context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	key := jsonrpc.IDKey(id)
	d := b.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked[key] != nil { // sessions count by themselves: which one is meant cannot be told
		return ctx, func() { cancel(nil) }
	}
	d.asked[key] = func() { cancel(errWithdrawn) }
	return ctx, func() {
		d.mu.Lock()
		delete(d.asked, key)
		d.mu.Unlock()
		cancel(nil)
	}
}

// withdrawn takes a server's notifications/cancelled of its own question.
func (b *Bridge) withdrawn(m *jsonrpc.Message) {
	id := m.Field(jsonrpc.RequestID)
	if len(id) == 0 {
		return
	}
	b.desk.mu.Lock()
	cancel := b.desk.asked[jsonrpc.IDKey(id)]
	b.desk.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// lastRoots is what a host last answered to roots/list, nil if it never did.
func (d *desk) lastRoots() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.roots
}

func (d *desk) keepRoots(result []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.roots = bytes.Clone(result)
}

// put lays a question down and returns where its answer will come.
func (d *desk) put(id string) <-chan []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := make(chan []byte, 1)
	d.open[id] = answer
	return answer
}

// take removes a question.
func (d *desk) take(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, id)
}

// answer gives an answer, {"id":…,"result":…} or {"id":…,"error":…}, to the
// question that it names; false means that this question is not open here.
func (d *desk) answer(answer []byte) bool {
	id, _ := jsonrpc.String(jsonrpc.Get(answer, "id"))
	d.mu.Lock()
	defer d.mu.Unlock()
	waiting := d.open[id]
	if waiting == nil {
		return false
	}
	delete(d.open, id)
	waiting <- bytes.Clone(answer)
	return true
}
