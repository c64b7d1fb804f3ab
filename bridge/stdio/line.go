package stdio

import "container/list"

const (
	// joinLimit is the size up to which a line is made one slice, so that it
	// costs one system call.
	joinLimit = 64 << 10
	// lineCost is what a queued line costs in bytes beside its content.
	lineCost = 256
)

// A line is what waits to be written.
type line struct {
	parts  [][]byte  // what is left of it
	whole  [1][]byte // what parts is of, if one slice holds the line
	cost   int       // what it counts against the bound of the queue
	key    string    // a later notification with the same one takes its place
	answer bool      // never dropped

	tells     int64         // the lost lines that it tells about
	begun     bool          // a part was written: the rest comes next
	droppable *list.Element // its place among the notes of a queue
}

// newLine makes a line of JSON parts; it has no line end but its last byte.
func newLine(parts [][]byte) *line {
	size := len(lineFeed)
	for _, p := range parts {
		size += len(p)
	}
	l := &line{cost: size + lineCost}
	if size > joinLimit {
		l.parts = make([][]byte, 0, len(parts)+1)
		for _, p := range parts {
			l.parts = append(l.parts, clean(p))
		}
		l.parts = append(l.parts, []byte(lineFeed))
		return l
	}
	whole := make([]byte, 0, size)
	for _, p := range parts {
		whole = append(whole, p...)
	}
	l.whole[0] = append(clean(whole), lineFeed...)
	l.parts = l.whole[:]
	return l
}

// plainLine is newLine for text whose line ends are its own.
func plainLine(text []byte) *line {
	whole := append(append(make([]byte, 0, len(text)+1), text...), lineFeed...)
	l := &line{whole: [1][]byte{whole}, cost: len(whole) + lineCost}
	l.parts = l.whole[:]
	return l
}

// written takes n bytes off the first part.
func (l *line) written(n int) {
	if n > 0 {
		l.begun = true
	}
	if l.parts[0] = l.parts[0][n:]; len(l.parts[0]) == 0 {
		l.parts[0] = nil
		l.parts = l.parts[1:]
	}
}
