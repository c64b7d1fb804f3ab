package sse

import (
	"bufio"
	"bytes"
	"io"
	"sync/atomic"
)

// bufferSize is the longest line that is seen in one piece. It is far above
// the longest field name, so that the first piece of a line names its field.
const bufferSize = 32 << 10

// A counter counts the bytes that come out of a reader.
type counter struct {
	r io.Reader
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// lines cuts a stream at LF, CR and CRLF. It never waits for the byte behind a
// CR: a line counts as soon as its first end mark is there.
type lines struct {
	in    *bufio.Reader
	err   error // why in gave no more; sticky
	afore bool  // the last line ended in CR; an LF next belongs to it
	took  int   // bytes of the last piece and its end mark, still in in
}

// next returns the next piece of a line, valid until the next call. A piece
// that does not end its line is bufferSize long, or it is the last of the
// stream and err says why there is no more.
func (l *lines) next() (piece []byte, ends bool, err error) {
	l.in.Discard(l.took)
	l.took = 0
	for seen := 0; ; {
		buf, _ := l.in.Peek(l.in.Buffered())
		if l.afore && len(buf) > 0 {
			l.afore = false
			if buf[0] == '\n' {
				l.in.Discard(1)
				continue
			}
		}
		if i := endMark(buf[seen:]); i >= 0 {
			i += seen
			l.took, l.afore = i+1, buf[i] == '\r'
			return buf[:i], true, nil
		}
		if len(buf) == bufferSize || l.err != nil {
			l.took = len(buf)
			return buf, false, l.err
		}
		seen = len(buf)
		if _, err := l.in.Peek(seen + 1); err != nil {
			l.err = err
		}
	}
}

// endMark returns the index of the first CR or LF in b, or -1.
func endMark(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}
