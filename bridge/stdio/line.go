package stdio

import (
	"container/list"
	"fmt"
)

const (
	// joinLimit is the size up to which a line is made one slice, so that it
	// costs one system call.
	joinLimit = 64 << 10
	// lineCost is what a queued line costs in bytes beside its content.
	lineCost = 256
)

// An OversizeError reports a line that the host could not take, of which
// nothing was written.
type OversizeError struct {
	Size  int // bytes, as the line would have left
	Limit int // the first size that is too long
}

func (e *OversizeError) Error() string {
	return fmt.Sprintf("write line to host: its %d bytes reach the limit of %d; --host-line-limit sets it", e.Size, e.Limit)
}

// LineSize returns how long a line of these parts is when it leaves, in bytes,
// without its end: some characters leave as longer escapes, line ends between
// tokens not at all.
func LineSize(parts ...[]byte) int {
	size, _ := measure(parts)
	return size
}

// measure is LineSize, and reports whether the parts leave as they are.
func measure(parts [][]byte) (size int, same bool) {
	same = true
	for _, p := range parts {
		n, unchanged := cleanSize(p)
		size, same = size+n, same && unchanged
	}
	return size, same
}

// A line is what waits to be written.
type line struct {
	parts   [][]byte  // what is left of it
	whole   [1][]byte // what parts is of, if one slice holds the line
	lent    bool      // the parts, but the last, are others' and may need to be cleaned when written
	cleaned bool      // the first of them is clean
	same    bool      // all of them are
	cost    int       // what it counts against the bound of the queue
	key     string    // of a notification; a later one with the same key makes it stale
	answer  bool      // never dropped
	release func()    // called when parts are not read any more; nil for nothing

	tells     int64         // the lost lines that it tells about
	begun     bool          // a part was written: the rest comes next
	droppable *list.Element // its place among the notes of a queue
	stale     *list.Element // its place among the stale notes
}

// newAnswer makes a line of JSON parts; it has no line end but its last byte.
// Short parts are copied, long ones lent until release is called. Size and same
// are what measure says of them.
func newAnswer(parts [][]byte, size int, same bool, release func()) *line {
	l := &line{cost: size + len(lineFeed) + lineCost, answer: true, same: same, release: release}
	if size > joinLimit {
		l.parts = append(append(make([][]byte, 0, len(parts)+1), parts...), []byte(lineFeed))
		l.lent = true
		return l
	}
	l.join(parts, size)
	l.free()
	return l
}

// newNote makes a line of copies of JSON parts.
func newNote(parts [][]byte, size int, same bool) *line {
	l := &line{cost: size + len(lineFeed) + lineCost, same: same}
	l.join(parts, size)
	return l
}

func (l *line) join(parts [][]byte, size int) {
	whole := make([]byte, 0, size+len(lineFeed))
	for _, p := range parts {
		if l.same {
			whole = append(whole, p...)
		} else {
			whole = appendClean(whole, p)
		}
	}
	l.whole[0] = append(whole, lineFeed...)
	l.parts = l.whole[:]
}

// plainLine is a note of text whose line ends are its own.
func plainLine(text []byte) *line {
	whole := append(append(make([]byte, 0, len(text)+1), text...), lineFeed...)
	l := &line{whole: [1][]byte{whole}, cost: len(whole) + lineCost}
	l.parts = l.whole[:]
	return l
}

// next returns the part to write next. Of all that waits, only what is being
// written has a clean copy.
func (l *line) next() []byte {
	if l.lent && !l.same && !l.cleaned && len(l.parts) > 1 {
		l.parts[0], l.cleaned = clean(l.parts[0]), true
	}
	return l.parts[0]
}

// written takes n bytes off the part that next returned.
func (l *line) written(n int) {
	if n > 0 {
		l.begun = true
	}
	if l.parts[0] = l.parts[0][n:]; len(l.parts[0]) == 0 {
		l.parts[0] = nil
		l.parts, l.cleaned = l.parts[1:], false
	}
}

// free says that the parts are not read any more.
func (l *line) free() {
	if l.release != nil {
		l.release()
		l.release = nil
	}
}
