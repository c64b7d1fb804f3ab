package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/auth"
)

func TestLogLevels(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]string{
		slog.LevelDebug: "debug info warn error", slog.LevelInfo: "info warn error",
		slog.LevelWarn: "warn error", slog.LevelError: "error",
	} {
		var stderr bytes.Buffer
		log, closer := newLogger(logOptions{level: level, json: true}, &stderr, false)
		logAll(log)
		if err := closer.Close(); err != nil {
			t.Error(err)
		}
		if got := messages(t, stderr.String()); got != want {
			t.Errorf("level %v: %q, want %q", level, got, want)
		}
	}
}

func logAll(log *slog.Logger) {
	log.Debug("debug")
	log.Info("info")
	log.Warn("warn")
	log.Error("error")
}

// messages returns the msg of each JSON line.
func messages(t *testing.T, lines string) string {
	t.Helper()
	var all []string
	for line := range strings.Lines(lines) {
		var record struct{ Msg string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, record.Msg)
	}
	return strings.Join(all, " ")
}

func TestLogText(t *testing.T) {
	t.Parallel()
	for _, colour := range []bool{true, false} {
		var stderr bytes.Buffer
		log, _ := newLogger(defaultOptions().log, &stderr, colour)
		log.Warn("careful", "token", auth.NewSecret("hunter2"))
		got := stderr.String()
		if strings.Contains(got, "\x1b[") != colour {
			t.Errorf("colour %v: %q", colour, got)
		}
		if !strings.Contains(got, "careful") || strings.Contains(got, "hunter2") {
			t.Errorf("line %q", got)
		}
	}
}

// The file gets info and above even where standard error gets less; it and its
// directory are made at the first record, for the user alone.
func TestLogFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "logs")
	path := filepath.Join(dir, "mcpbridge.log")
	var stderr bytes.Buffer
	log, closer := newLogger(logOptions{level: slog.LevelError, json: true, file: path}, &stderr, false)
	log.Debug("debug")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("made before the first record: %v", err)
	}
	logAll(log)
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := messages(t, string(text)); got != "info warn error" {
		t.Errorf("file: %q", got)
	}
	if got := messages(t, stderr.String()); got != "error" {
		t.Errorf("standard error: %q", got)
	}
	if runtime.GOOS == "windows" {
		return // modes mean little there
	}
	for name, want := range map[string]os.FileMode{path: 0o600, dir: 0o700, filepath.Dir(dir): 0o700} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

// A log file that cannot be written is named once, on standard error.
func TestLogFileRefused(t *testing.T) {
	t.Parallel()
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	log, closer := newLogger(logOptions{level: slog.LevelError, file: filepath.Join(blocked, "x.log")}, &stderr, false)
	log.Info("one")
	log.Info("two")
	_ = closer.Close()
	if got := strings.Count(stderr.String(), "log file"); got != 1 {
		t.Errorf("named %d times: %q", got, stderr.String())
	}
}
