package wire

import (
	"context"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
)

// acquire returns a connection with one request reserved on it, and whether it
// carried one before.
func (c *Client) acquire(ctx context.Context, write bool) (*conn, bool, *Failure) {
	for {
		got := c.pool.pick(write, time.Now())
		switch {
		case got.failed != nil:
			return nil, false, got.failed
		case got.conn != nil:
			return got.conn, got.reused, nil
		case got.ping != nil:
			c.probe(ctx, got.ping)
		case got.wait != nil:
			if f := c.await(ctx, got.wait); f != nil {
				return nil, false, f
			}
		default:
			cn, f := c.dialer.aside(ctx)
			f = c.pool.landed(got.lead, cn, f, ctx.Err() != nil)
			if f == nil && cn.http2 != nil {
				c.pool.watch(cn)
			}
			return cn, false, f
		}
		if ctx.Err() != nil {
			return nil, false, ended(ctx, classify.Connect, classify.NothingSent, "connecting to "+c.dialer.host)
		}
	}
}

// await waits for a flight, but not longer than a dial may take. It returns the
// failure of that flight, which is then that of all who waited for it.
func (c *Client) await(ctx context.Context, f *flight) *Failure {
	late := time.NewTimer(c.dialer.timeout)
	defer late.Stop()
	select {
	case <-f.done:
		if f.failed != nil && ctx.Err() == nil {
			failed := *f.failed
			return &failed
		}
	case <-late.C:
		c.pool.giveUp(f)
	case <-ctx.Done():
	}
	return nil
}

// probe pings an HTTP/2 connection that was idle for long, and drops it if no
// answer comes in time.
func (c *Client) probe(ctx context.Context, cn *conn) {
	switch {
	case cn.alive(ctx):
		c.pool.awake(cn)
	case ctx.Err() == nil:
		c.log.Debug("connection did not answer a ping", "host", c.dialer.host)
		c.pool.discard(cn)
	}
}
