package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/mcpbridge/mcpbridge/jobs"
)

// This file is how jobs are told to a person. Names and texts of jobs come from
// servers and hosts: none may steer a terminal.

// printable replaces what is no visible text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}

// clock is a time as the people here read it.
func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// ago is a rough duration.
func ago(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// shortHandle is the beginning of a handle that tables show; commands take it.
const shortHandle = len("job_") + 8

func short(h jobs.Handle) string { return string(h)[:min(len(h), shortHandle)] }

// stateWord is a state in a table.
func stateWord(j *jobs.Job, lost bool) string {
	if lost {
		return "owner lost"
	}
	return strings.ReplaceAll(j.State.String(), "_", " ")
}

// reason says in words why a job is in its state.
func reason(j *jobs.Job, lost bool) string {
	if lost {
		return "the process that made the call is gone"
	}
	if lingers(j) {
		return "its host is gone; a worker waits for the answer"
	}
	switch j.Evidence {
	case jobs.Started:
		return "sent, no answer yet"
	case jobs.AnswerDeadline:
		return "the host has the handle"
	case jobs.ToolResult:
		return "the server answered with a result"
	case jobs.RPCError:
		return "the server answered with an error"
	case jobs.NotSent:
		return "the call never left this machine"
	case jobs.BridgeLost:
		return "the process that made the call died before the answer was recorded"
	case jobs.BridgeLeft:
		return "mcpbridge left before the server had answered"
	case jobs.EarlierDelivery:
		return "its last delivery was refused, one before may have been executed"
	case jobs.CancelledByHost:
		return "cancelled, and the server said no more"
	case jobs.StatusTool:
		return "a status tool of the server said so"
	case jobs.InputExpired:
		return "nobody answered the server's question"
	case jobs.ResolvedByUser:
		return "a person said: " + strings.ReplaceAll(j.Resolution, "_", " ")
	case jobs.ResolvedByModel:
		return "a model said: " + strings.ReplaceAll(j.Resolution, "_", " ")
	}
	return printable(strings.ReplaceAll(string(j.Evidence), "_", " "))
}

// progressWords is how far a job is; "" if nobody said.
func progressWords(p *jobs.Progress) string {
	if p == nil {
		return ""
	}
	s := strconv.FormatFloat(p.Progress, 'g', -1, 64)
	if p.Total > 0 {
		s += " of " + strconv.FormatFloat(p.Total, 'g', -1, 64)
	}
	if p.Message != "" {
		s += ", " + printable(p.Message)
	}
	return s
}

// message is a job in one sentence or two.
func message(j *jobs.Job, lost bool, now time.Time) string {
	call := fmt.Sprintf("the call of %q on server %s, %s ago", printable(j.Tool), printable(j.Server), ago(now.Sub(j.CreatedAt)))
	switch {
	case lost:
		return "OUTCOME UNKNOWN. " + upper(call) + ", was made by a process that is gone."
	case j.State == jobs.Working:
		text := "STILL RUNNING (not an error). " + upper(call) + ", goes on"
		if p := progressWords(j.Progress); p != "" {
			text += "; progress " + p
		}
		return text + "."
	case j.State == jobs.InputRequired:
		return "STILL RUNNING (not an error). " + upper(call) + ", waits for an answer to a question."
	case j.State == jobs.OutcomeUnknown:
		return "OUTCOME UNKNOWN. Whether " + call + ", took effect is not known: " + reason(j, false) + "."
	case j.State == jobs.Completed:
		return "COMPLETED. " + upper(call) + ": " + reason(j, false) + "."
	}
	text := "FAILED. " + upper(call) + ": " + reason(j, false) + "; "
	if j.SupersededBy != "" {
		return text + "it was made again as " + string(j.SupersededBy) + "."
	}
	if j.Effect == jobs.None {
		return text + "it had no effect."
	}
	return text + "it may have had an effect."
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// advice is the command to go on with; "" if there is none.
func advice(j *jobs.Job, lost bool) string {
	switch {
	case lost, j.State == jobs.OutcomeUnknown:
		return "find out what happened, then: mcpbridge jobs resolve " + short(j.Handle) + " happened|did_not_happen|send_again"
	case isOpen(j):
		return "mcpbridge jobs wait " + short(j.Handle)
	case j.SupersededBy != "":
		return "mcpbridge jobs show " + short(j.SupersededBy)
	case j.Result.Kept:
		return "mcpbridge jobs show " + short(j.Handle) + " --result"
	}
	return ""
}
