package faults

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// What a host can be told about a call. The words in capitals are the first
// ones of the text.
const (
	told       = "the server's result"
	toldTheirs = "the server's error"
	running    = "STILL RUNNING"
	unknown    = "OUTCOME UNKNOWN"
	notSent    = "NOT SENT"
	noAnswer   = "NO ANSWER"
	signIn     = "SIGN-IN NEEDED"
	failed     = "FAILED"
)

// A statement is one answer to a host, read as a host reads it.
type statement struct {
	head    string
	text    string
	verdict *verdict // nil: these are the server's own words
	job     *job     // nil: none is spoken of
}

// A job is the _meta object of answers about one.
type job struct {
	Handle       string `json:"handle"`
	State        string `json:"state"`
	Effect       string `json:"effect"`
	Deliveries   int    `json:"deliveries"`
	Deduplicated bool   `json:"deduplicated"`
}

// A verdict is the _meta object of the bridge's own answers, or the verdict in
// the data of its errors.
type verdict struct {
	Layer       string `json:"layer"`
	Outcome     string `json:"outcome"`
	Effect      string `json:"effect"`
	Status      int    `json:"status"`
	Tool        string `json:"tool"`
	Deliveries  int    `json:"deliveries"`
	RetryOrigin string `json:"retryOrigin"`
	EndedBy     string `json:"endedBy"`
	Why         string `json:"why"`
}

func read(r bridgetest.Reply) statement {
	if r.Error != nil {
		return readError(r.Error)
	}
	var result struct {
		Meta struct {
			Verdict *verdict `json:"io.github.mcpbridge/verdict"`
			Job     *job     `json:"io.github.mcpbridge/job"`
		} `json:"_meta"`
		IsError bool `json:"isError"`
	}
	_ = json.Unmarshal(r.Result, &result) // no tool result: no verdict of ours
	s := statement{head: told, text: r.Text(), verdict: result.Meta.Verdict, job: result.Meta.Job}
	for _, head := range heads() {
		if strings.HasPrefix(s.text, head) && (s.verdict != nil || result.Meta.Job != nil) {
			s.head = head
		}
	}
	switch {
	case s.head == told && s.verdict != nil:
		s.head = "ours without a heading"
	case s.head != told && s.head != running && !result.IsError:
		s.head += " without isError"
	}
	return s
}

func heads() []string {
	return []string{running, unknown, notSent, noAnswer, signIn, failed}
}

func readError(e *bridgetest.ReplyError) statement {
	var data struct {
		Source  string
		Verdict *verdict
	}
	_ = json.Unmarshal(e.Data, &data) // no data of ours: a server's error
	if data.Source != "mcpbridge" {
		return statement{head: toldTheirs, text: e.Message}
	}
	head, _, _ := strings.Cut(e.Message, ":")
	return statement{head: head + " (" + strconv.Itoa(e.Code) + ")", text: e.Message, verdict: data.Verdict}
}

// denies reports whether the statement says that the call had no effect.
func (s statement) denies() bool {
	for _, words := range []string{"nothing was executed", "without executing", "nothing was changed", "did not reach", "nothing was sent"} {
		if strings.Contains(s.text, words) {
			return true
		}
	}
	return s.head == notSent || s.verdict != nil && s.verdict.Effect == "none"
}
