package auth

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
)

func TestSplitCommand(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		`gcloud auth print-access-token`:  {"gcloud", "auth", "print-access-token"},
		"  a\t b\n":                       {"a", "b"},
		`a 'b c' "d e"`:                   {"a", "b c", "d e"},
		`a 'it"s' "it's"`:                 {"a", `it"s`, "it's"},
		`a "say \"hi\"" \"x`:              {"a", `say "hi"`, `"x`},
		`C:\bin\tool.exe \\srv\share`:     {`C:\bin\tool.exe`, `\\srv\share`},
		`"C:\Program Files\x.exe" 'a\"b'`: {`C:\Program Files\x.exe`, `a\"b`},
		`a '' ""`:                         {"a", "", ""},
		`a$HOME *.go ; rm -rf x | y && z`: {"a$HOME", "*.go", ";", "rm", "-rf", "x", "|", "y", "&&", "z"},
		`pre"mid dle"post`:                {"premid dlepost"},
		`a $(touch x) ` + "`id`":          {"a", "$(touch", "x)", "`id`"},
	} {
		got, err := splitCommand(in)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "  ", `''`, `a "b`, `a 'b`, "a\x00b", `a "b\"`} {
		if c, err := ParseCommand(in); err == nil {
			t.Errorf("%q: accepted as %q", in, c.argv)
		}
	}
}

func TestCommandOutput(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		out, token string
		expiry     time.Time
	}{
		{"tok\n", "tok", time.Time{}},
		{"Bearer tok\r\n", "tok", time.Time{}},
		{`{"access_token":"tok","expires_in":60}`, "tok", now.Add(time.Minute)},
		{`{"token":"tok","expires_in":"60"}`, "tok", now.Add(time.Minute)},
		{`{"token":"tok","expiresAt":"2030-01-01T01:00:00Z"}`, "tok", now.Add(time.Hour)},
		{`{"token":"tok","expires_at":1893459600}`, "tok", now.Add(time.Hour)},
		{`{"token":"tok","expires_in":null,"more":{"a":[1]}}`, "tok", time.Time{}},
	} {
		got, err := parseCommandOutput([]byte(c.out), now)
		if err != nil || got.value.Reveal() != c.token || !got.expiry.Equal(c.expiry) {
			t.Errorf("%s: %q %v %v", c.out, got.value.Reveal(), got.expiry, err)
		}
	}
	for _, out := range []string{
		"", "\n", "two words-hush", "a\nhush", `{"x":"hush"}`, `{"token":7}`, `{"token":""}`, `{"token":"hush"`, `{"token":"hu sh"}`,
		`{"token":"hush","expiresAt":"soon"}`, `{"token":"hush","expires_in":[]}`, `{"token":"hush","token":"hush"}`, `["hush"]` + " x",
		strings.Repeat("a", maxHeader+1),
	} {
		got, err := parseCommandOutput([]byte(out), now)
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%.40s: %q, %v", out, got.value.Reveal(), err)
		}
	}
}

func TestCommandFailures(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Command{
		"run it by hand":      {argv: []string{os.Args[0], "helper", "fail"}},
		"executable file":     {argv: []string{"no-such-program"}},
		"more than":           {argv: []string{os.Args[0], "helper", "flood"}},
		"its output is empty": {argv: []string{os.Args[0], "helper", "print"}},
		"the token holds":     {argv: []string{os.Args[0], "helper", "print", "a", "hush"}},
	} {
		_, err := c.run(context.Background())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestTokenCommand(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	file := filepath.Join(t.TempDir(), "count")
	command, err := ParseCommand(fmt.Sprintf("'%s' helper counter '%s'", os.Args[0], file))
	if err != nil {
		t.Fatal(err)
	}
	c := b.bridge(func(c *Config) { c.Command, c.OAuth = &command, nil })
	token := func() string {
		req, err := http.NewRequest(http.MethodGet, b.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Apply(b.context(), req); err != nil {
			t.Fatal(err)
		}
		return req.Header.Get("Authorization")
	}
	if one, two := token(), token(); one != "Bearer token-1" || two != one {
		t.Errorf("%q, then %q", one, two)
	}
	_, use, h := b.send(c, "")
	if d := c.Challenge(b.context(), use, 401, h); d.Action != Again {
		t.Errorf("%v", d)
	}
	if d := c.Challenge(b.context(), use, 401, h); d.Action != Again || token() != "Bearer token-2" {
		t.Errorf("the refusal of an old token ran the command again: %v, %q", d, token())
	}
	if d := c.Challenge(b.context(), use, 403, h); d.Action != Stop {
		t.Errorf("%v", d)
	}
}

// The command is run again before the end that it named, unasked by any refusal.
func TestTokenCommandBeforeTheEnd(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	file := filepath.Join(t.TempDir(), "count")
	c := b.bridge(func(c *Config) {
		c.Command, c.OAuth = &Command{argv: []string{os.Args[0], "helper", "counter", file, "2"}}, nil
	})
	ctx, tick := b.context(), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for first := true; ; first = false {
		req, err := http.NewRequest(http.MethodGet, b.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Apply(ctx, req); err != nil {
			t.Fatal(err)
		}
		token := req.Header.Get("Authorization")
		if first && token != "Bearer token-1" {
			t.Fatalf("first %q", token)
		}
		if token == "Bearer token-2" {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it is still %q", token)
		}
	}
}

func TestTokenCommandWithTheSameToken(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	c := b.bridge(func(c *Config) {
		c.Command, c.OAuth = &Command{argv: []string{os.Args[0], "helper", "print", "tok"}}, nil
	})
	_, d, err := b.call(c, "")
	if d.Action != Stop || !strings.Contains(d.Why, "same one") || err != nil {
		t.Errorf("%v %v", d, err)
	}
	if id := principal(t, c); !strings.HasPrefix(id, "command-") {
		t.Errorf("principal %q", id)
	}
}
