package bridge

import "testing"

// TestAccepts: a host is asked for what it declared, and no more.
func TestAccepts(t *testing.T) {
	t.Parallel()
	const form, url = `{"message":"m"}`, `{"mode":"url","url":"https://example.com"}`
	for _, c := range []struct {
		capabilities, method, params string
		want                         bool
	}{
		{`{}`, "elicitation/create", form, false},
		{`{"elicitation":{}}`, "elicitation/create", form, true},
		{`{"elicitation":true}`, "elicitation/create", form, true},
		{`{"elicitation":false}`, "elicitation/create", form, false},
		{`{"elicitation":{}}`, "elicitation/create", url, false},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", url, true},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", form, false},
		{`{"elicitation":{"form":{},"url":{}}}`, "elicitation/create", form, true},
		{`{"sampling":{}}`, "sampling/createMessage", `{"messages":[]}`, true},
		{`{"sampling":{}}`, "sampling/createMessage", `{"tools":[]}`, false},
		{`{"sampling":{"tools":{}}}`, "sampling/createMessage", `{"tools":[]}`, true},
		{`{"roots":{}}`, "roots/list", ``, true},
		{`{"roots":null}`, "roots/list", `{}`, false},
		{`{"example":{}}`, "example/ask", `{}`, false},
		{`{"elicitation":{}}`, "elicitation/create", `7`, true},
	} {
		p := legacyProfile(rev2025_11_25, nil, []byte(c.capabilities))
		if got := p.accepts(c.method, []byte(c.params)); got != c.want {
			t.Errorf("%s: %s %s: %t, want %t", c.capabilities, c.method, c.params, got, c.want)
		}
	}
}
