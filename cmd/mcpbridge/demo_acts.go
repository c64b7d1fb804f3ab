package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// An act is one thing that the demo shows. It tells what it sees, and fails if
// that is not what its title promises.
type act struct {
	title string
	play  func(*tour, context.Context) error
}

func acts() []act {
	return []act{
		{"The host takes the bridge for the server", (*tour).handshake},
		{"An ordinary call", (*tour).ordinaryCall},
		{"A call that reports progress", (*tour).progress},
		{"The server is busy, and the tool only reads: the bridge asks again", (*tour).busyRead},
		{"The same error, but the tool writes: the bridge does not guess", (*tour).busyWrite},
		{"A call outlives its deadline, here 1 s: the model gets a ticket for it", (*tour).deadline},
		{"The host is killed meanwhile (kill -9)", (*tour).killed},
		{"A new host, which knows nothing of that, wants the same again", (*tour).duplicate},
		{"The answer is lost, and the server knows what became of the call", (*tour).status},
	}
}

func (t *tour) handshake(ctx context.Context) error {
	began := time.Now()
	h, err := t.enter()
	if err != nil {
		return err
	}
	t.voice.says(theHost, "starts the bridge: initialize, protocol 2025-06-18; tools/list")
	if _, err := h.Initialize(ctx, "2025-06-18", ""); err != nil {
		return err
	}
	list, err := t.request(ctx, "tools/list", "")
	took := time.Since(began)
	if err != nil {
		return err
	}
	names, err := t.listed(list)
	if err != nil {
		return err
	}
	t.voice.says(theBridge, "%s, after %d ms", strings.Join(names, ", "), took.Milliseconds())
	return nil
}

// listed reads the names of the tools, which must be those of the server and
// two of the bridge.
func (t *tour) listed(list bridgetest.Reply) ([]string, error) {
	var result struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(list.Result, &result); err != nil {
		return nil, fmt.Errorf("read the list of tools: %w", err)
	}
	var names, want []string
	for _, tool := range result.Tools {
		names = append(names, tool.Name)
	}
	for _, tool := range t.shop.tools {
		want = append(want, tool.Name)
	}
	want = append(want, "mcpbridge_job", "mcpbridge_job_resolve")
	if !slices.Equal(names, want) {
		return nil, fmt.Errorf("the bridge lists %q, not %q", names, want)
	}
	return names, nil
}

func (t *tour) ordinaryCall(ctx context.Context) error {
	r, err := t.call(ctx, "find_customer", `{"name":"Ada"}`)
	if err != nil {
		return err
	}
	return t.answers(r, adaLovelace)
}

func (t *tour) progress(ctx context.Context) error {
	t.voice.says(theHost, `calls count_orders {"quarter":1}`)
	r, err := t.request(ctx, "tools/call", `{"name":"count_orders","arguments":{"quarter":1},"_meta":{"progressToken":"orders"}}`)
	if err != nil {
		return err
	}
	for i, month := range months() {
		if err := t.sawProgress(i+1, month); err != nil {
			return err
		}
	}
	return t.answers(r, ordersCounted)
}

// sawProgress looks for a progress notification among those that came.
func (t *tour) sawProgress(done int, message string) error {
	type progress struct {
		ProgressToken, Message string
		Progress, Total        float64
	}
	want := progress{"orders", message, float64(done), float64(len(months()))}
	seen := t.host().Notifications(func(m bridgetest.HostMessage) bool {
		var p progress
		return m.Method == "notifications/progress" && json.Unmarshal(m.Params, &p) == nil && p == want
	})
	if len(seen) != 1 {
		return fmt.Errorf("progress about %s came %d times, not once", message, len(seen))
	}
	t.voice.says(theBridge, "progress %d of %d, %s", done, len(months()), message)
	return nil
}

func (t *tour) busyRead(ctx context.Context) error {
	if err := t.up.SetFault("status:503@find_customerx1"); err != nil {
		return err
	}
	before := t.up.Ledger().Deliveries("find_customer")
	r, err := t.call(ctx, "find_customer", `{"name":"Lovelace"}`)
	if err != nil {
		return err
	}
	if err := t.misbehaved("find_customer", "503 Service Unavailable"); err != nil {
		return err
	}
	if err := t.answers(r, adaLovelace); err != nil {
		return err
	}
	if err := t.check("find_customer", before+2, 0); err != nil {
		return err
	}
	t.voice.says(theLedger, "2 requests for this one call; nothing was changed by them")
	return nil
}

func (t *tour) busyWrite(ctx context.Context) error {
	if err := t.up.SetFault("status-after-effect:503@send_invoicex1"); err != nil {
		return err
	}
	r, err := t.call(ctx, "send_invoice", `{"customer":17,"euros":100}`)
	if err != nil {
		return err
	}
	if err := t.misbehaved("send_invoice", "503 Service Unavailable; but it had sent the invoice already"); err != nil {
		return err
	}
	if err := t.quotes(r, "OUTCOME UNKNOWN", "Not known: whether it took effect.", "Do not:"); err != nil {
		return err
	}
	return t.ledger("send_invoice", 1, 1)
}

func (t *tour) deadline(ctx context.Context) error {
	r, err := t.call(ctx, "build_report", `{"year":2026}`)
	if err != nil {
		return err
	}
	job, err := jobIn(r)
	if err != nil {
		return err
	}
	t.report = job.Handle
	return t.says(r, "STILL RUNNING (not an error)", "its handle is "+string(t.report)+"; progress 1 of 2 (reading the books)",
		"call mcpbridge_job with this handle")
}

func (t *tour) killed(ctx context.Context) error {
	t.host().Kill()
	t.voice.says(theHost, "is gone, and the bridge that it had started with it")
	held, err := t.reportIsHeld(ctx)
	switch {
	case err != nil:
		return err
	case held:
		t.voice.says(theBridge, "left a process behind, outside the group that was killed: it holds the call")
	default:
		t.voice.says(theBridge, "left the call in its journal: the next bridge takes it up")
	}
	return t.ledger("build_report", 1, 0)
}

func (t *tour) duplicate(ctx context.Context) error {
	if _, err := t.enter(); err != nil {
		return err
	}
	t.voice.says(theHost, "starts a bridge: server/discover, protocol 2026-07-28 (the server is older than that)")
	t.host().SetModern(true)
	if _, err := t.request(ctx, "server/discover", ""); err != nil {
		return err
	}
	r, err := t.call(ctx, "build_report", `{"year":2026}`)
	if err != nil {
		return err
	}
	if err := t.says(r, "STILL RUNNING (not an error)", "This repeat was not sent: it is answered from the earlier call."); err != nil {
		return err
	}
	job, err := jobIn(r)
	if err != nil {
		return err
	}
	if job.Handle != t.report || !job.Deduplicated {
		return fmt.Errorf("the repeat was answered from %+v, not from %s", job, t.report)
	}
	t.shop.booksEnd.Store(true)
	if r, err = t.call(ctx, "mcpbridge_job", fmt.Sprintf(`{"handle":%q,"wait_seconds":10}`, t.report)); err != nil {
		return err
	}
	if err := t.answers(r, reportBuilt); err != nil {
		return err
	}
	return t.ledger("build_report", 1, 1)
}

func (t *tour) status(ctx context.Context) error {
	if err := t.up.SetFault("lost-reply@start_exportx1"); err != nil {
		return err
	}
	r, err := t.call(ctx, "start_export", "{}")
	if err != nil {
		return err
	}
	if err := t.misbehaved("start_export", "starts the export, then drops the connection"); err != nil {
		return err
	}
	job, err := jobIn(r)
	if err != nil {
		return err
	}
	if job.State != "completed" || job.Evidence != string(jobs.StatusTool) {
		return fmt.Errorf("the job is %s by %s, not completed by the status tool", job.State, job.Evidence)
	}
	if asked := t.up.Ledger().Deliveries("get_export"); asked == 0 {
		return errors.New("the status tool was never asked")
	}
	t.voice.says(theBridge, "asks the server's get_export, as config.toml says, and says what it learnt:")
	if err := t.quotes(r, "COMPLETED", `get_export said "done"`); err != nil {
		return err
	}
	return t.ledger("start_export", 1, 1)
}
