package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mcpbridge/mcpbridge/bridge/stdio"
	"gopkg.in/natefinch/lumberjack.v2"
)

const (
	logFileMiB     = 10 // size at which the log file is rotated
	logFileBackups = 3  // rotated files that are kept
)

// newLogger returns a logger that writes to stderr and, if the options name
// one, to a file. Colour is for a person who watches.
func newLogger(o logOptions, stderr io.Writer, colour bool) (*slog.Logger, io.Closer) {
	screen := screenHandler(o, stderr, colour)
	if o.file == "" {
		return slog.New(screen), io.NopCloser(nil)
	}
	file := &logFile{
		Logger: lumberjack.Logger{Filename: o.file, MaxSize: logFileMiB, MaxBackups: logFileBackups},
		stderr: stderr,
	}
	return slog.New(slog.NewMultiHandler(screen, fileHandler(o, file))), file
}

func screenHandler(o logOptions, w io.Writer, colour bool) slog.Handler {
	if o.json {
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: o.level})
	}
	return tint.NewTextHandler(w, &tint.Options{Level: o.level, NoColor: !colour, TimeFormat: time.TimeOnly})
}

// fileHandler keeps info and above, and more where standard error gets more.
func fileHandler(o logOptions, w io.Writer) slog.Handler {
	opts := &slog.HandlerOptions{Level: min(o.level, slog.LevelInfo)}
	if o.json {
		return slog.NewJSONHandler(w, opts)
	}
	return slog.NewTextHandler(w, opts)
}

// A logFile is a rotated file of mode 0600. It, and the directories above it,
// are made at the first record. That it cannot be written is said once.
type logFile struct {
	lumberjack.Logger
	stderr io.Writer
	once   sync.Once
	warned sync.Once
}

func (f *logFile) Write(p []byte) (int, error) {
	var err error
	f.once.Do(func() { err = makePrivate(filepath.Dir(f.Filename)) })
	n := 0
	if err == nil {
		n, err = f.Logger.Write(p)
	}
	if err != nil {
		f.warned.Do(func() { fmt.Fprintf(f.stderr, "mcpbridge: log file: %v\n", err) })
	}
	return n, err
}

// stderrGrace is how long what was logged last may take to leave.
const stderrGrace = 200 * time.Millisecond

// A programLog is the logger of a bridge with all that ends with it.
type programLog struct {
	*slog.Logger
	file   io.Closer
	stderr *stdio.Stderr
	stop   context.CancelFunc
}

// openLog starts logging. Standard error never holds the bridge up, whether or
// not the host reads it.
func (p *program) openLog(o logOptions) programLog {
	stderr := stdio.NewStderr(p.stderr)
	ctx, stop := context.WithCancel(context.Background())
	go func() { _ = stderr.Run(ctx) }() // on Windows it may be parked in a write until the process ends
	logger, file := newLogger(o, stderr, isTerminal(p.stderr))
	log.SetFlags(0)
	log.SetOutput(libraryLog{logger})
	return programLog{Logger: logger, file: file, stderr: stderr, stop: stop}
}

// A libraryLog takes what net/http says by package log, which would go straight
// to standard error, wait there for a reader, and quote what a server sent. Its
// lines are records of level info that end before the first quotation.
type libraryLog struct{ to *slog.Logger }

func (l libraryLog) Write(p []byte) (int, error) {
	said, _, _ := bytes.Cut(bytes.TrimSpace(p), []byte(`"`))
	l.to.Info("net/http", "says", string(bytes.TrimSpace(said)))
	return len(p), nil
}

func (l programLog) close() {
	log.SetOutput(io.Discard)
	_ = l.file.Close()
	_ = l.stderr.Close(stderrGrace)
	l.stop()
}
