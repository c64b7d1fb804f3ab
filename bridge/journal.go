package bridge

import (
	"context"
	"encoding/json"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// A Journal keeps jobs durably. It is what the bridge needs of one, in the
// terms of package jobs; nothing here may assume one file or one machine.
type Journal interface {
	// Begin decides guard, key and lost owners and inserts the record, before
	// the first byte of the call leaves.
	Begin(ctx context.Context, c jobs.Call) (jobs.Begun, error)
	// Finish records an end before the host is told.
	Finish(ctx context.Context, h jobs.Handle, e jobs.End) (jobs.Job, error)
	// GiveHandle records that a handle is given out, before its line leaves.
	GiveHandle(ctx context.Context, h jobs.Handle) (jobs.Job, error)
	// TellEnd records that a host is told of an end that the job itself has not.
	TellEnd(ctx context.Context, h jobs.Handle, where, word string) (jobs.Job, error)
	Note(h jobs.Handle, n jobs.Note)
	Flush(ctx context.Context) error

	Find(ctx context.Context, h jobs.Handle) (jobs.Job, error)
	List(ctx context.Context, f jobs.Filter) ([]jobs.Job, error)
	Wait(ctx context.Context, h jobs.Handle, seen jobs.Seen) (jobs.Job, error)
	Result(ctx context.Context, h jobs.Handle) ([]byte, jobs.Kind, error)
	Arguments(ctx context.Context, h jobs.Handle) ([]byte, error)
	Key(ctx context.Context, job jobs.Job) (string, error)
	Mine() []jobs.Job

	Settle(ctx context.Context, h jobs.Handle, seen jobs.Seen, e jobs.End) (jobs.Job, error)
	Working(ctx context.Context, h jobs.Handle, seen jobs.Seen, why string) (jobs.Job, error)
	PutToUser(ctx context.Context, h jobs.Handle) (first bool, err error)
	Resolve(ctx context.Context, h jobs.Handle, seen jobs.Seen, r jobs.Resolution) (jobs.Job, jobs.Begun, error)

	Lost(ctx context.Context, a jobs.Account, limit int) ([]jobs.Job, error)
	Claim(ctx context.Context, h jobs.Handle, from string) (jobs.Job, error)
	OwnerLost(ctx context.Context, job jobs.Job) (bool, error)
	SetResumption(ctx context.Context, h jobs.Handle, r jobs.Resumption) (jobs.Job, error)
	Resumption(ctx context.Context, job jobs.Job) (jobs.Resumption, bool, error)
	SetTask(ctx context.Context, h jobs.Handle, task string) (jobs.Job, error)

	AskHost(ctx context.Context, h jobs.Handle, q jobs.Question) (jobs.Job, error)
	Answered(ctx context.Context, h jobs.Handle, id string) (jobs.Job, error)
	Await(ctx context.Context, h jobs.Handle, requestState []byte) (jobs.Job, error)
	EndRound(ctx context.Context, h jobs.Handle, seen jobs.Seen, ask string) (jobs.Job, error)
	NextRound(ctx context.Context, c jobs.Call, requestState []byte) (jobs.Job, error)

	Ask(ctx context.Context, h jobs.Handle, kind string, body json.RawMessage) (jobs.Ask, error)
	Asks(ctx context.Context) ([]jobs.Ask, error)
	AskDone(ctx context.Context, a jobs.Ask, said string) error
	AwaitAsk(ctx context.Context, a jobs.Ask) (jobs.Ask, error)
	AskWatch() (store.Stamp, error)

	RoundKey(ctx context.Context) ([]byte, error)
	Prune(ctx context.Context) (jobs.Pruned, error)
	Close(ctx context.Context) error
}
