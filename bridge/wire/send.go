package wire

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/mcpbridge/mcpbridge/classify"
)

// A hop is one delivery under way. It is the context of its request, which is
// how it finds its way through the credentials to sender.
type hop struct {
	context.Context
	stop   context.CancelFunc
	write  bool
	body   payload
	begun  bool // sender saw the request
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

// A payload is a request body.
type payload struct{ bytes.Reader }

func (*payload) Close() error { return nil }

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
		resp, f := s.c.exchange(h, cn, req)
		if f == nil {
			return resp, nil
		}
		if !h.again(req, f) {
			return nil, f
		}
	}
}

// again reports whether a request may try another connection: it met one from
// the pool that had died unnoticed, and not a byte of it was written. That is
// still one request on the wire. Every turn uses up such a connection.
func (h *hop) again(req *http.Request, f *Failure) bool {
	if !h.reused || f.Stage != classify.Exchange || f.Sent != classify.NothingSent || h.Err() != nil {
		return false
	}
	if req.Body == nil {
		return true
	}
	if req.Body != &h.body { // the credentials replaced it
		return false
	}
	h.body.Seek(0, 0)
	return true
}

// exchange sends req on cn and waits for the head of the answer.
func (c *Client) exchange(h *hop, cn *conn, req *http.Request) (*http.Response, *Failure) {
	before := cn.socket.writes.Load()
	resp, err := cn.roundTrip(req)
	if err != nil {
		f := c.judge(h, cn, before, err)
		h.stop()
		c.pool.done(cn)
		return nil, f
	}
	cn.answered.Store(true)
	if c.dialer.route.forward && resp.StatusCode == http.StatusProxyAuthRequired {
		resp.Body.Close()
		h.stop()
		c.pool.done(cn)
		return nil, wantsLogin(c.dialer.route.proxy)
	}
	b := &body{from: resp.Body, hop: h, conn: cn, pool: &c.pool, host: c.dialer.host}
	if resp.Body == http.NoBody {
		b.finish()
	}
	resp.Body = b
	return resp, nil
}

// judge says what is proven about a request on cn that got no answer.
func (c *Client) judge(h *hop, cn *conn, before int64, err error) *Failure {
	host := c.dialer.host
	if alert := cn.socket.alert.Load(); alert != nil && !cn.answered.Load() {
		return refusedCertificate(host, *alert, len(c.dialer.tls.Certificates) > 0, err)
	}
	f := &Failure{Stage: classify.Exchange, Err: err}
	switch {
	case cn.http2 == nil && cn.socket.writes.Load() == before, cn.http2 != nil && unused(err):
		f.Sent = classify.NothingSent
	case cn.http2 != nil:
		if refused, why := unprocessed(err); refused {
			return unsent(classify.Refused, err, "%s refused the request unread (%s)", host, why)
		}
	}
	if h.Err() != nil {
		return ended(h, f.Stage, f.Sent, "waiting for the answer of "+host)
	}
	if f.Sent == classify.NothingSent {
		f.Detail = "the connection to " + host + " ended before the request was sent: " + describeExchange(err)
	} else {
		f.Detail = "the connection to " + host + " broke while waiting for the answer: " + describeExchange(err)
	}
	return f
}

// describeExchange returns the cause of a failed exchange in few words.
func describeExchange(err error) string {
	if text := describeHTTP2(err); text != "" {
		return text
	}
	return describe(err)
}
