package bridge

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// This file is about jobs between two rounds: the server has answered with
// questions, the host holds them, and nothing runs.

// awaitRound journals that the host was asked and will send the next round,
// perhaps by another process. Nothing runs upstream meanwhile.
func (k *keeper) awaitRound(ctx context.Context, x *exchange, r *reply) {
	h := x.handle()
	k.mu.Lock()
	delete(k.live, h)
	k.mu.Unlock()
	state, ok := jsonrpc.String(r.verdict.Reply.Field(jsonrpc.RequestState))
	if !ok {
		state = string(r.verdict.Reply.Field(jsonrpc.InputRequests)) // no round will name it: it expires
	}
	if err := k.keepRound(ctx, state, h); err != nil {
		x.tellBeside(metaJournaled, []byte("false"))
		k.bridge.cfg.Log.Warn("an open round could not be journaled yet", "handle", h, "error", err)
		k.bridge.work.Go(func() { k.awaitLater(state) })
	}
}

// An awaited holds the rounds that hosts were told of and the journal does not
// know yet.
type awaited struct {
	mu    sync.Mutex // held while one of them is journaled
	later map[string]jobs.Handle
}

// keepRound journals that a job waits for the round of a requestState. What cannot be
// journaled is kept, and is tried again by awaitKnown.
func (k *keeper) keepRound(ctx context.Context, state string, h jobs.Handle) error {
	k.awaiting.mu.Lock()
	defer k.awaiting.mu.Unlock()
	job, err := k.journal.Await(ctx, h, []byte(state))
	switch {
	case errors.Is(err, jobs.ErrSettled), errors.Is(err, jobs.ErrNotOwner), errors.Is(err, jobs.ErrNotFound):
		delete(k.awaiting.later, state) // it waits for nothing any more
		return nil
	case err != nil:
		if k.awaiting.later == nil {
			k.awaiting.later = map[string]jobs.Handle{}
		}
		k.awaiting.later[state] = h
		return err
	}
	delete(k.awaiting.later, state)
	time.AfterFunc(k.bridge.cfg.InputTimeout, func() { k.expire(job) })
	return nil
}

// awaitKnown journals a round that could not be journaled when its host was told
// of it.
func (k *keeper) awaitKnown(ctx context.Context, state string) error {
	k.awaiting.mu.Lock()
	h, later := k.awaiting.later[state]
	k.awaiting.mu.Unlock()
	if !later {
		return nil
	}
	return k.keepRound(ctx, state, h)
}

// awaitAgain is how often a round that could not be journaled is tried again.
const awaitAgain = 5 * time.Second

func (k *keeper) awaitLater(state string) {
	for wait(k.bridge.life, awaitAgain) {
		ctx, cancel := context.WithTimeout(k.bridge.life, finishLimit)
		err := k.awaitKnown(ctx, state)
		cancel()
		if err == nil {
			return
		}
	}
}

// expire ends a job that nobody answered: nothing is running for it.
func (k *keeper) expire(job jobs.Job) {
	if k.bridge.life.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(k.bridge.life, finishLimit)
	defer cancel()
	e := jobs.End{State: jobs.Failed, Effect: jobs.Possible, Evidence: jobs.InputExpired, EndedBy: byHost}
	if _, err := k.journal.Settle(ctx, job.Handle, job.Seen(), e); err != nil {
		k.bridge.cfg.Log.Debug("job not expired", "handle", job.Handle, "error", err)
	}
}

// nextRound finds the job that waits for the round that x is: never a
// duplicate. With ErrRoundUsed x is answered from the job, which was given this
// round before; with ErrNoSuchRound, and no other error, it is begun like a call.
func (k *keeper) nextRound(x *exchange) (jobs.Begun, error) {
	state, ok := jsonrpc.String(x.msg.Field(jsonrpc.RequestState))
	if !ok {
		return jobs.Begun{}, jobs.ErrNoSuchRound
	}
	if err := k.awaitKnown(x.ctx, state); err != nil {
		return jobs.Begun{}, err
	}
	job, err := k.journal.NextRound(x.ctx, k.call(x), []byte(state))
	if errors.Is(err, jobs.ErrRoundUsed) {
		return jobs.Begun{Hold: jobs.UsedRound, Job: job}, err
	}
	if err != nil {
		return jobs.Begun{}, err
	}
	key, err := k.journal.Key(x.ctx, job)
	if err != nil {
		k.bridge.cfg.Log.Warn("a round goes out without its idempotency key", "handle", job.Handle, "error", err)
	}
	return jobs.Begun{Job: job, Key: key}, nil
}

// endRound cancels a job between two rounds, and reports whether it did.
func (k *keeper) endRound(ctx context.Context, job *jobs.Job) bool {
	_, err := k.journal.EndRound(ctx, job.Handle, job.Seen(), jobs.AskCancel)
	return err == nil
}
