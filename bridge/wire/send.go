package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/mcpbridge/mcpbridge/classify"
)

// A hop is one delivery under way. It is the context of its request, which is
// how it finds its way through the credentials to sender.
type hop struct {
	context.Context
	stop   context.CancelFunc
	write  bool
	bytes  bytes.Reader  // of body
	body   io.ReadCloser // as the request had it at first; nil: none
	begun  bool          // sender saw the request
	reused bool
}

type hopKey struct{}

func (h *hop) Value(key any) any {
	if key == (hopKey{}) {
		return h
	}
	return h.Context.Value(key)
}

// failure turns an error of the round trip into a Failure: one of sender's, or
// one of the credentials around it.
func (h *hop) failure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	sent := classify.MaybeSent
	if !h.begun {
		sent = classify.NothingSent
	}
	return &Failure{Stage: classify.Exchange, Sent: sent, Detail: "no credentials for the request: " + oneLine(err.Error()), Err: err}
}

// carry returns b as the body of a request, which net/http knows to be in memory:
// a short one then leaves in one write with its head.
func (h *hop) carry(b []byte) io.ReadCloser {
	h.bytes.Reset(b)
	h.body = io.NopCloser(&h.bytes)
	return h.body
}

// A sender is the http.RoundTripper at the bottom: it puts a request on exactly
// one connection, once.
type sender struct{ c *Client }

func (s sender) RoundTrip(req *http.Request) (*http.Response, error) {
	h, ok := req.Context().Value(hopKey{}).(*hop)
	switch {
	case !ok:
		return nil, unsent(classify.Connect, nil, "a request that is no delivery was not sent")
	case h.begun:
		return nil, &Failure{Stage: classify.Exchange, Detail: "a request was to be sent a second time within one delivery"}
	case originOf(req.URL) != s.c.origin:
		return nil, unsent(classify.Connect, nil, "%s is not on the configured server: nothing goes there", shown(req.URL))
	}
	h.begun = true
	for {
		cn, reused, f := s.c.acquire(h, h.write)
		if f != nil {
			return nil, f
		}
		h.reused = reused
		resp, refused, f := s.c.exchange(h, cn, req)
		if f == nil {
			return resp, nil
		}
		if !refused || !h.again(req, f) {
			return nil, f
		}
	}
}

// again reports whether a request may try another connection, after one from
// the pool that had died unnoticed refused it: if not a byte of it was written.
// That is still one request on the wire. Every turn uses up such a connection.
func (h *hop) again(req *http.Request, f *Failure) bool {
	if !h.reused || f.Stage != classify.Exchange || f.Sent != classify.NothingSent || h.Err() != nil {
		return false
	}
	if req.Body == nil {
		return true
	}
	if req.Body != h.body { // the credentials replaced it
		return false
	}
	h.bytes.Seek(0, io.SeekStart)
	return true
}

// exchange sends req on cn and waits for the head of the answer. It also says
// whether cn refused the request because it had ended before.
func (c *Client) exchange(h *hop, cn *conn, req *http.Request) (resp *http.Response, refused bool, f *Failure) {
	before := cn.socket.writes.Load()
	resp, err := cn.roundTrip(req)
	if err != nil {
		refused = cn.refused(before, err)
		f = c.judge(h, cn, refused, before, err)
		if h.reused && h.Err() == nil {
			c.pool.died(cn, refused)
		} else {
			c.pool.done(cn, refused)
		}
		return nil, refused, f
	}
	cn.answered.Store(true)
	b := &body{from: resp.Body, hop: h, conn: cn, pool: &c.pool, host: c.dialer.host}
	if resp.Body == http.NoBody {
		b.finish()
	}
	resp.Body = b
	if resp.StatusCode < http.StatusContinue { // net/http takes any three digits
		b.Close()
		return nil, false, &Failure{Stage: classify.Exchange, Detail: fmt.Sprintf("%s answered with status %03d, which is none of HTTP", c.dialer.host, resp.StatusCode)}
	}
	if c.dialer.route.forward && resp.StatusCode == http.StatusProxyAuthRequired {
		b.Close()
		return nil, false, wantsLogin(c.dialer.route.proxy)
	}
	return resp, false, nil
}

// refused reports whether err means that the connection had ended before it
// took a byte of the request.
func (cn *conn) refused(before int64, err error) bool {
	if cn.http2 != nil {
		return unused(err)
	}
	return cn.socket.writes.Load() == before && cn.http1.Err() != nil
}

// judge says what is proven about a request on cn that got no answer.
func (c *Client) judge(h *hop, cn *conn, refused bool, before int64, err error) *Failure {
	host := c.dialer.host
	if alert := cn.socket.alert.Load(); alert != nil && !cn.answered.Load() {
		return c.dialer.refusedLate(*alert, err)
	}
	if cn.http2 != nil {
		if unread, why := unprocessed(err); unread {
			return unsent(classify.Refused, err, "%s refused the request unread (%s)", host, why)
		}
	}
	sent := classify.MaybeSent
	if refused || cn.http2 == nil && cn.socket.writes.Load() == before {
		sent = classify.NothingSent
	}
	if h.Err() != nil {
		return ended(h, classify.Exchange, sent, "waiting for the answer of "+host)
	}
	doing := "broke while waiting for the answer"
	switch {
	case refused:
		doing = "ended before the request was sent"
	case sent == classify.NothingSent:
		doing = "could not carry the request"
	}
	return &Failure{
		Stage: classify.Exchange, Sent: sent, Err: err,
		Detail: "the connection to " + host + " " + doing + ": " + describeExchange(err),
	}
}

// refusedLate is the failure of a request that met the alert with which TLS 1.3
// refuses a client, after our side of the handshake was complete.
func (d *dialer) refusedLate(alert string, err error) *Failure {
	if d.tls == nil { // the TLS is that of a proxy
		f := refusedCertificate("proxy "+address(d.route.proxy), alert, false, err)
		f.Stage = classify.Proxy
		return f
	}
	return refusedCertificate(d.host, alert, len(d.tls.Certificates) > 0, err)
}

// describeExchange returns the cause of a failed exchange in few words.
func describeExchange(err error) string {
	if text := describeHTTP2(err); text != "" {
		return text
	}
	return describe(err)
}
