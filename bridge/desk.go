package bridge

import (
	"bytes"
	"sync"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// A desk is where questions wait for their answers, whichever way those come:
// from the host that was asked, with the next round of a request, or by way of
// the journal.
type desk struct {
	mu   sync.Mutex
	open map[string]chan []byte // by the question's id
}

func newDesk() *desk { return &desk{open: map[string]chan []byte{}} }

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
