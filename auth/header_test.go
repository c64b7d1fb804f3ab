package auth

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func environment(name string) (string, bool) {
	v, ok := map[string]string{
		"TOKEN": "t-1", "EMPTY": "", "NL": "t-2\n", "INJECT": "a\r\nX: y", "DOLLAR": "${TOKEN}", "BEARER": "Bearer t-3",
	}[name]
	return v, ok
}

func TestParseHeader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, name, value string }{
		{"X-Api-Key: abc", "X-Api-Key", "abc"},
		{"x-api-key:abc", "X-Api-Key", "abc"},
		{"Authorization: Bearer ${TOKEN}", "Authorization", "Bearer t-1"},
		{"Authorization:Bearer ${NL}", "Authorization", "Bearer t-2"},
		{"X: a:b: c", "X", "a:b: c"},
		{"X: $$5 and $x and 3$", "X", "$5 and $x and 3$"},
		{"X: $${TOKEN}", "X", "${TOKEN}"},
		{"X: ${DOLLAR}", "X", "${TOKEN}"}, // what a variable holds is not expanded again
		{"X: ${EMPTY}y", "X", "y"},
		{"X: a\tb", "X", "a\tb"},
		{"Cookie: a=b", "Cookie", "a=b"},
	} {
		h, err := ParseHeader(c.in, environment)
		if err != nil {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		if h.Name != c.name || h.Value.Reveal() != c.value {
			t.Errorf("%q: got %q %q", c.in, h.Name, h.Value.Reveal())
		}
	}
}

func TestParseHeaderRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"nocolon-hush", "no colon"},
		{"Bearer hush", "no colon"},
		{": hush", "not a valid HTTP header name"},
		{"A B: hush", "not a valid HTTP header name"},
		{"Ä: hush", "not a valid HTTP header name"},
		{"Authorization:", "split arguments at spaces"},
		{"authorization: ", "split arguments at spaces"},
		{"X:", "value is empty"},
		{"X: ${EMPTY}", "value is empty"},
		{"X: ${UNSET}", `"UNSET" is not set`},
		{"X: ${", "no variable name"},
		{"X: ${A B}", "no variable name"},
		{"X: ${TOKEN", "no variable name"},
		{"X: Bearer {env:TOKEN}", "${TOKEN}"},
		{"X: a\nb", "line break"},
		{"X: a\x00b", "control character"},
		{"X: ${INJECT}", "line break"},
		{"X: hush" + strings.Repeat("a", maxHeader), "longer than"},
		{"Mcp-Session-Id: hush", "belongs to the protocol"},
		{"mcp-anything: hush", "belongs to the protocol"},
		{"accept: hush", "belongs to the protocol"},
		{"Content-Type: hush", "belongs to the protocol"},
		{"Content-Length: 3", "belongs to the protocol"},
		{"Host: hush", "belongs to the protocol"},
		{"idempotency-key: hush", "belongs to the protocol"},
		{"Transfer-Encoding: hush", "belongs to the protocol"},
		{"Last-Event-ID: hush", "belongs to the protocol"},
	} {
		h, err := ParseHeader(c.in, environment)
		if err == nil {
			t.Errorf("%q: accepted as %s", c.in, h.Name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %q lacks %q", c.in, err, c.want)
		}
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: the error shows the value: %v", c.in, err)
		}
	}
}

func TestBearerEnv(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"TOKEN": "Bearer t-1", "NL": "Bearer t-2", "BEARER": "Bearer t-3"} {
		h, err := BearerEnv(name, environment)
		if err != nil || h.Name != "Authorization" || h.Value.Reveal() != want {
			t.Errorf("%s: %q, %v", name, h.Value.Reveal(), err)
		}
	}
	for _, name := range []string{"UNSET", "EMPTY", "INJECT"} {
		if _, err := BearerEnv(name, environment); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestReadHeaderFile(t *testing.T) {
	t.Parallel()
	path := write(t, "\ufeff# comment\n\nAuthorization: Bearer x$y$$\r\n  X-Key:abc  \n# end", 0o600)
	headers, err := ReadHeaderFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := http.Header{}
	for _, h := range headers {
		h.SetOn(got)
	}
	if len(got) != 2 || got.Get("Authorization") != "Bearer x$y$$" || got.Get("X-Key") != "abc" {
		t.Errorf("got %v", got)
	}
}

func TestReadHeaderFileRefuses(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"line 2: header: no colon":       "A: hush\nhush",
		"line 1: header Accept":          "Accept: hush",
		"variables are not replaced":     "A: ${HUSH}",
		"write ${HUSH}":                  "A: {env:HUSH}",
		"larger than":                    strings.Repeat("# hush\n", maxHeaderFile/7+1),
		"line 1: header Authorization: ": "Authorization:",
	} {
		_, err := ReadHeaderFile(write(t, text, 0o600))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: got %v", want, err)
		}
	}
	if _, err := ReadHeaderFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := ReadHeaderFile(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("directory: %v", err)
	}
	if runtime.GOOS == "windows" {
		return // modes say nothing there
	}
	if _, err := ReadHeaderFile(write(t, "A: b", 0o640)); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("readable by group: %v", err)
	}
}

func TestReadSecretFile(t *testing.T) {
	t.Parallel()
	if s, err := ReadSecretFile(write(t, " pssst \r\n", 0o600)); err != nil || s.Reveal() != "pssst" {
		t.Errorf("%q %v", s.Reveal(), err)
	}
	if _, err := ReadSecretFile(write(t, "\n", 0o600)); err == nil {
		t.Error("an empty file was accepted")
	}
	if runtime.GOOS == "windows" {
		return // modes say nothing there
	}
	if _, err := ReadSecretFile(write(t, "hush", 0o644)); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("readable by others: %v", err)
	}
}

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}
