package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// SendAgain is what a person says beside the handle when a call is to be made
// once more.
type sendAgain struct {
	why   string
	url   string   // where, if the job's server is not in config.toml
	flags []string // for the bridge that sends it
}

// resolveByCall has a bridge of the job's server make the call again, and waits
// for what becomes of it. The bridge is this program, started as hosts start
// it: it lives on as a worker if this command is ended. That the word is a
// person's cannot be said in a message, which any host could send: the bridge
// is told at its start, for this one job.
func (d *desk) resolveByCall(ctx context.Context, handle string, again sendAgain) error {
	job, err := d.find(ctx, handle)
	if err != nil {
		return err
	}
	if !d.lost(ctx, &job) && job.State != jobs.OutcomeUnknown {
		return d.notResolved(&job, jobs.ErrNotUnknown)
	}
	args, err := d.bridgeArguments(&job, again)
	if err != nil {
		return err
	}
	said, err := d.callThrough(ctx, args, &job, again.why)
	if err != nil {
		return fmt.Errorf("send job %s again: %w", job.Handle, err)
	}
	return d.tellSentAgain(ctx, job.Handle, said)
}

// tellSentAgain waits for the new job and prints its end. Without one, what the
// bridge said is the reason.
func (d *desk) tellSentAgain(ctx context.Context, h jobs.Handle, said string) error {
	old, err := d.journal.Find(ctx, h)
	if err != nil {
		return err
	}
	if old.SupersededBy == "" {
		fmt.Fprintln(d.stderr, "mcpbridge: "+printable(oneLine(said)))
		if code := endCode(&old, false); code != nil {
			return code
		}
		return nil // its server told what became of it
	}
	job, err := d.journal.Find(ctx, old.SupersededBy)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.stderr, "mcpbridge: sent again as %s\n", job.Handle)
	job, lost, err := d.waitFor(ctx, job, 0)
	if err != nil {
		return err
	}
	if err := d.printEnd(ctx, &job, lost, false, false); err != nil {
		return err
	}
	return endCode(&job, lost)
}

// bridgeArguments is the command line of a bridge for the server and account of
// a job.
func (d *desk) bridgeArguments(j *jobs.Job, again sendAgain) ([]string, error) {
	args := []string{"--" + userResolvesFlag + "=" + string(j.Handle), "--state-dir=" + d.opt.StateDir}
	if named := principalName(j.Principal); named != "" {
		args = append(args, "--principal="+named)
	}
	if d.opt.allowNetworkState {
		args = append(args, "--allow-network-state")
	}
	if d.config.path != "" && d.config.path != defaultConfigPath() {
		args = append(args, "--config="+d.config.path)
	}
	args = append(args, again.flags...)
	_, named := d.config.servers[j.Server]
	switch {
	case again.url != "":
		return append(args, "--server-id="+j.Server, again.url), nil
	case named, isAddress(j.Server):
		return append(args, j.Server), nil
	}
	return nil, usagef("server %s is not in config.toml; say where it is with --url URL, and further flags of the bridge behind --", printable(j.Server))
}

// principalName is the account's name if a person gave it one with --principal.
// Others follow from the credentials; to name them would select other ones.
func principalName(principal string) string {
	for _, derived := range []string{auth.Anonymous, "oauth-", "static-", "command-"} {
		if strings.HasPrefix(principal, derived) {
			return ""
		}
	}
	return principal
}

// callThrough plays host to a bridge and returns what it says.
func (d *desk) callThrough(ctx context.Context, args []string, j *jobs.Job, why string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Stderr = d.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = bridgeLeaves
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	said, err := converse(stdin, bufio.NewReader(stdout), j.Handle, why)
	_ = stdin.Close()
	if ended := cmd.Wait(); err != nil {
		return "", errors.Join(err, ended)
	}
	return said, nil
}

// bridgeLeaves is how long a bridge has after the end of its input.
const bridgeLeaves = 5 * time.Second

// converse opens the session, has the bridge learn the server's tools, and asks
// it to send the call again.
func converse(to io.Writer, from *bufio.Reader, h jobs.Handle, why string) (string, error) {
	const hello = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"mcpbridge-jobs","version":"1"}}`
	if why == "" {
		why = "asked for at the terminal"
	}
	arguments, err := json.Marshal(map[string]any{
		"name":      "mcpbridge_job_resolve",
		"arguments": map[string]string{"handle": string(h), "resolution": string(jobs.SendAgain), "why": why},
	})
	if err != nil {
		return "", err
	}
	if _, err := ask(to, from, 1, "initialize", hello); err != nil {
		return "", err
	}
	if _, err := io.WriteString(to, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		return "", err
	}
	if _, err := ask(to, from, 2, "tools/list", "{}"); err != nil {
		return "", err
	}
	result, err := ask(to, from, 3, "tools/call", string(arguments))
	if err != nil {
		return "", err
	}
	return textOf(result), nil
}

// ask sends one request and returns the result of its response.
func ask(to io.Writer, from *bufio.Reader, id int, method, params string) (json.RawMessage, error) {
	if _, err := fmt.Fprintf(to, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
		return nil, err
	}
	for {
		line, err := from.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("the bridge ended before it answered %s: %w", method, err)
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if json.Unmarshal(line, &m) != nil || m.Method != "" || !bytes.Equal(m.ID, fmt.Append(nil, id)) {
			continue // a notification
		}
		if m.Error != nil {
			return nil, errors.New(m.Error.Message)
		}
		return m.Result, nil
	}
}

// textOf is what a tool result says in words.
func textOf(result json.RawMessage) string {
	var r struct{ Content []struct{ Text string } }
	_ = json.Unmarshal(result, &r) // no text then
	var texts []string
	for _, c := range r.Content {
		texts = append(texts, c.Text)
	}
	return strings.Join(texts, " ")
}
