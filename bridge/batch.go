package bridge

import (
	"errors"
	"sync"

	"github.com/mcpbridge/mcpbridge/bridge/stdio"
)

// A batch collects the answers to one array of the host and writes them as one
// array: MCP 2025-03-26, basic, "Batching". Each request gets an answer there:
// one for which the line has no room left gets an error instead.
type batch struct {
	host  *host
	share int64 // room for the error of any member, in bytes

	mu      sync.Mutex
	left    int   // requests not answered yet
	room    int64 // of the line, less a share for each of those
	parts   [][]byte
	release []func()
}

var errBatchTooLarge = errors.New("its answers may be longer together than this host can read (--host-line-limit): send fewer messages at once")

// newBatch returns a batch for members with these ids, nil for none, if the
// host's line has room for an error to each of them.
func newBatch(ids [][]byte, h *host) (*batch, error) {
	b := &batch{host: h, left: len(ids), room: h.bridge.cfg.HostLineLimit - int64(len("[]")) - 1}
	for _, id := range ids {
		b.share = max(b.share, lineSize([][]byte{h.noRoom(id), {','}}))
	}
	if b.room -= int64(b.left) * b.share; b.room < 0 {
		return nil, errBatchTooLarge
	}
	return b, nil
}

// add takes the answer to one member, of which release is called when it is
// not needed any more. It reports whether there is room for it; else an error
// takes its place.
func (b *batch) add(id []byte, release func(), parts ...[]byte) bool {
	size := lineSize(parts) + int64(len(","))
	b.mu.Lock()
	fits := size <= b.room+b.share
	if !fits {
		parts, size = [][]byte{b.host.noRoom(id)}, b.share
	}
	b.room += b.share - size
	if len(b.parts) > 0 {
		b.parts = append(b.parts, []byte(","))
	}
	b.parts = append(b.parts, parts...)
	if release != nil && fits {
		b.release = append(b.release, release)
	}
	b.mu.Unlock()
	if !fits {
		free(release)
	}
	b.done()
	return fits
}

// less says that one member gets no answer.
func (b *batch) less() {
	b.mu.Lock()
	b.room += b.share
	b.mu.Unlock()
	b.done()
}

// done counts one member. The array goes out with the last one.
func (b *batch) done() {
	b.mu.Lock()
	b.left--
	whole := b.left == 0 && len(b.parts) > 0
	b.mu.Unlock()
	if whole {
		b.host.writeLent(all(b.release), append(append([][]byte{[]byte("[")}, b.parts...), []byte("]"))...)
	}
}

// noRoom answers a member of a batch whose answer does not fit.
func (h *host) noRoom(id []byte) []byte {
	return rpcErrorLine(id, codeInvalidReply,
		"the answer to this message is left out: with the others of its batch it would be longer than this host can read (--host-line-limit). "+
			"What was asked for may have been done: ask for it on a line of its own only where doing it twice is harmless", []byte(`{"source":"mcpbridge"}`))
}

// lineSize is stdio.LineSize for parts in a slice.
func lineSize(parts [][]byte) int64 { return int64(stdio.LineSize(parts...)) }
