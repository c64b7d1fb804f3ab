package bridge

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/retry"
)

var updateTexts = flag.Bool("update-texts", false, "write the texts into testdata/text")

// A textCase is one text that a person or a model reads.
type textCase struct {
	name   string
	head   string
	ageOf  string // why there is no age, "" if there is one
	text   func(x *exchange) string
	method string // "" is tools/call
	class  retry.Class
	tries  int // deliveries, 0 is 1
}

// captured is what was seen of a delivery that was answered with a status.
func captured(status int, contentType, body string, headers ...string) classify.Capture {
	h := header(headers...)
	h.Set("Content-Type", contentType)
	return classify.Capture{Status: status, Header: h, Body: []byte(body), Sent: classify.MaybeSent, Ended: classify.Complete,
		Received: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
}

func lostBy(sent classify.Sent, stage classify.Stage, ended classify.Ended, detail string) classify.Capture {
	return classify.Capture{Sent: sent, Failed: stage, Ended: ended, Detail: detail}
}

// explained is the text of an exchange that ended with the capture.
func explained(c classify.Capture) func(*exchange) string {
	return func(x *exchange) string {
		r := &reply{expect: classify.Expectation{Method: x.method, ID: []byte("7"), Protocol: rev2025_11_25}, capture: c, endedBy: byUpstream}
		r.challenge = c.Header.Get("Www-Authenticate")
		r.judge()
		x.weigh(r)
		return x.explain(r).String()
	}
}

// refusedLater is the text of an exchange whose last delivery ended with the
// capture, and one before it may have been executed.
func refusedLater(c classify.Capture) func(*exchange) string {
	return func(x *exchange) string {
		x.mayHaveRun = true
		return explained(c)(x)
	}
}

const webPage = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>"

func replyTexts() []textCase {
	cut := lostBy(classify.MaybeSent, classify.Exchange, classify.Cut, "the connection to crm.example.com broke while waiting for the answer: connection reset")
	refused := lostBy(classify.NothingSent, classify.Connect, classify.Cut, "connection to crm.example.com:443 failed: connection refused")
	late := lostBy(classify.MaybeSent, classify.NoFailure, classify.Timeout, "--idle-timeout was reached")
	return []textCase{
		{name: "unknown-cut", head: "OUTCOME UNKNOWN", text: explained(cut)},
		{name: "unknown-timeout", head: "OUTCOME UNKNOWN", text: explained(late)},
		{name: "unknown-503", head: "OUTCOME UNKNOWN", text: explained(captured(503, "text/plain", "overloaded", "Retry-After", "120"))},
		{name: "unknown-web-page", head: "OUTCOME UNKNOWN", text: explained(captured(502, "text/html", webPage))},
		{name: "unknown-malformed", head: "OUTCOME UNKNOWN", text: explained(captured(200, "application/json", `{"jsonrpc"="2.0","id":7}`))},
		{name: "unknown-wrong-id", head: "OUTCOME UNKNOWN", text: explained(captured(200, "application/json", `{"jsonrpc":"2.0","id":8,"result":{"content":[]}}`))},
		{name: "unknown-idempotent", head: "OUTCOME UNKNOWN", class: retry.Idempotent, tries: 3, text: explained(cut)},
		{name: "unknown-presumed-read", head: "OUTCOME UNKNOWN", class: retry.PresumedRead, text: explained(cut)},
		{name: "unknown-refused-later", head: "OUTCOME UNKNOWN", class: retry.Idempotent, tries: 2,
			text: refusedLater(captured(429, "text/plain", "slow down", "Retry-After", "30"))},
		{name: "unknown-sign-in-later", head: "OUTCOME UNKNOWN", class: retry.Idempotent, tries: 2,
			text: refusedLater(captured(401, "text/plain", "", "Www-Authenticate", "Bearer"))},
		{name: "no-answer-refused-later", head: "NO ANSWER", class: retry.Read, tries: 2, text: refusedLater(refused)},
		{name: "no-answer-cut", head: "NO ANSWER", class: retry.Read, tries: 3, text: explained(cut)},
		{name: "no-answer-503", head: "NO ANSWER", class: retry.Read, text: explained(captured(503, "text/plain", "overloaded", "Retry-After", "3600"))},
		{name: "no-answer-malformed", head: "NO ANSWER", class: retry.Read, text: explained(captured(200, "text/html", webPage))},
		{name: "no-answer-method", head: "NO ANSWER", class: retry.Read, method: "resources/read", text: explained(late)},
		{name: "not-sent-refused", head: "NOT SENT", tries: 3, text: explained(refused)},
		{name: "not-sent-method", head: "NOT SENT", class: retry.Read, method: "resources/read", text: explained(refused)},
		{name: "failed-429", head: "FAILED", tries: 3, text: explained(captured(429, "text/plain", "slow down", "Retry-After", "30"))},
		{name: "failed-403", head: "FAILED", text: explained(captured(403, "text/plain", "not for you"))},
		{name: "failed-413", head: "FAILED", text: explained(captured(413, "text/html", webPage))},
		{name: "failed-400", head: "FAILED", text: explained(captured(400, "text/plain", "Bad Request"))},
		{name: "failed-400-read", head: "FAILED", class: retry.Read, text: explained(captured(400, "text/plain", "Bad Request"))},
		{name: "sign-in-401", head: "SIGN-IN NEEDED", text: explained(captured(401, "text/plain", "", "Www-Authenticate", "Bearer"))},
		{name: "sign-in-403-scope", head: "SIGN-IN NEEDED", text: explained(captured(403, "text/plain", "", "Www-Authenticate", `Bearer error="insufficient_scope", scope="notes:write"`))},
	}
}

// refusedBy is the text of an exchange whose credentials the server refused, where
// a person can sign in: what is known of that, and the page that is open.
func refusedBy(status int, about refusal, page auth.Prompt) func(*exchange) string {
	return func(x *exchange) string {
		x.bridge.cfg.Login = "/usr/local/bin/mcpbridge login crm"
		x.bridge.access = accessWith(&fakeCredentials{})
		x.refusal = about
		x.refusal.prompt = page
		return explained(captured(status, "text/plain", "", "Www-Authenticate", `Bearer error="insufficient_scope"`))(x)
	}
}

func signInTexts() []textCase {
	until := time.Date(2026, 11, 30, 12, 5, 0, 0, time.UTC)
	wanted := refusal{decision: auth.Decision{Action: auth.SignIn}}
	page := auth.Prompt{URL: "https://id.example.com/authorize?state=x", Expires: until}
	noBrowser, device := page, auth.Prompt{URL: "https://id.example.com/device", UserCode: "WDJB-MJHT", Expires: until}
	noBrowser.NoBrowser = true
	return []textCase{
		{name: "sign-in-person", head: "SIGN-IN NEEDED", text: refusedBy(401, wanted, auth.Prompt{})},
		{name: "sign-in-browser", head: "SIGN-IN NEEDED", text: refusedBy(401, wanted, page)},
		{name: "sign-in-no-browser", head: "SIGN-IN NEEDED", text: refusedBy(401, wanted, noBrowser)},
		{name: "sign-in-device", head: "SIGN-IN NEEDED", text: refusedBy(401, wanted, device)},
		{name: "sign-in-denied", head: "SIGN-IN NEEDED", text: refusedBy(401, refusal{decision: wanted.decision, failure: auth.ErrDenied}, auth.Prompt{})},
		{name: "sign-in-failed", head: "SIGN-IN NEEDED", text: refusedBy(401, refusal{decision: wanted.decision, failure: errors.New("the server names no authorization server")}, auth.Prompt{})},
		{name: "sign-in-refused-again", head: "SIGN-IN NEEDED", text: refusedBy(401, refusal{decision: auth.Decision{Why: "the server refuses the new credentials as well"}}, auth.Prompt{})},
		{name: "failed-permission", head: "FAILED", text: refusedBy(403, refusal{decision: auth.Decision{Why: "the scope notes:write was asked for before and not given"}}, auth.Prompt{})},
	}
}

func ownTexts() []textCase {
	verdict := &classify.Verdict{Outcome: classify.ToolSuccess, Effect: classify.Reported}
	return []textCase{
		{name: "unknown-deadline", head: "OUTCOME UNKNOWN", text: func(x *exchange) string { return textOf(x.openPastDeadline(verdict)) }},
		{name: "failed-input-required", head: "FAILED", text: func(x *exchange) string { return x.inputRequired().String() }},
		{name: "unknown-over-limit", head: "OUTCOME UNKNOWN", text: func(x *exchange) string {
			return x.overLimit(&classify.Verdict{Why: "the reply is larger than --max-message (67108864 bytes)"}).String()
		}},
		{name: "no-answer-line-limit", head: "NO ANSWER", text: func(x *exchange) string { return textOf(x.tooLarge(verdict, 12_000_000)) }},
		{name: "no-answer-line-limit-refused", head: "NO ANSWER", text: func(x *exchange) string {
			return textOf(x.tooLarge(&classify.Verdict{Outcome: classify.JSONRPCError, Effect: classify.None, Why: "JSON-RPC error -32601 no such tool"}, 12_000_000))
		}},
		{name: "no-answer-line-limit-error", head: "NO ANSWER", text: func(x *exchange) string {
			return textOf(x.tooLarge(&classify.Verdict{Outcome: classify.JSONRPCError, Why: "JSON-RPC error -32602 Invalid params"}, 12_000_000))
		}},
		{name: "not-sent-as-it-is", head: "NOT SENT", ageOf: "nothing was tried", text: func(x *exchange) string {
			r := refusedHere(classify.Expectation{Method: "tools/call", ID: []byte("7")}, errors.New("argument region cannot be a header: it is an object"))
			r.judge()
			return x.explain(r).String()
		}},
		{name: "no-answer-too-long", head: "NO ANSWER", ageOf: "the host can ask again at once", class: retry.Read, method: "resources/read", text: func(x *exchange) string {
			return x.noAnswerOf(12_000_000).String()
		}},
		{name: "not-sent-overloaded", head: "NOT SENT", ageOf: "nothing was tried", text: func(x *exchange) string {
			return overloadNote(x, "1024 requests are open", "wait until some of them have ended, then call again").String()
		}},
		{name: "not-sent-taken-out", head: "NOT SENT", ageOf: "nothing was tried", text: func(x *exchange) string {
			return textOf(x.notOffered(`the tool "write_note" is taken out by --ignore-tool or --only-tool`))
		}},
		{name: "not-sent-key-conflict", head: "NOT SENT", ageOf: "nothing was tried", text: func(x *exchange) string {
			return textOf(x.keyConflict(aJob(jobs.Working)))
		}},
		{name: "not-sent-no-journal", head: "NOT SENT", ageOf: "nothing was tried", text: func(x *exchange) string {
			return textOf(x.notJournaled(errors.New(`journal "jobs.db" in /home/ann/.local/state/mcpbridge: no space left on device`)))
		}},
	}
}

func jobTexts() []textCase {
	about := func(s jobs.State, change func(*jobs.Job)) func(*exchange) string {
		return func(x *exchange) string {
			j := aJob(s)
			change(j)
			return textOf(x.handleAnswer(j, false, ""))
		}
	}
	same := func(*jobs.Job) {}
	return []textCase{
		{name: "running", head: "STILL RUNNING (not an error)", text: about(jobs.Working, func(j *jobs.Job) {
			j.Progress = &jobs.Progress{Progress: 3, Total: 10, Message: "exporting"}
		})},
		{name: "running-read", head: "STILL RUNNING (not an error)", text: about(jobs.Working, func(j *jobs.Job) { j.Class = jobs.Read })},
		{name: "running-repeated", head: "STILL RUNNING (not an error)", text: func(x *exchange) string {
			return textOf(x.handleAnswer(aJob(jobs.Working), true, ""))
		}},
		{name: "running-question", head: "STILL RUNNING (not an error)", text: about(jobs.InputRequired, same)},
		{name: "unknown-job", head: "OUTCOME UNKNOWN", text: about(jobs.OutcomeUnknown, func(j *jobs.Job) { j.Evidence = jobs.BridgeLost })},
		{name: "failed-job", head: "FAILED", text: about(jobs.Failed, func(j *jobs.Job) { j.Evidence = jobs.RPCError })},
		{name: "failed-job-not-sent", head: "FAILED", text: about(jobs.Failed, func(j *jobs.Job) { j.Evidence, j.Effect = jobs.NotSent, jobs.None })},
		{name: "cancelled-job", head: "FAILED", text: about(jobs.Cancelled, func(j *jobs.Job) { j.Evidence = jobs.CancelledByHost })},
		{name: "completed-job", head: "COMPLETED", text: about(jobs.Completed, same)},
	}
}

// aJob is a job that began 83 seconds ago.
func aJob(s jobs.State) *jobs.Job {
	return &jobs.Job{Handle: "job_7rk2mzq4x5wvut3nfh6ydp4bca", Account: jobs.Account{Server: "crm", Principal: "anonymous"}, Tool: "write_note",
		Class: jobs.Write, State: s, Evidence: jobs.ToolResult, CreatedAt: time.Now().Add(-83 * time.Second)}
}

func textOf(parts [][]byte) string {
	m, err := jsonrpc.Read(concat(parts[0], parts[1], parts[2], parts[3], parts[4]))
	if err != nil {
		return err.Error()
	}
	blocks, err := jsonrpc.Split(m.Field(jsonrpc.Content))
	if err != nil {
		return err.Error()
	}
	text, _ := jsonrpc.String(jsonrpc.Get(blocks[0], "text"))
	return text
}

// anExchange is a call of write_note to server crm that began 1.5 s ago.
func anExchange(t *testing.T, c textCase) *exchange {
	t.Helper()
	b, err := New(Config{URL: &url.URL{Scheme: "https", Host: "crm.example.com", Path: "/mcp"}, Server: "crm"})
	if err != nil {
		t.Fatal(err)
	}
	b.host = newHost(b, nil)
	x := &exchange{bridge: b, host: b.host, method: "tools/call", toolName: "write_note", class: c.class, began: time.Now().Add(-1500 * time.Millisecond),
		ctx: context.Background(), id: []byte("1"), profile: &profile{era: legacyEra, version: rev2025_11_25}}
	if c.method != "" {
		x.method, x.toolName = c.method, ""
	}
	for range max(c.tries, 1) {
		x.evidence.delivered(&reply{})
	}
	return x
}

// Every text that a model or a person reads in place of a result is as the
// golden file has it, opens with what it is, names server and age, and is short.
func TestTexts(t *testing.T) {
	t.Parallel()
	ages := regexp.MustCompile(`\d (ms|s)\b|\d+m\d+s|\d[hm]\b`)
	seen := map[string]bool{}
	for _, list := range [][]textCase{replyTexts(), signInTexts(), ownTexts(), jobTexts()} {
		for _, c := range list {
			seen[c.name] = true
			t.Run(c.name, func(t *testing.T) {
				text := ""
				synctest.Test(t, func(t *testing.T) { text = c.text(anExchange(t, c)) }) // the clock stands still
				if !strings.HasPrefix(text, c.head+": ") && !strings.HasPrefix(text, c.head+". ") {
					t.Errorf("does not open with %q: %s", c.head, text)
				}
				if !strings.Contains(text, "server crm") {
					t.Errorf("does not name the server: %s", text)
				}
				if c.ageOf == "" && !ages.MatchString(text) {
					t.Errorf("has no age: %s", text)
				}
				if n := utf8.RuneCountInString(text); n >= maxNote {
					t.Errorf("%d characters", n)
				}
				compareText(t, c.name, text)
			})
		}
	}
	unusedTexts(t, "", func(name string) bool { return seen[name] })
}

func compareText(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("..", "testdata", "text", name+".golden")
	if *updateTexts {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text+"\n" != string(want) {
		t.Errorf("got  %s\nwant %s(go test ./bridge -run TestTexts -update-texts writes the files)", text, want)
	}
}

// unusedTexts finds golden files of a folder that no text belongs to.
func unusedTexts(t *testing.T, folder string, used func(name string) bool) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("..", "testdata", "text", folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() && !used(strings.TrimSuffix(e.Name(), ".golden")) {
			t.Errorf("%s belongs to no text", e.Name())
		}
	}
}

// A reason of the server's is cut, and a note stays short however long names
// and reasons are.
func TestTextsStayShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("й", 4000)
	c := textCase{class: retry.Write}
	x := anExchange(t, c)
	x.toolName = long
	for _, text := range []string{
		explained(captured(503, "text/plain", long))(x),
		explained(captured(200, "application/json", long))(x),
		explained(captured(400, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"`+long+`"}}`))(x),
		textOf(x.notJournaled(errors.New(long))),
		textOf(x.keyConflict(aJob(jobs.Working))),
		textOf(x.handleAnswer(aJob(jobs.OutcomeUnknown), true, "")),
	} {
		if !utf8.ValidString(text) {
			t.Errorf("is cut within a character: %q", text)
		}
		if n := utf8.RuneCountInString(text); n >= maxNote {
			t.Errorf("%d characters: %s", n, text)
		}
	}
}

// The code of an error of our own says what kind it is.
func TestErrorCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		class   retry.Class
		capture classify.Capture
		want    int
	}{
		"refused":    {retry.Read, lostBy(classify.NothingSent, classify.Connect, classify.Cut, "refused"), codeUnreachable},
		"timeout":    {retry.Read, lostBy(classify.MaybeSent, classify.NoFailure, classify.Timeout, "--answer-within was reached"), codeTimedOut},
		"cut":        {retry.Read, lostBy(classify.MaybeSent, classify.Exchange, classify.Cut, "reset"), codeUnreachable},
		"write cut":  {retry.Write, lostBy(classify.MaybeSent, classify.Exchange, classify.Cut, "reset"), codeUnknown},
		"malformed":  {retry.Read, captured(200, "application/json", "{"), codeInvalidReply},
		"401":        {retry.Read, captured(401, "text/plain", ""), codeSignIn},
		"403":        {retry.Read, captured(403, "text/plain", ""), codeSignIn},
		"404":        {retry.Read, captured(404, "text/plain", ""), codeInvalidReply},
		"503":        {retry.Read, captured(503, "text/plain", ""), codeUnreachable},
		"429":        {retry.Read, captured(429, "text/plain", ""), codeUnreachable},
		"write, 503": {retry.Write, captured(http.StatusServiceUnavailable, "text/plain", ""), codeUnknown},
	} {
		x := anExchange(t, textCase{method: "resources/read", class: c.class})
		v := classify.Reply(classify.Expectation{Method: "resources/read", ID: []byte("7"), Protocol: rev2025_11_25}, c.capture)
		if got := x.code(&v); got != c.want {
			t.Errorf("%s: code %d, want %d", name, got, c.want)
		}
	}
}
