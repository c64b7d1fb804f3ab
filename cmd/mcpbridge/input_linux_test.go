package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// hostPipe is a pipe whose reading end is in the mode that hosts leave it in.
func hostPipe(t *testing.T) (fd int, host *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	fd = int(r.Fd())
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	return fd, w
}

// A worker's input gives what the host wrote and tells of its end; it changes
// nothing about the pipe, which others hold as well.
func TestInput(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"read that does not wait": false, "poll and read": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fd, host := hostPipe(t)
			ended := 0
			in, err := newReadyInput(fd, func() { ended++ })
			if err != nil {
				t.Fatal(err)
			}
			defer in.stop()
			in.plain = plain
			b := make([]byte, 16)
			wrote := make(chan error, 1)
			for _, line := range []string{"one\n", "two\n"} {
				go func() { _, err := host.WriteString(line); wrote <- err }()
				if n, err := in.Read(b); err != nil || string(b[:n]) != line {
					t.Fatalf("%q, %v", b[:n], err)
				}
				if err := <-wrote; err != nil {
					t.Fatal(err)
				}
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
				t.Errorf("the host's pipe has the flags %#x, %v", flags, err)
			}
			if in.plain != plain {
				t.Error("this system reads pipes without waiting, and that was not used")
			}
			go host.Close()
			if n, err := in.Read(b); err != io.EOF || ended != 1 {
				t.Errorf("%d bytes, %v, ended %d times", n, err, ended)
			}
		})
	}
}

// Stopping ends a read that waits, and every later one, though the host is there.
func TestInputStops(t *testing.T) {
	t.Parallel()
	fd, host := hostPipe(t)
	in, err := newInput(fd, func() { t.Error("the host is said to have ended its output") })
	if err != nil {
		t.Fatal(err)
	}
	go in.stop()
	for range 2 {
		if n, err := in.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	if _, err := host.WriteString("late"); err != nil {
		t.Error(err)
	}
}

// What cannot be watched is read all the same.
func TestInputIsAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	in, err := newInput(int(f.Fd()), func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer in.stop()
	if text, err := io.ReadAll(in); err != nil || string(text) != "{}\n" {
		t.Errorf("%q, %v", text, err)
	}
}
