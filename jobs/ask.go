package jobs

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// Kinds of asks. A bridge may add its own.
const (
	AskCancel      = "cancel"
	AskStopWaiting = "stop_waiting"
	AskAnswer      = "answer" // to a question of upstream's
	AskUpdate      = "update" // tasks/update
)

// An Ask is a request to the process that owns a job, left in the journal for
// it to find.
type Ask struct {
	Handle Handle          `json:"handle"`
	Number uint64          `json:"number"` // within the job
	Kind   string          `json:"kind"`
	Body   json.RawMessage `json:"body,omitempty"`
	At     time.Time       `json:"at"`
	Done   bool            `json:"done,omitempty"`
	Said   string          `json:"said,omitempty"` // what the owner did
}

const (
	maxAsks    = 32       // of one job, done or not
	maxAskBody = 64 << 10 // bytes
)

func askKey(h Handle, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(h), n)
}

// Ask leaves a request for a job's owner. It is refused for a settled job, and
// ErrTooMany if too many wait already.
func (j *Journal) Ask(ctx context.Context, h Handle, kind string, body json.RawMessage) (Ask, error) {
	if len(body) > maxAskBody {
		return Ask{}, fmt.Errorf("ask job %s: %d bytes, at most %d: %w", h, len(body), maxAskBody, ErrTooMany)
	}
	var a Ask
	_, err := j.change(ctx, h, func(t *txn, job *Job) error {
		if job.State.Settled() {
			return fmt.Errorf("ask job %s: it is %s: %w", h, job.State, ErrSettled)
		}
		asks := t.asks(h)
		if len(asks) >= maxAsks {
			return fmt.Errorf("ask job %s: %w", h, ErrTooMany)
		}
		a = Ask{Handle: h, Number: 1, Kind: kind, Body: body, At: t.now}
		if n := len(asks); n > 0 {
			a.Number = asks[n-1].Number + 1
		}
		t.putAsk(a)
		job.observe(t.now, "asked", kind)
		return nil
	})
	return a, err
}

// Asks lists what others ask of the open jobs that this process owns, and is
// not done.
func (j *Journal) Asks(ctx context.Context) ([]Ask, error) {
	mine := j.Mine()
	if len(mine) == 0 {
		return nil, nil
	}
	var list []Ask
	err := j.view(ctx, func(t *txn) error {
		list = nil
		for _, job := range mine {
			for _, a := range t.asks(job.Handle) {
				if !a.Done {
					list = append(list, a)
				}
			}
		}
		return nil
	})
	return list, err
}

// AskDone says what the owner did about an ask.
func (j *Journal) AskDone(ctx context.Context, a Ask, said string) error {
	_, err := j.change(ctx, a.Handle, func(t *txn, job *Job) error {
		if t.tx.Get(tableAsks, askKey(a.Handle, a.Number)) == nil {
			return nil
		}
		a.Done, a.Said, a.Body = true, clip(said, maxNote), nil
		t.putAsk(a)
		job.observe(t.now, "did what was asked", a.Kind+": "+said)
		return nil
	})
	return err
}

// AskState returns an ask as it now is; ErrNotFound if it is gone with its job.
func (j *Journal) AskState(ctx context.Context, a Ask) (Ask, error) {
	err := j.view(ctx, func(t *txn) error {
		for _, latest := range t.asks(a.Handle) {
			if latest.Number == a.Number {
				a = latest
				return nil
			}
		}
		return &NotFoundError{Handle: a.Handle, SetAside: t.tx.SetAside()}
	})
	return a, err
}

// AwaitAsk waits until an ask is done or ctx ends; then it returns the ask as
// it last was, with ctx's error.
func (j *Journal) AwaitAsk(ctx context.Context, a Ask) (Ask, error) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		here := j.changes()
		stamp, err := j.store.Stamp()
		if err != nil {
			return a, err
		}
		latest, err := j.AskState(ctx, a)
		if err != nil {
			return a, err
		}
		if a = latest; a.Done {
			return a, nil
		}
		if err := j.nextChange(ctx, here, stamp, tick.C); err != nil {
			return a, err
		}
	}
}

// AskWatch tells when it is worth calling Asks: a value that changes with the
// journal and costs one look at the file.
func (j *Journal) AskWatch() (store.Stamp, error) { return j.store.Stamp() }

func (t *txn) asks(h Handle) []Ask {
	var list []Ask
	for _, v := range t.tx.Scan(tableAsks, []byte(h)) {
		var a Ask
		if err := json.Unmarshal(v, &a); err != nil {
			t.fail(fmt.Errorf("%w: ask of job %s", store.ErrDamaged, h))
			return nil
		}
		list = append(list, a)
	}
	return list
}

func (t *txn) putAsk(a Ask) {
	v, err := json.Marshal(a)
	if err != nil {
		t.fail(fmt.Errorf("encode ask of job %s: %w", a.Handle, err))
		return
	}
	t.put(tableAsks, askKey(a.Handle, a.Number), v)
}

func (t *txn) dropAsks(h Handle) {
	for _, a := range t.asks(h) {
		t.delete(tableAsks, askKey(h, a.Number))
	}
}
