package bridge

import (
	"context"
	"errors"

	"github.com/mcpbridge/mcpbridge/classify"
)

// Who ended an exchange, as the record names it.
const (
	byHost     = "host"
	byBridge   = "bridge"
	byUpstream = "upstream"
	byNetwork  = "network"
)

// An ending is the cause with which a context of ours is cancelled: who ended
// it, why, and how the observation of a delivery under it then ended.
type ending struct {
	by    string
	why   string // names the limit that fired
	ended classify.Ended
}

func (e *ending) Error() string { return e.why }

func hostCancelled() *ending {
	return &ending{byHost, "the host cancelled the call", classify.Cancelled}
}

func hostGone(why string) *ending {
	return &ending{byHost, why, classify.Cancelled}
}

func limitReached(flag string) *ending {
	return &ending{byBridge, flag + " was reached", classify.Timeout}
}

// endingOf is the ending behind a cancelled context, or nil while it lives.
func endingOf(ctx context.Context) *ending {
	if ctx.Err() == nil {
		return nil
	}
	var e *ending
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	return &ending{byBridge, context.Cause(ctx).Error(), classify.Cancelled}
}

// A calledOff is the ending of a call that the host, or somebody by its handle,
// wanted cancelled; others are let go because somebody left.
type calledOff struct{ *ending }

func (c calledOff) Unwrap() error { return c.ending }

func (x *exchange) wasCalledOff() bool {
	var c calledOff
	return errors.As(context.Cause(x.ctx), &c)
}

// onlyLetGo reports whether a call that may act ended here because the bridge or
// its host left, and not because anybody wanted it cancelled: the server is not
// told to stop it.
func (x *exchange) onlyLetGo(r *reply) bool {
	return x.method == "tools/call" && effective(x.class) && r.capture.Ended == classify.Cancelled && !x.wasCalledOff()
}
