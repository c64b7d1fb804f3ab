package bridge

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/wire"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

const (
	// lateReplyGrace is how long the reply to a request without an effect may
	// still come on the stream after its POST has failed. After it the request
	// can be made again. One that may have an effect is waited for as long as its
	// delivery may take: it is not sent again, so its reply is all there is to
	// learn from.
	lateReplyGrace = 2 * time.Second
	// postTail bounds a POST whose reply has come on the stream before its answer.
	postTail = 10 * time.Second
)

// A letter is one request on its way through a session.
type letter struct {
	id     int64
	method string
	header http.Header
	body   []byte
	expect classify.Expectation
	write  bool
	out    sink
}

// carry posts a request and waits for its reply, which comes on the stream. The
// answer to the POST itself counts where it holds the reply or a refusal.
func (u *httpSSE) carry(ctx context.Context, s *sseSession, l *letter) *reply {
	w := s.enlist(l)
	if w == nil {
		return s.notSent(l)
	}
	defer func() {
		s.discharge(l.id)
		w.forget()
	}()
	p := u.begin(ctx, s, l)
	if p == nil {
		return notConnected(hostGone("the bridge is leaving"))
	}
	defer p.leave()
	r := &reply{expect: l.expect, endedBy: byUpstream}
	var grace <-chan time.Time
	for {
		select {
		case a := <-w.reply:
			return w.arrived(r, a)
		case r = <-p.answered():
			p.taken = true
			if settled(r) {
				return w.orArrived(r)
			}
			if r.capture.Status/100 != 2 && !l.write {
				timer := time.NewTimer(lateReplyGrace)
				defer timer.Stop()
				grace = timer.C
			}
		case <-grace:
			return w.orArrived(r)
		case <-s.gone:
			return w.orArrived(p.interrupted(r, s.broke))
		case <-ctx.Done():
			return w.orArrived(p.interrupted(r, endingOf(ctx)))
		}
	}
}

// notSent is the reply to a request that came to a session whose stream had
// ended.
func (s *sseSession) notSent(l *letter) *reply {
	r := &reply{expect: l.expect, connecting: "not sent", endedBy: s.broke.by}
	r.capture = classify.Capture{Sent: classify.NothingSent, Failed: classify.Connect, Detail: s.broke.why}
	return r
}

// settled reports whether the answer to the POST ends the delivery: nothing was
// sent, it was refused, or the body is the reply. It then is judged as it is. A
// 5xx, a 408 and a connection that broke say nothing about what comes on the
// stream, and neither does a 2xx without a reply, whose body is let go.
func settled(r *reply) bool {
	c := &r.capture
	switch {
	case r.tooLarge || c.Status == 0 && c.Sent == classify.NothingSent:
		return true
	case c.Status == 0 || c.Status >= 500 || c.Status == http.StatusRequestTimeout:
		return false
	case c.Status/100 != 2:
		return true
	}
	for i := range c.Replies {
		if r.matches(&c.Replies[i]) {
			return true
		}
	}
	if m, err := jsonrpc.Read(c.Body); err == nil && m.Kind == jsonrpc.Response {
		r.expect.ReplyElsewhere = false // judged by this body, whatever its id
		return true
	}
	r.done()
	c.Body, r.lastEvent = nil, ""
	return false
}

// arrived completes r with what the stream brought.
func (w *waiter) arrived(r *reply, a arrival) *reply {
	c := &r.capture
	c.Sent, c.Events = classify.MaybeSent, c.Events+w.events+1
	r.endedBy, r.lastEvent = byUpstream, ""
	r.keep(a.release)
	switch {
	case a.lost != "":
		r.tooLarge, r.endedBy, c.Ended = a.tooLarge, byBridge, classify.Cut
		c.Detail = a.lost
	case a.damaged != nil:
		// Judged like a body that is no reply; it bears the id of this request.
		r.expect.ReplyElsewhere = false
		c.Status, c.Body, c.Ended = http.StatusOK, a.damaged, classify.Complete
		c.Header = header(hdrContentType, contentJSON)
	default:
		c.Replies, c.Ended = append(c.Replies, a.reply), classify.Complete
	}
	r.contentType = acceptSSE
	return r
}

// orArrived is r, unless the reply came in the same moment.
func (w *waiter) orArrived(r *reply) *reply {
	select {
	case a := <-w.reply:
		if !r.tooLarge && r.expect.ReplyElsewhere {
			return w.arrived(r, a)
		}
	default:
	}
	return r
}

// forget gives back what arrived and was not taken.
func (w *waiter) forget() {
	select {
	case a := <-w.reply:
		free(a.release)
	default:
	}
}

// A posting is one POST under way.
type posting struct {
	answer chan *reply
	left   chan struct{} // closed when nobody waits for the answer any more
	taken  bool          // the answer was received
	cancel context.CancelCauseFunc
	unlink func() bool // from the context of the delivery
}

// begin posts a request in the background; nil after close.
func (u *httpSSE) begin(ctx context.Context, s *sseSession, l *letter) *posting {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	p := &posting{answer: make(chan *reply), left: make(chan struct{}), cancel: cancel}
	p.unlink = context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	req := &wire.Request{Method: http.MethodPost, URL: s.to.Load(), Header: l.header, Body: l.body, Write: l.write}
	started := u.spawn(func() {
		defer cancel(nil)
		defer context.AfterFunc(u.ctx, func() { cancel(context.Cause(u.ctx)) })()
		r := u.endpoint.send(own, req, l.expect, l.out)
		p.unlink()
		select {
		case p.answer <- r:
		case <-p.left:
			r.done()
		}
	})
	if !started {
		p.unlink()
		cancel(nil)
		return nil
	}
	return p
}

// answered is where the answer comes, nil after it has come.
func (p *posting) answered() <-chan *reply {
	if p.taken {
		return nil
	}
	return p.answer
}

// leave lets a POST whose reply is here already come to its end, so that its
// connection can be used again.
func (p *posting) leave() {
	if !p.taken && p.unlink() {
		time.AfterFunc(postTail, func() { p.cancel(limitReached("the time for a POST to end")) })
	}
	close(p.left)
}

// interrupted ends a delivery whose stream or time is over. A POST that is not
// answered yet is given up, and says what had been sent.
func (p *posting) interrupted(r *reply, e *ending) *reply {
	if !p.taken {
		p.cancel(e)
		r = <-p.answer
		p.taken = true
		if settled(r) {
			return r
		}
	}
	c := &r.capture
	c.Ended, r.endedBy = e.ended, e.by
	if c.Status == 0 || c.Status/100 == 2 {
		c.Detail = e.why
	} else {
		c.Detail = fmt.Sprintf("no reply came on the stream: %s", e.why)
	}
	return r
}
