package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// demoServer is the name of the demo's server in its config.toml.
const demoServer = "shop"

// demoConfig is the config.toml of the demo's bridges; %s is the server's URL.
// A bridge that the demo could not stop would give its calls up soon.
const demoConfig = `job_timeout = "15s"

[servers.shop]
url = %s

[servers.shop.tools.build_report]
answer_within = "1s"

[servers.shop.tools.start_export]
class = "write"
idempotency_key = "/requestId"
status = { tool = "get_export", arguments = { requestId = "{key}" }, state = "/structuredContent/status",
           completed = ["done"], working = ["running"], absent = ["not_found"] }
`

// A tour is the stage of the demo: the server, the host that is on, and a
// directory for everything that bridges keep.
type tour struct {
	voice   *voice
	shop    *shop
	up      *bridgetest.Upstream
	dir     string
	command []string           // of the bridge, without the demo's own flags
	hosts   []*bridgetest.Host // all that were started; the last one is on
	report  jobs.Handle        // of the job that build_report became
}

// openTour starts the server.
func openTour(v *voice, o demoOptions) (*tour, error) {
	dir, err := os.MkdirTemp(o.temp, "mcpbridge-demo-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the demo: %w", err)
	}
	t := &tour{voice: v, shop: o.shop, dir: dir, command: append([]string{o.program}, o.flags...)}
	t.up, err = bridgetest.Start(bridgetest.Options{Era: bridgetest.Legacy, Name: demoServer, Tools: o.shop.tools})
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	config := fmt.Sprintf(demoConfig, strconv.Quote(t.up.URL()))
	if err := os.WriteFile(t.path("config.toml"), []byte(config), 0o600); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *tour) path(name string) string { return filepath.Join(t.dir, name) }

// enter starts a bridge as a host does, and makes that host the one that is on.
func (t *tour) enter() (*bridgetest.Host, error) {
	own := []string{"--config", t.path("config.toml"), "--state-dir", t.path("state"), "--allow-network-state", demoServer}
	h, err := bridgetest.StartHost(bridgetest.HostOptions{
		Command: slices.Concat(t.command, own), Env: demoEnvironment(os.Environ()), Dir: t.dir, Name: "demo-host",
	})
	if err == nil {
		t.hosts = append(t.hosts, h)
	}
	return h, err
}

// demoEnvironment leaves out what users configured for bridges of their own.
func demoEnvironment(all []string) []string {
	var kept []string
	for _, entry := range all {
		if !strings.HasPrefix(entry, "MCPBRIDGE_") {
			kept = append(kept, entry)
		}
	}
	return kept
}

func (t *tour) host() *bridgetest.Host { return t.hosts[len(t.hosts)-1] }

// request has the host send a request. An error in its answer is one.
func (t *tour) request(ctx context.Context, method, params string) (bridgetest.Reply, error) {
	r, err := t.host().Call(ctx, method, params)
	if err == nil && r.Error != nil {
		err = fmt.Errorf("%s was answered with error %d: %s", method, r.Error.Code, r.Error.Message)
	}
	return r, err
}

// call has the host call a tool, and tells so.
func (t *tour) call(ctx context.Context, tool, arguments string) (bridgetest.Reply, error) {
	t.voice.says(theHost, "calls %s %s", tool, arguments)
	return t.request(ctx, "tools/call", bridgetest.ToolParams(tool, arguments))
}

// answers checks that the host was given the server's own answer, and quotes it.
func (t *tour) answers(r bridgetest.Reply, text string) error {
	if r.IsError() || r.Text() != text {
		return fmt.Errorf("the bridge answered %q, not %q", r.Text(), text)
	}
	t.voice.says(theBridge, "%s", r.Text())
	return nil
}

// quotes checks that the bridge's own words hold the phrases, in this order, and
// quotes them all.
func (t *tour) quotes(r bridgetest.Reply, phrases ...string) error {
	if err := inOrder(r.Text(), phrases); err != nil {
		return err
	}
	t.voice.says(theBridge, "%s", r.Text())
	return nil
}

// says is like quotes, but quotes only the phrases.
func (t *tour) says(r bridgetest.Reply, phrases ...string) error {
	if err := inOrder(r.Text(), phrases); err != nil {
		return err
	}
	t.voice.says(theBridge, "%s", strings.Join(phrases, " ... "))
	return nil
}

func inOrder(text string, phrases []string) error {
	rest := text
	for _, phrase := range phrases {
		_, after, found := strings.Cut(rest, phrase)
		if !found {
			return fmt.Errorf("the bridge answered %q, without %q", text, phrase)
		}
		rest = after
	}
	return nil
}

// misbehaved tells how the server failed, if its ledger has it that it did in
// the latest or last but one request for the tool.
func (t *tour) misbehaved(tool, how string) error {
	calls := t.up.Ledger().Requests("tools/call")
	calls = slices.DeleteFunc(calls, func(e bridgetest.Entry) bool { return e.Tool != tool })
	calls = calls[max(0, len(calls)-2):]
	if !slices.ContainsFunc(calls, func(e bridgetest.Entry) bool { return e.Has(bridgetest.MarkFault) }) {
		return fmt.Errorf("the server did not fail at %s", tool)
	}
	t.voice.says(theServer, "%s", how)
	return nil
}

// ledger tells what the ledger has about a tool, and fails if it is something
// else than so many requests and so many effects.
func (t *tour) ledger(tool string, deliveries, effects int) error {
	t.voice.says(theLedger, "%s", t.tally(tool))
	return t.check(tool, deliveries, effects)
}

func (t *tour) check(tool string, deliveries, effects int) error {
	l := t.up.Ledger()
	if l.Deliveries(tool) != deliveries || l.Effects(tool) != effects {
		return fmt.Errorf("the ledger has %s, instead of %d and %d", t.tally(tool), deliveries, effects)
	}
	return nil
}

// tally says in words what the ledger has about a tool.
func (t *tour) tally(tool string) string {
	deliveries, effects := t.up.Ledger().Deliveries(tool), t.up.Ledger().Effects(tool)
	if deliveries == 1 {
		return fmt.Sprintf("%s: 1 request, done %s", tool, times(effects))
	}
	return fmt.Sprintf("%s: %d requests, done %s", tool, deliveries, times(effects))
}

func times(n int) string {
	switch n {
	case 0:
		return "not yet"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// A demoJob is what an answer says of a job.
type demoJob struct {
	Handle       jobs.Handle
	State        string
	Evidence     string
	Deduplicated bool
}

// jobIn reads the job in an answer's _meta.
func jobIn(r bridgetest.Reply) (demoJob, error) {
	var result struct {
		Meta struct {
			Job demoJob `json:"io.github.mcpbridge/job"`
		} `json:"_meta"`
	}
	err := json.Unmarshal(r.Result, &result)
	if err == nil && result.Meta.Job.Handle == "" {
		err = fmt.Errorf("no handle in the answer %q", r.Text())
	}
	return result.Meta.Job, err
}
