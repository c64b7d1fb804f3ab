package main

import (
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1": 1, "1048576": 1 << 20, "64KiB": 64 << 10, "64 MiB": 64 << 20, "1GiB": 1 << 30,
		"8589934591GiB": 8589934591 << 30,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "64MB", "64mib", "1.5MiB", "MiB", "0x10", "1e6", "8589934592GiB", "99999999999999999999"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %d; want an error", text, got)
		}
	}
}

func TestParseDurations(t *testing.T) {
	t.Parallel()
	if d, err := parseDuration("1m30s"); err != nil || d != 90*time.Second {
		t.Errorf("parseDuration(1m30s) = %v, %v", d, err)
	}
	if d, err := parseDuration("0"); err != nil || d != 0 {
		t.Errorf("parseDuration(0) = %v, %v", d, err)
	}
	for _, text := range []string{"", "45", "-1s", "1 s", "auto"} {
		if d, err := parseDuration(text); err == nil {
			t.Errorf("parseDuration(%q) = %v; want an error", text, d)
		}
	}
	if d, err := parseSpan("0s"); err == nil {
		t.Errorf("parseSpan(0s) = %v; want an error", d)
	}
}
