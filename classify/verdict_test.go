package classify

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for o := Unreachable; o <= Result; o++ {
		seen["outcome "+o.String()] = true
	}
	for l := Transport; l <= Application; l++ {
		seen["layer "+l.String()] = true
	}
	for e := Possible; e <= Reported; e++ {
		seen["effect "+e.String()] = true
	}
	for e := Cut; e <= Cancelled; e++ {
		seen["ended "+e.String()] = true
	}
	for s := NoFailure; s <= Exchange; s++ {
		seen["stage "+s.String()] = true
	}
	if len(seen) != 14+4+3+4+7 {
		t.Errorf("%d names: %v", len(seen), seen)
	}
	for _, unknown := range []string{Outcome(99).String(), Layer(99).String(), Effect(99).String()} {
		if seen["outcome "+unknown] || seen["layer "+unknown] || seen["effect "+unknown] {
			t.Errorf("%s is the name of a member", unknown)
		}
	}
}

func TestVerdictJSON(t *testing.T) {
	t.Parallel()
	wait := 1500 * time.Millisecond
	v := Verdict{Layer: Protocol, Outcome: JSONRPCError, Effect: None, Status: 200, RetryAfter: &wait,
		RPCError: &RPCError{Code: -32601, Message: "no <such> \"method\"\x00", Data: []byte("{ \"a\" :\n 9007199254740993 }")}, Why: "x"}
	got, err := json.Marshal(v)
	want := `{"layer":"protocol","outcome":"JSONRPC_ERROR","effect":"none","status":200,"retryAfterMs":1500,` +
		`"rpcError":{"code":-32601,"message":"no \u003csuch\u003e \"method\"\u0000","data":{"a":9007199254740993}},"resultType":null,"why":"x"}`
	if err != nil || string(got) != want {
		t.Errorf("verdict is %s (%v), want %s", got, err, want)
	}
	own, _ := v.MarshalJSON()
	if strings.Contains(string(own), "\n") || !json.Valid(own) {
		t.Errorf("not one line of JSON: %s", own)
	}
	zero, _ := Verdict{}.MarshalJSON()
	want = `{"layer":"transport","outcome":"UNREACHABLE","effect":"possible","status":0,"retryAfterMs":null,"rpcError":null,"resultType":null,"why":""}`
	if string(zero) != want {
		t.Errorf("the zero verdict is %s", zero)
	}
}

func TestRetryAfterFromArrival(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC)
	c := Capture{Status: 503, Received: now, Header: http.Header{"Retry-After": {now.Add(90 * time.Second).Format(http.TimeFormat)}}}
	if got := retryAfter(&c); got == nil || *got != 90*time.Second {
		t.Errorf("wait is %v", got)
	}
	for _, nonsense := range []string{"NaN", "Inf", "1e5", "0x10", "1,5", "--1", ".", "-"} {
		c.Header.Set("Retry-After", nonsense)
		if got := retryAfter(&c); got != nil {
			t.Errorf("Retry-After %q is %v", nonsense, *got)
		}
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"", ""},
		{" a\r\n\tb  c ", "a b c"},
		{"<p>Hello &amp; <b>good</b>bye</p><script>alert('x')</script><STYLE>p{}</STYLE> end", "Hello & good bye end"},
		{"red \x1b[31mtext\x00\u202e", "red [31mtext"},
		{"\xff\xfe", "\ufffd"},
		{"Authorization: Bearer abc", "Authorization: Bearer [redacted]"},
		{"got cookie: sid=1234; next", "got cookie: [redacted] next"},
		{`{"access_token":"s3cr3t","x":1}`, `{"access_token":[redacted]`},
		{"https://a.example/?token=abc&x=1", "https://a.example/?token=[redacted]"},
		{"jwt eyJhbGciOi.eyJzdWIiOi.c2ln rest", "jwt [redacted] rest"},
		{"Bearer authentication is required", "Bearer authentication is required"},
		{"Bearer abcdefghijklmnop is wrong", "Bearer [redacted] is wrong"},
	} {
		if got := Excerpt([]byte(c[0])); got != c[1] {
			t.Errorf("Excerpt(%q) = %q, want %q", c[0], got, c[1])
		}
	}
	long := Excerpt([]byte(strings.Repeat("日本 ", 100_000)))
	if n := utf8.RuneCountInString(long); n > 300 || !strings.HasSuffix(long, "...") {
		t.Errorf("an excerpt of %d characters: %.40s", n, long)
	}
}

// TestWhyIsBounded feeds texts of any length into every place that quotes.
func TestWhyIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long \x1b[31m\r\n text ", 100_000)
	quoted, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}
	e := Expectation{Method: "tools/call", ID: []byte("1")}
	for _, c := range []Capture{
		{Detail: long}, {Sent: NothingSent, Failed: Connect, Detail: long}, {Status: 500, Body: []byte(long)},
		{Status: 200, Body: []byte(long), Ended: Complete}, {Status: 200, Body: []byte("<html><title>" + long), Ended: Complete},
		{Status: 200, Header: http.Header{"Content-Encoding": {long}}, Body: []byte("x"), Ended: Complete},
		{Status: 200, Ended: Complete, Body: []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":` + string(quoted) + `}}`)},
		{Status: 200, Ended: Complete, Body: []byte(`{"jsonrpc":"2.0","id":` + string(quoted) + `,"result":{}}`)},
		{Status: 200, Ended: Complete, Body: []byte(`{"jsonrpc":"2.0","id":1,"result":{"resultType":` + string(quoted) + `}}`)},
	} {
		checkWhy(t, Reply(e, c))
	}
}

func checkWhy(t *testing.T, v Verdict) {
	t.Helper()
	if v.Why == "" || utf8.RuneCountInString(v.Why) > 600 || !utf8.ValidString(v.Why) {
		t.Errorf("the reason has %d characters: %.60q", utf8.RuneCountInString(v.Why), v.Why)
	}
	if i := strings.IndexFunc(v.Why, unicode.IsControl); i >= 0 {
		t.Errorf("the reason has a control character: %.60q", v.Why[i:])
	}
}

// TestVerdictHoldsTheMessage: what was judged is what gets passed on.
func TestVerdictHoldsTheMessage(t *testing.T) {
	t.Parallel()
	body := []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"x","data":[1e400]}}`)
	for _, status := range []int{200, 400, 500} {
		v := Reply(Expectation{Method: "tools/call", ID: []byte("1")}, Capture{Status: status, Body: body, Ended: Complete})
		if v.Reply.Kind != jsonrpc.Response || string(v.Reply.Raw) != string(body) || string(v.RPCError.Data) != "[1e400]" {
			t.Errorf("status %d: reply %s, error %+v", status, v.Reply.Raw, v.RPCError)
		}
	}
}
