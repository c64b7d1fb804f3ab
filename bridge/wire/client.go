package wire

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/mcpbridge/mcpbridge/classify"
)

// A Client makes deliveries to one origin. Its methods may be called from many
// goroutines.
type Client struct {
	url     *url.URL // without credentials and fragment
	origin  origin
	host    string // a configured Host header, or ""
	headers http.Header
	log     *slog.Logger

	dialer *dialer
	pool   pool
	memory *memory
	trip   http.RoundTripper // sender, with credentials around it
}

// DropIdle closes the connections that carry nothing, and those in use as soon
// as they carry nothing. It is for the moment after a sleep or a change of
// network, when an idle connection may be dead without knowing it.
func (c *Client) DropIdle() { c.pool.dropIdle() }

// Close ends all connections; deliveries under way fail, one that is still
// connecting when it has connected.
func (c *Client) Close() { c.pool.close() }

// Do makes one delivery and returns when the head of the answer is there. Its
// error is always a *Failure. Ending ctx ends the delivery, its body included.
func (c *Client) Do(ctx context.Context, r *Request) (*Response, error) {
	if r.Header == nil {
		r.Header = make(http.Header, len(c.headers))
	}
	if f := checkHeader(r.Header); f != nil {
		return nil, f
	}
	for name, values := range c.headers {
		if _, set := r.Header[name]; !set {
			r.Header[name] = values
		}
	}
	first := r.URL
	if first == nil {
		first = c.url
	}
	if originOf(first) != c.origin {
		return nil, unsent(classify.Connect, nil, "%s is not on the configured server: nothing goes there", shown(first))
	}
	return c.follow(ctx, r, first)
}

// follow delivers to first, or to where it redirected before, and then to
// wherever redirects within the origin lead.
func (c *Client) follow(ctx context.Context, r *Request, first *url.URL) (*Response, error) {
	trail := newTrail(c.memory.target(first))
	for {
		resp, f := c.deliver(ctx, r, trail.at())
		if f != nil {
			f.Hops = trail.hops()
			return nil, f
		}
		next, why := c.redirect(r.Method, resp, trail)
		if next == nil {
			resp.Hops, resp.Redirect = trail.hops(), why
			c.memory.learn(first, trail, resp.Status)
			return resp, nil
		}
		resp.Drain(redirectDrain)
		r.Header = r.Header.Clone() // the old one may still be on its way out
		trail.add(next)
	}
}

// deliver makes exactly one request.
func (c *Client) deliver(ctx context.Context, r *Request, to *url.URL) (*Response, *Failure) {
	if ctx.Err() != nil {
		return nil, ended(ctx, classify.Connect, classify.NothingSent, "connecting to "+c.dialer.host)
	}
	h := &hop{write: r.Write}
	var stop context.CancelFunc
	h.Context, stop = context.WithCancel(ctx)
	h.stop = stop
	req := c.request(h, r, to)
	answer, err := c.trip.RoundTrip(req)
	if err != nil {
		stop()
		return nil, h.failure(err)
	}
	resp := &Response{
		Status:        answer.StatusCode,
		Header:        answer.Header,
		Body:          answer.Body,
		ContentLength: answer.ContentLength,
		Reused:        h.reused,
		Proto:         answer.Proto,
		Received:      time.Now(),
	}
	c.memory.keepCookies(to, answer)
	return decoded(resp), nil
}

// request builds the HTTP request of one hop. Its body cannot be rewound by
// anybody but sender, and only while nothing of it was written.
func (c *Client) request(h *hop, r *Request, to *url.URL) *http.Request {
	req := new(http.Request).WithContext(h)
	req.Method, req.URL, req.Host = r.Method, to, c.host
	req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/1.1", 1, 1
	req.Header = r.Header
	c.memory.addCookies(to, r.Header, c.headers["Cookie"])
	if len(r.Body) > 0 {
		req.Body = h.carry(r.Body)
		req.ContentLength = int64(len(r.Body))
	}
	return req
}

// checkHeader refuses what HTTP/1.1 and HTTP/2 would refuse at different
// moments.
func checkHeader(h http.Header) *Failure {
	if name := resendingHeader(h); name != "" {
		return unsent(classify.Connect, nil, "header %s would allow the request to be sent twice", name)
	}
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) {
			return unsent(classify.Connect, nil, "%q cannot be the name of a header", oneLine(name))
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return unsent(classify.Connect, nil, "the value of header %s cannot be sent: it holds a control character", name)
			}
		}
	}
	return nil
}
