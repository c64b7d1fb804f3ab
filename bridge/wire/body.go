package wire

import (
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mcpbridge/mcpbridge/classify"
)

// A body is the body of an answer. Its connection goes back to the pool when
// it ends.
type body struct {
	from io.ReadCloser
	hop  *hop
	conn *conn
	pool *pool
	host string

	finished atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	switch {
	case err == nil:
	case err == io.EOF:
		b.finish()
	default:
		err = b.broken(err)
		b.finish()
	}
	return n, err
}

// Close ends the stream if it has not ended.
func (b *body) Close() error {
	b.hop.stop() // first, or a connection that takes no frame could hold Close up
	err := b.from.Close()
	b.finish()
	return err
}

func (b *body) finish() {
	if b.finished.CompareAndSwap(false, true) {
		b.hop.stop()
		b.pool.done(b.conn, false)
	}
}

// broken is the failure of a read. The request was sent, or there would be no
// head.
func (b *body) broken(err error) error {
	if b.hop.Err() != nil && !b.finished.Load() {
		return ended(b.hop, classify.Exchange, classify.MaybeSent, "reading the answer of "+b.host)
	}
	return &Failure{
		Stage:  classify.Exchange,
		Detail: describeExchange(err) + " while reading the answer of " + b.host,
		Err:    err,
	}
}

// decoded undoes a compression that was not asked for, and refuses to read one
// that is unknown here.
func decoded(r *Response) *Response {
	coding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding")))
	switch coding {
	case "", "identity":
		return r
	case "gzip", "x-gzip":
		r.Body = &unzipped{from: r.Body}
		r.Header.Del("Content-Encoding")
		r.Header.Del("Content-Length")
		r.ContentLength = -1
	default:
		r.Body = &undecodable{ReadCloser: r.Body, coding: oneLine(coding)}
	}
	return r
}

// unzipped reads a gzip body. Read is for one goroutine; Close may come from
// another.
type unzipped struct {
	from io.ReadCloser
	once sync.Once
	zip  *gzip.Reader
	err  error
}

func (u *unzipped) Read(p []byte) (int, error) {
	u.once.Do(func() { u.zip, u.err = gzip.NewReader(u.from) })
	if u.err != nil {
		return 0, u.failed(u.err)
	}
	n, err := u.zip.Read(p)
	if err != nil && err != io.EOF {
		u.err = err
		err = u.failed(err)
	}
	return n, err
}

func (u *unzipped) Close() error { return u.from.Close() }

func (u *unzipped) failed(err error) error {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{
		Stage:  classify.Exchange,
		Detail: "the answer says Content-Encoding: gzip, which we did not ask for, and cannot be decompressed: " + describe(err),
		Err:    err,
	}
}

// An undecodable body is in a coding that we neither asked for nor know.
type undecodable struct {
	io.ReadCloser
	coding string
}

func (u *undecodable) Read([]byte) (int, error) {
	return 0, &Failure{
		Stage:  classify.Exchange,
		Detail: "the answer says Content-Encoding: " + u.coding + ", which we did not ask for: turn the compression off in the server or proxy",
	}
}
