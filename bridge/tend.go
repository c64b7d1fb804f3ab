package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/retry"
)

// This file is what an owner does besides delivering: it takes over jobs whose
// owner died, does what other processes ask, and keeps the journal small.

const (
	maxRecovered = 100
	recoverEvery = 30 * time.Second
	upkeepAfter  = 2 * time.Second // nothing is pruned in the first second of a process
	upkeepEvery  = time.Hour
)

// tend begins recovery and upkeep, once, when jobs are first spoken of.
func (k *keeper) tend() {
	k.mu.Lock()
	begun := k.tended
	k.tended = true
	k.mu.Unlock()
	if begun || k.bridge.life.Err() != nil {
		return
	}
	k.bridge.work.Go(k.recoverLost)
	k.bridge.work.Go(k.keepHouse)
	k.bridge.work.Go(k.watchAsks)
}

// keepHouse prunes what has expired.
func (k *keeper) keepHouse() {
	for pause := upkeepAfter; wait(k.bridge.life, pause); pause = upkeepEvery {
		if _, err := k.journal.Prune(k.bridge.life); err != nil && k.bridge.life.Err() == nil {
			k.bridge.cfg.Log.Debug("the journal was not pruned", "error", err)
		}
	}
}

// recoverLost looks for jobs of this account whose owner is gone.
func (k *keeper) recoverLost() {
	for {
		lost, err := k.journal.Lost(k.bridge.life, k.account(), maxRecovered)
		if err != nil && k.bridge.life.Err() == nil {
			k.bridge.cfg.Log.Debug("jobs of dead processes could not be looked for", "error", err)
		}
		for i := range lost {
			k.claim(k.bridge.life, lost[i])
		}
		if !wait(k.bridge.life, recoverEvery) {
			return
		}
	}
}

// claim makes a job ours whose owner is gone; whoever loses does nothing.
func (k *keeper) claim(ctx context.Context, job jobs.Job) jobs.Job {
	claimed, err := k.journal.Claim(ctx, job.Handle, job.Owner)
	if err != nil {
		if latest, err := k.journal.Find(ctx, job.Handle); err == nil {
			return latest
		}
		return job
	}
	k.bridge.cfg.Log.Info("took over the job of a process that is gone", "handle", job.Handle, "tool", job.Tool)
	k.recover(claimed)
	if latest, err := k.journal.Find(ctx, job.Handle); err == nil {
		return latest
	}
	return claimed
}

// recover goes on with a job that was taken over: an upstream task is polled
// on, a legacy stream is resumed by its session and event id. What cannot be
// gone on with is unknown already.
func (k *keeper) recover(job jobs.Job) {
	if job.State != jobs.Working && job.State != jobs.InputRequired || k.bridge.link == nil {
		return
	}
	if job.UpstreamTask != "" {
		k.bridge.work.Go(func() { k.adopted(job, (*exchange).pollAgain) })
		return
	}
	_, ok, err := k.journal.Resumption(k.bridge.life, job)
	switch {
	case !job.Round.IsZero(): // a host holds the next round, and nothing runs
		k.awaitNextRound(job)
		return
	case len(job.Questions) > 0:
		k.lostForGood(job, "the process that could have passed an answer on is gone")
		return
	case err != nil || !ok:
		k.lostForGood(job, "its stream cannot be resumed")
		return
	}
	k.bridge.work.Go(func() { k.adopted(job, (*exchange).resumeAgain) })
}

// awaitNextRound ends a job whose next round has not come in time, now or then.
func (k *keeper) awaitNextRound(job jobs.Job) {
	left := time.Until(job.ChangedAt.Add(k.bridge.cfg.InputTimeout))
	if left <= 0 {
		k.expire(job)
		return
	}
	time.AfterFunc(left, func() { k.expire(job) })
}

// adopted works on the call of a process that is gone, and journals its end.
func (k *keeper) adopted(job jobs.Job, work func(*exchange, jobs.Job) *reply) {
	x := k.orphan(job)
	defer x.cancel(nil)
	defer x.clock.stop()
	k.mu.Lock()
	k.live[job.Handle] = x
	k.mu.Unlock()
	r := work(x, job)
	defer r.done()
	x.evidence.ended(r)
	if r.verdict.Outcome == classify.StreamIncomplete && !k.leftToOthers(x, r) {
		k.mu.Lock()
		delete(k.live, job.Handle)
		k.mu.Unlock()
		k.lostForGood(job, r.verdict.Why)
		return
	}
	k.finish(x, r)
}

// orphan is an exchange for a job whose host and process are gone.
func (k *keeper) orphan(job jobs.Job) *exchange {
	b := k.bridge
	x := &exchange{host: b.host, bridge: b, method: "tools/call", toolName: job.Tool, class: retryClass(job.Class),
		profile: b.host.anyProfile(), began: job.CreatedAt, closed: true, abandoned: true, answered: make(chan struct{})}
	x.ctx, x.cancel = context.WithCancelCause(b.life)
	left := max(time.Second, time.Until(job.CreatedAt.Add(b.cfg.JobTimeout)))
	x.clock = newClock(time.Now(), left, left, func() { x.cancel(limitReached("--job-timeout")) }, func() {})
	x.job = journaled{handle: job.Handle, given: true, resumable: true}
	return x
}

// pollAgain goes on polling the task that the server made of the call.
func (x *exchange) pollAgain(job jobs.Job) *reply {
	t := &upstreamTask{x: x, id: job.UpstreamTask, poll: defaultPoll, seen: map[string]bool{}}
	x.forgetQuestions(job)
	up, failed := x.bridge.link.ready(x.ctx, x.profile)
	for failed != nil && pauseFor(x.ctx, defaultPoll) {
		up, failed = x.bridge.link.ready(x.ctx, x.profile)
	}
	if failed != nil {
		return t.over(x.ctx)
	}
	t.up = up
	x.mu.Lock()
	x.pair = pair{x.profile.era, up.era(), x.profile.version, up.version(x.profile)}
	x.mu.Unlock()
	return t.follow()
}

// forgetQuestions takes questions out of a job that the process before asked:
// the server's task still has them, and they are asked anew.
func (x *exchange) forgetQuestions(job jobs.Job) {
	for _, q := range job.Questions {
		if _, err := x.bridge.keeper.journal.Answered(x.ctx, job.Handle, q.ID); err != nil {
			x.bridge.cfg.Log.Debug("a question of a process that is gone stays", "handle", job.Handle, "error", err)
		}
	}
}

// resumeAgain collects the answer to the call from its session.
func (x *exchange) resumeAgain(job jobs.Job) *reply {
	b := x.bridge
	from, _, err := b.keeper.journal.Resumption(b.life, job)
	if e := endingOf(b.life); err != nil && e != nil {
		return notConnected(e) // left to the next process
	}
	if err != nil {
		return notConnected(&ending{byBridge, err.Error(), classify.Cut})
	}
	u := newLegacy(b.life, b.link.endpoint, b.link.newID, b)
	r := u.resumeElsewhere(x.ctx, from, orphanSink{})
	r.judge()
	return r
}

// lostForGood makes a job unknown that nobody can go on with.
func (k *keeper) lostForGood(job jobs.Job, why string) {
	ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
	defer cancel()
	e := jobs.End{State: jobs.OutcomeUnknown, Evidence: jobs.BridgeLost, EndedBy: byBridge, Note: why}
	if _, err := k.journal.Finish(ctx, job.Handle, e); err != nil {
		k.bridge.cfg.Log.Debug("job not ended", "handle", job.Handle, "error", err)
	}
}

func retryClass(c jobs.Class) retry.Class {
	switch c {
	case jobs.Read:
		return retry.Read
	case jobs.PresumedRead:
		return retry.PresumedRead
	case jobs.Idempotent:
		return retry.Idempotent
	}
	return retry.Write
}

// An orphanSink takes what comes on a resumed stream: nobody can be asked there.
type orphanSink struct{}

func (orphanSink) notification(*jsonrpc.Message) {}

func (orphanSink) request(m *jsonrpc.Message, respond func(result, rpcError []byte)) {
	if respond != nil {
		respond(defaultAnswer(m.Method))
	}
}

// lookAfter brings a job up to date before it is shown: one whose owner is
// gone is taken over, and an unknown outcome is asked about where the tool
// says how.
func (k *keeper) lookAfter(ctx context.Context, job jobs.Job) jobs.Job {
	if job.State == jobs.Working || job.State == jobs.InputRequired {
		if k.exchangeOf(job.Handle) == nil {
			if lost, err := k.journal.OwnerLost(ctx, job); err == nil && lost {
				job = k.claim(ctx, job)
			}
		}
	}
	if asked(&job) {
		job = k.askStatus(ctx, job)
	}
	return job
}

// watchAsks does what other processes ask of jobs whose deliveries are made
// here.
func (k *keeper) watchAsks() {
	tick := time.NewTicker(asksEvery)
	defer tick.Stop()
	var was any
	for {
		select {
		case <-k.bridge.life.Done():
			return
		case <-tick.C:
		}
		if !k.open() {
			continue
		}
		now, err := k.journal.AskWatch()
		if err != nil || was == any(now) {
			continue
		}
		asks, err := k.journal.Asks(k.bridge.life)
		if err != nil {
			continue
		}
		was = any(now)
		for _, a := range asks {
			k.answerAsk(a)
		}
	}
}

func (k *keeper) answerAsk(a jobs.Ask) {
	said := "nothing: the call is not made here any more"
	if x := k.exchangeOf(a.Handle); x != nil {
		said = k.obey(x, a)
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
	defer cancel()
	if err := k.journal.AskDone(ctx, a, said); err != nil && !errors.Is(err, jobs.ErrNotFound) {
		k.bridge.cfg.Log.Debug("an ask was not acknowledged", "handle", a.Handle, "error", err)
	}
}

// obey cancels the delivery of x, or stops waiting for it, and says what it did.
func (k *keeper) obey(x *exchange, a jobs.Ask) string {
	switch a.Kind {
	case jobs.AskCancel:
		x.cancel(calledOff{&ending{byHost, "cancelled by request", classify.Cancelled}})
		return "cancelled the call upstream"
	case jobs.AskStopWaiting:
		x.cancel(&ending{byHost, "stopped waiting by request", classify.Cut})
		return "stopped waiting"
	case jobs.AskAnswer:
		if k.bridge.desk.answer(a.Body) {
			return "passed the answer on"
		}
		return "nothing: the question is not open any more"
	}
	return fmt.Sprintf("nothing: %q is not known here", a.Kind)
}
