package wire

import (
	"io"
	"net/http"
	"net/url"
	"time"
)

// A Request is one delivery to make.
type Request struct {
	Method string      // "POST", "GET" or "DELETE"
	URL    *url.URL    // nil: the configured one; else another of the same origin
	Header http.Header // canonical keys; belongs to wire afterwards
	Body   []byte      // not changed by anybody afterwards

	// Write says that the request may have an effect which must not happen
	// twice. Over HTTP/1.1 it uses a connection last used less than
	// Config.FreshFor ago, or dials: servers close idle connections at the very
	// moment at which we send, and that race would be an unknown outcome. It
	// dials sooner, by half, where no connection was seen to last longer, or one to
	// end; and always where the server was not seen to keep connections.
	Write bool
}

// A Response is the head of an answer, and its body as it arrives.
type Response struct {
	Status int
	Header http.Header

	// Body must be closed. Its Read fails with io.EOF or a *Failure; closing it
	// before its end closes the stream, by which a modern server learns that
	// nobody waits for the answer any more. A gzip body is read decompressed.
	Body io.ReadCloser

	ContentLength int64 // -1: unknown

	Redirect string // why a redirect (Status 3xx) was not followed; else ""
	Hops     int    // redirects followed on the way
	Reused   bool   // the connection had carried a request before
	Proto    string // "HTTP/1.1" or "HTTP/2.0"
	Received time.Time
}

// drainLimit bounds what Drain reads, in bytes.
const drainLimit = 64 << 10

// Drain gives the rest of the body a moment to end, so that its connection can
// carry another request, and closes it. It blocks for at most the time given;
// call it after the answer has been passed on.
func (r *Response) Drain(within time.Duration) {
	late := time.AfterFunc(within, func() { r.Body.Close() })
	io.CopyN(io.Discard, r.Body, drainLimit)
	late.Stop()
	r.Body.Close()
}
