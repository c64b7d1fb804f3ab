package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/recorded"
	"github.com/spf13/cobra"
)

// maxReply bounds the reply that classify reads: the largest message of a
// bridge and room for its head.
const maxReply = 65 << 20

// ClassifyFlags are the flags of "mcpbridge classify".
type classifyFlags struct {
	method   string
	id       string
	protocol string
	ended    string
	offered  string
	asJSON   bool
}

func (p *program) classifyCommand() *cobra.Command {
	var f classifyFlags
	cmd := &cobra.Command{
		Use:  "classify [file]",
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, words []string) error { return p.classify(f, words) },
	}
	cmd.Flags().StringVar(&f.method, "method", "tools/call", "")
	cmd.Flags().StringVar(&f.id, "id", "1", "")
	cmd.Flags().StringVar(&f.protocol, "protocol", "2026-07-28", "")
	cmd.Flags().StringVar(&f.ended, "ended", "complete", "")
	cmd.Flags().StringVar(&f.offered, "offered", "", "")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "")
	return cmd
}

// classify prints the verdict on one recorded reply.
func (p *program) classify(f classifyFlags, words []string) error {
	expect, ended, err := f.expectation()
	if err != nil {
		return err
	}
	raw, err := p.readReply(words)
	if err != nil {
		return err
	}
	capture, err := recorded.Parse(raw, ended)
	if err != nil {
		return usagef("classify: %v", err)
	}
	if capture.Received.IsZero() {
		capture.Received = time.Now() // Retry-After may be a date
	}
	return printVerdict(p.stdout, classify.Reply(expect, capture), f.asJSON)
}

func (f classifyFlags) expectation() (classify.Expectation, classify.Ended, error) {
	e := classify.Expectation{Method: f.method, Protocol: f.protocol}
	ended, ok := map[string]classify.Ended{"complete": classify.Complete, "cut": classify.Cut, "timeout": classify.Timeout}[f.ended]
	if !ok {
		return e, ended, usagef("--ended: wants complete, cut or timeout")
	}
	if f.method == "" {
		return e, ended, usagef("--method: wants a JSON-RPC method such as tools/call")
	}
	switch f.offered {
	case "":
	case "tasks":
		e.OfferedTasks = true
	default:
		return e, ended, usagef("--offered: wants tasks")
	}
	if strings.HasPrefix(f.method, "notifications/") {
		return e, ended, nil // it was sent without an id
	}
	id := jsontext.Value(f.id)
	if kind := id.Kind(); !id.IsValid() || kind != '"' && kind != '0' {
		return e, ended, usagef(`--id: wants the id as JSON: a number, or a string in double quotes such as '"a1"'`)
	}
	e.ID = id
	return e, ended, nil
}

func (p *program) readReply(words []string) ([]byte, error) {
	in := p.stdin
	switch {
	case len(words) > 1:
		return nil, usagef("classify takes one file")
	case len(words) == 1 && words[0] != "-":
		file, err := os.Open(words[0])
		if err != nil {
			return nil, fmt.Errorf("classify: %w", err)
		}
		defer file.Close()
		in = file
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxReply+1))
	if err != nil {
		return nil, fmt.Errorf("classify: %w", err)
	}
	if len(raw) > maxReply {
		return nil, fmt.Errorf("classify: the reply is larger than %d bytes", maxReply)
	}
	return raw, nil
}

func printVerdict(w io.Writer, v classify.Verdict, asJSON bool) error {
	if asJSON {
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		return out.Encode(v)
	}
	_, err := fmt.Fprintln(w, verdictLine(v))
	return err
}

// verdictLine is the verdict in one line for a person.
func verdictLine(v classify.Verdict) string {
	parts := []string{fmt.Sprintf("%v (%v layer), effect %v", v.Outcome, v.Layer, v.Effect)}
	if v.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", v.Status))
	}
	if v.RPCError != nil {
		parts = append(parts, fmt.Sprintf("error %d", v.RPCError.Code))
	}
	if v.RetryAfter != nil {
		parts = append(parts, fmt.Sprintf("retry after %v", *v.RetryAfter))
	}
	line := strings.Join(parts, ", ")
	if v.Why != "" {
		line += ": " + v.Why
	}
	return oneLine(line)
}
