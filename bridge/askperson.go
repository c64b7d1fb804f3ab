package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// This file asks the person at the host, where the host can: what became of an
// unknown outcome, and whether a call may be sent again.

// putToPerson puts a form to the person at the host of x, and returns what was
// filled in; ok is false unless the person accepted. The time in which it is open
// does not count for x.
func (k *keeper) putToPerson(x *exchange, message string, schema []byte) (content []byte, ok bool) {
	const method = "elicitation/create"
	params := concat(`{"message":`, quote(message), `,"requestedSchema":`, schema, `}`)
	if !x.profile.accepts(method, params) {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(x.ctx, k.bridge.cfg.InputTimeout)
	defer cancel()
	began := time.Now()
	defer func() { x.stood += time.Since(began) }()
	var result []byte
	var err error
	if x.profile.era == modernEra {
		if x.profile.version >= rev2025_11_25 {
			params = jsonrpc.With(params, "mode", []byte(`"form"`))
		}
		result, _, err = x.askLater(ctx, method, params)
	} else {
		stop := x.endWhenAnswered(cancel)
		defer stop()
		result, _, err = x.host.Ask(ctx, method, params)
	}
	if err != nil {
		return nil, false
	}
	action, _ := jsonrpc.String(jsonrpc.Get(objectOr(result, "{}"), "action"))
	return jsonrpc.Get(objectOr(result, "{}"), "content"), action == "accept"
}

// endWhenAnswered calls cancel once nothing more is sent for x: its host has
// cancelled it. stop ends the watch.
func (x *exchange) endWhenAnswered(cancel func()) (stop func()) {
	done := make(chan struct{})
	answered := x.whenAnswered()
	go func() {
		select {
		case <-answered:
			cancel()
		case <-done:
		}
	}()
	return func() { close(done) }
}

// personAgrees asks the person, where the host can, whether a destructive call
// may be sent again.
func (k *keeper) personAgrees(x *exchange, job *jobs.Job) bool {
	defer k.bridge.unpark(x)
	message := fmt.Sprintf("The outcome of %q on server %s (%s ago) is unknown. Send the same call again? It may act twice.",
		cut(job.Tool, 80), job.Server, age(time.Since(job.CreatedAt)))
	content, ok := k.putToPerson(x, message, []byte(`{"type":"object","properties":{"send_again":{"type":"boolean","description":"send the call again"}},"required":["send_again"]}`))
	return ok && string(getPointer(content, "/send_again")) == "true"
}

// outcomeSchema is the form about an unknown outcome.
const outcomeSchema = `{"type":"object","properties":{"outcome":{"type":"string","title":"What happened?",` +
	`"description":"happened: it is done, do not make the call again. did_not_happen: make it now. send_again: I do not know, make it again although it may act twice.",` +
	`"enum":["happened","did_not_happen","send_again"]}},"required":["outcome"]}`

// A ruling is what a person's word makes of a call that was held back.
type ruling uint8

const (
	noWord    ruling = iota // it is held back as before
	ruledTold               // it was answered
	ruledFree               // nothing holds it back any more
	ruledSend               // it is the new job of the earlier call, and to be sent
)

// personRules asks the person, once for each unknown outcome, what became of the
// earlier call that holds x's back.
func (k *keeper) personRules(x *exchange, job *jobs.Job) ruling {
	if job.State != jobs.OutcomeUnknown || job.PutToUser || !x.profile.accepts("elicitation/create", []byte("{}")) {
		return noWord
	}
	if first, err := k.journal.PutToUser(x.ctx, job.Handle); err != nil || !first {
		return noWord
	}
	message := fmt.Sprintf("The call of %q on server %s, made %s ago, ended without a usable answer: %s. Whether it took effect is not known, and now the same call is wanted again.",
		cut(job.Tool, 80), job.Server, age(time.Since(job.CreatedAt)), evidenceText(job))
	content, ok := k.putToPerson(x, message, []byte(outcomeSchema))
	word, _ := jsonrpc.String(getPointer(objectOr(content, "{}"), "/outcome"))
	if !ok {
		return noWord
	}
	settled, begun, err := k.journal.Resolve(x.ctx, job.Handle, job.Seen(), jobs.Resolution{Word: jobs.Word(word), Why: "asked when the same call was wanted again"})
	switch {
	case err != nil: // somebody was faster, or the journal fails: it is as it is
		k.bridge.cfg.Log.Debug("what a person said was not taken", "handle", job.Handle, "error", err)
		if latest, err := k.journal.Find(x.ctx, job.Handle); err == nil {
			*job = latest
		}
		return noWord
	case jobs.Word(word) == jobs.SendAgain:
		k.take(x, begun)
		return ruledSend
	case jobs.Word(word) == jobs.DidNotHappen:
		return ruledFree
	}
	k.answerOpen(x, &settled, "")
	return ruledTold
}
