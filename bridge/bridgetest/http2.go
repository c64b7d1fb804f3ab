package bridgetest

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"time"
)

// Of HTTP/2 (RFC 9113 sections 3.4, 4.1, 6, 7), what turning a request away takes.
const (
	http2Preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	frameGoAway   = 7

	errProtocol      = 1
	errRefusedStream = 7

	maxFrame  = 16 << 10
	http2Time = time.Minute // for all of it
)

// refuseHTTP2 speaks just enough HTTP/2 to turn away the first request of a
// connection unread, in one of three ways, and closes the connection when the
// client does.
func (u *Upstream) refuseHTTP2(c *conn, how string) {
	defer u.disown(c)
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(http2Time)) // reads fail if it does
	var rw net.Conn = c
	if u.opts.TLS != nil {
		cfg := u.opts.TLS.Clone()
		cfg.NextProtos = []string{"h2"}
		rw = tls.Server(c, cfg)
	}
	if _, err := io.ReadFull(rw, make([]byte, len(http2Preface))); err != nil {
		return
	}
	if writeFrame(rw, frameSettings, 0, nil) != nil {
		return
	}
	for {
		kind, stream, err := readFrame(rw)
		if err != nil {
			return
		}
		if kind == frameHeaders && turnAway(rw, stream, how) != nil {
			return
		}
	}
}

func turnAway(w io.Writer, stream uint32, how string) error {
	switch how {
	case "goaway":
		return writeFrame(w, frameGoAway, 0, make([]byte, 8)) // last stream 0, no error
	case "protocol-error":
		return writeFrame(w, frameReset, stream, binary.BigEndian.AppendUint32(nil, errProtocol))
	}
	return writeFrame(w, frameReset, stream, binary.BigEndian.AppendUint32(nil, errRefusedStream))
}

func writeFrame(w io.Writer, kind byte, stream uint32, payload []byte) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, 0) // no flags
	b = binary.BigEndian.AppendUint32(b, stream)
	_, err := w.Write(append(b, payload...))
	return err
}

// readFrame reads one frame and drops its payload.
func readFrame(r io.Reader) (kind byte, stream uint32, err error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, err
	}
	length := binary.BigEndian.Uint32(head[:4]) >> 8
	if length > maxFrame {
		return 0, 0, io.ErrShortBuffer
	}
	_, err = io.CopyN(io.Discard, r, int64(length))
	return head[3], binary.BigEndian.Uint32(head[5:]) & (1<<31 - 1), err
}
