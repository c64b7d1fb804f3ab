package auth

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const sample = "s3cr3t-value"

// Every way of printing that Go offers, on the secret and on what holds it.
func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	type holder struct {
		Open   Secret
		hidden Secret
		list   []Secret
		byName map[string]Secret
		head   Header
	}
	s := NewSecret(sample)
	values := []any{s, &s, []Secret{s}, map[string]Secret{"a": s}, Header{Name: "X", Value: s},
		holder{s, s, []Secret{s}, map[string]Secret{"a": s}, Header{Name: "X", Value: s}},
		&holder{Open: s, hidden: s}}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T %v"} {
			args := []any{v}
			if strings.HasPrefix(verb, "%T") {
				args = []any{v, v}
			}
			checkHidden(t, verb, fmt.Sprintf(verb, args...))
		}
		if b, err := json.Marshal(v); err == nil {
			checkHidden(t, "json", string(b))
		}
		if b, err := xml.Marshal(v); err == nil {
			checkHidden(t, "xml", string(b))
		}
		for _, h := range []func(*bytes.Buffer) slog.Handler{
			func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
			func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		} {
			var out bytes.Buffer
			slog.New(h(&out)).Info("x", "v", v)
			checkHidden(t, "slog", out.String())
		}
	}
	if got := fmt.Sprint(s); got != "[redacted]" {
		t.Errorf("Sprint = %q", got)
	}
	checkHidden(t, "error", fmt.Errorf("a %w and %v", errors.New("b"), s).Error())
	if s.Reveal() != sample {
		t.Errorf("Reveal = %q", s.Reveal())
	}
}

// fmt prints hexadecimal digits with %x: those are the secret as well.
func checkHidden(t *testing.T, how, out string) {
	t.Helper()
	hex := fmt.Sprintf("%x", sample)
	if strings.Contains(out, sample) || strings.Contains(strings.ToLower(out), hex) {
		t.Errorf("%s shows the secret: %s", how, out)
	}
}

func TestZeroSecret(t *testing.T) {
	t.Parallel()
	var s Secret
	if !s.IsZero() || s.Reveal() != "" || !NewSecret("").IsZero() {
		t.Error("the zero secret is not empty")
	}
}
