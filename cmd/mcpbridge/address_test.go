package main

import (
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://example.com/mcp":       "https://example.com/mcp",
		"HTTPS://example.com/mcp":       "https://example.com/mcp",
		"http://[::1]:8080/mcp?a=b#top": "http://[::1]:8080/mcp?a=b",
		" https://example.com ":         "https://example.com",
	} {
		u, wrong := parseAddress(text)
		if wrong != "" || u.String() != want {
			t.Errorf("parseAddress(%q) = %v, %q; want %s", text, u, wrong, want)
		}
	}
	for text, want := range map[string]string{
		"example.com/mcp":             "no scheme",
		"localhost:8080/mcp":          "no scheme",
		"127.0.0.1:8080/mcp":          "no scheme",
		"mailto:someone":              "no scheme",
		"ws://example.com/mcp":        "ws",
		"file:///etc/passwd":          "file",
		"https:///mcp":                "no host",
		"https://:8080/mcp":           "no host",
		"https://user:hunter2@a/mcp":  "user name or password",
		"https://a/%zz?key=hunter2":   "cannot be read",
		"http://a:hunter2/mcp":        "cannot be read",
		"https://a b/mcp?key=hunter2": "cannot be read",
	} {
		u, wrong := parseAddress(text)
		if !strings.Contains(wrong, want) {
			t.Errorf("parseAddress(%q) = %v, %q; want %q in it", text, u, wrong, want)
		}
		if strings.Contains(wrong, "hunter2") {
			t.Errorf("parseAddress(%q) repeats a secret: %q", text, wrong)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST": true, "localhost.": true, "127.0.0.1": true, "127.9.9.9": true,
		"::1": true, "::ffff:127.0.0.1": true,
		"10.0.0.5": false, "0.0.0.0": false, "::": false, "service.internal": false,
		"localhost.example.com": false, "127.0.0.1.example.com": false,
	} {
		if got := isLoopback(host); got != want {
			t.Errorf("isLoopback(%q) = %v", host, got)
		}
	}
}
