package wire

// frameHead is the length of the head of an HTTP/2 frame (RFC 9113, 4.1).
const frameHead = 9

// A settingsFrame watches the first frame of an HTTP/2 connection go by, the
// server's SETTINGS (RFC 9113, 3.4). Whoever reads a connection has dealt with
// the frame when it asks for more after the frame is whole.
type settingsFrame struct {
	size int // of the payload, from the first three bytes
	seen int // bytes of the frame, and some after it
}

func (f *settingsFrame) see(p []byte) {
	for ; f.seen < 3 && len(p) > 0; p = p[1:] {
		f.size = f.size<<8 | int(p[0])
		f.seen++
	}
	if !f.whole() {
		f.seen += len(p)
	}
}

func (f *settingsFrame) whole() bool { return f.seen >= frameHead+f.size }
