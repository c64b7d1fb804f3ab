package main

import "testing"

func TestPlaceholder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, anywhere, header string }{
		{"plain", "", ""},
		{"https://${HOST}/mcp", "${HOST}", ""},
		{"{env:TOKEN}", "{env:TOKEN}", "{env:TOKEN}"},
		{"${env:TOKEN}", "${env:TOKEN}", "${env:TOKEN}"},
		{"X: ${input:key}", "${input:key}", "${input:key}"},
		{"X: ${A} ${input:key}", "${A}", "${input:key}"},
		{"X: $${A}", "${A}", ""},
		{"X: cost $5 {a} ${open", "", ""},
		{"X: ${}", "${}", "${}"},
	} {
		if got := placeholder(c.text); got != c.anywhere {
			t.Errorf("placeholder(%q) = %q, want %q", c.text, got, c.anywhere)
		}
		if got := placeholderInHeader(c.text); got != c.header {
			t.Errorf("placeholderInHeader(%q) = %q, want %q", c.text, got, c.header)
		}
	}
}
