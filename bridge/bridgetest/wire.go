package bridgetest

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
)

// A wire is the way out of one response, with the faults that disturb it.
type wire struct {
	d      *delivery
	ctl    *http.ResponseController
	pieces *trickle
	gz     *gzip.Writer
	lazy   bool // never flush
}

func (d *delivery) wire(contentType string) *wire {
	w := &wire{d: d, ctl: http.NewResponseController(d.w)}
	if s, ok := d.strike("trickle"); ok {
		t := s.arg.(trickle)
		w.pieces = &t
	}
	if d.has("charset") && contentType != "" {
		base, _, _ := strings.Cut(contentType, ";")
		contentType = strings.ToUpper(base[:1]) + base[1:] + `;charset="UTF-8"; x=y`
		contentType = strings.Replace(contentType, "/event-stream", "/Event-Stream", 1)
	}
	h := d.w.Header()
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	if d.has("goaway") {
		h.Set("Connection", "close")
	}
	return w
}

// head writes status and headers.
func (w *wire) head(status int) {
	w.d.status = status
	w.d.w.WriteHeader(status)
}

// send writes a whole response with a body of known length.
func (w *wire) send(status int, b []byte) {
	d := w.d
	b = w.compressed(b)
	chunked := d.atPhase(phaseBeforeChunk) || w.pieces != nil || w.promises()
	if !chunked {
		d.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	}
	w.head(status)
	if d.atPhase(phaseHeaders) || d.atPhase(phaseHalf) || d.atPhase(phaseBeforeChunk) {
		w.flush()
	}
	if d.breaksAt(phaseHeaders) {
		return
	}
	if w.last(b) {
		d.replied = true
	}
}

// promises reports whether a Content-Length was set by a fault.
func (w *wire) promises() bool { return w.d.w.Header().Get("Content-Length") != "" }

// last writes the bytes that end a response, with the cuts that belong there.
func (w *wire) last(b []byte) bool {
	d := w.d
	if d.atPhase(phaseHalf) {
		w.write(b[:len(b)/2])
		w.flush()
		d.breaksAt(phaseHalf)
		return false
	}
	ok := w.write(b)
	if d.atPhase(phaseBeforeChunk) {
		w.flush()
		d.breaksAt(phaseBeforeChunk)
		return false
	}
	return ok && !d.broken.Load()
}

// atPhase reports whether a fault waits at the phase, without letting it happen.
func (d *delivery) atPhase(p phase) bool {
	for _, name := range []string{"stall", "cut-phase"} {
		if s, ok := d.strike(name); ok && s.arg == p {
			return true
		}
	}
	return false
}

// write writes bytes of the body, in pieces if a fault says so.
func (w *wire) write(b []byte) bool {
	if w.gz != nil {
		_, err := w.gz.Write(b)
		return err == nil
	}
	if w.pieces == nil {
		_, err := w.d.w.Write(b)
		return err == nil
	}
	for len(b) > 0 {
		n := min(w.pieces.bytes, len(b))
		if _, err := w.d.w.Write(b[:n]); err != nil {
			return false
		}
		w.flush()
		b = b[n:]
		if len(b) > 0 && !w.d.pause(w.pieces.interval) {
			return false
		}
	}
	return true
}

func (w *wire) flush() {
	if w.lazy {
		return
	}
	if w.gz != nil {
		_ = w.gz.Flush() // the write after it reports
	}
	_ = w.ctl.Flush() // the write after it reports
}

// close ends a compressed stream.
func (w *wire) close() {
	if w.gz != nil {
		_ = w.gz.Close() // the client sees a cut stream
	}
}

// compressed applies gzip and bad-gzip to a whole body.
func (w *wire) compressed(b []byte) []byte {
	h := w.d.w.Header()
	if w.d.has("gzip") {
		h.Set("Content-Encoding", "gzip")
		return zip(b)
	}
	s, ok := w.d.strike("bad-gzip")
	if !ok {
		return b
	}
	h.Set("Content-Encoding", "gzip")
	switch s.arg {
	case "length":
		// As servers do that compute the length before they compress. The
		// server closes the connection when the body turns out shorter.
		z := zip(b)
		h.Set("Content-Length", strconv.Itoa(max(len(b), len(z)+1)))
		return z
	case "br":
		h.Set("Content-Encoding", "br")
		return zip(b)
	}
	return append([]byte("garbage"), b...)
}

func zip(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b) // a bytes.Buffer takes everything
	_ = z.Close()
	return out.Bytes()
}

// stream begins a response that is an event stream.
func (w *wire) stream() {
	h := w.d.w.Header()
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	if s, ok := w.d.strike("gzip"); ok {
		w.lazy = s.arg == "lazy"
		h.Set("Content-Encoding", "gzip")
		w.gz = gzip.NewWriter(w.d.w)
	}
	w.head(http.StatusOK)
	w.flush()
}
