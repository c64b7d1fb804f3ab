//go:build unix

package stdio

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A pipeMaker makes what a host gives its server as stdout. The writing end is
// in blocking mode, like that of a real host.
type pipeMaker struct {
	name string
	make func(t *testing.T) (r, w *os.File)
}

var pipeMakers = []pipeMaker{{"pipe", newPipe}, {"socket", newSocket}}

func newPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	setBlocking(t, w)
	if err := r.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	closeLater(t, r, w)
	return r, w
}

func newSocket(t *testing.T) (r, w *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	if err := unix.SetNonblock(fds[0], true); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(fds[0]), "host"), os.NewFile(uintptr(fds[1]), "stdout")
	if err := r.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	closeLater(t, r, w)
	return r, w
}

func closeLater(t *testing.T, files ...*os.File) {
	t.Cleanup(func() {
		for _, f := range files {
			f.Close()
		}
	})
}

func control(t *testing.T, f *os.File, do func(fd int)) {
	t.Helper()
	conn, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Control(func(fd uintptr) { do(int(fd)) }); err != nil {
		t.Fatal(err)
	}
}

func setBlocking(t *testing.T, f *os.File) {
	t.Helper()
	control(t, f, func(fd int) {
		if err := unix.SetNonblock(fd, false); err != nil {
			t.Error(err)
		}
	})
}

// eachPipe runs a test for every kind of stdout.
func eachPipe(t *testing.T, test func(t *testing.T, r, w *os.File)) {
	t.Helper()
	t.Parallel()
	for _, m := range pipeMakers {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			r, w := m.make(t)
			test(t, r, w)
		})
	}
}

// fill writes one answer larger than any pipe and returns it; a part of it is
// in the pipe.
func fill(t *testing.T, w *Writer) []byte {
	t.Helper()
	big := bytes.Repeat([]byte("b"), 1<<20)
	if err := w.Answer(t.Context(), nil, big); err != nil {
		t.Fatal(err)
	}
	if _, yes := w.Blocked(); !yes {
		t.Fatal("the pipe took 1 MiB")
	}
	return big
}

// run starts w.Run and returns a function that ends it and wants it to return
// soon.
func run(t *testing.T, w interface{ Run(context.Context) error }) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	var err error
	stopped := false
	stop = func() error {
		if !stopped {
			stopped = true
			cancel()
			err = receive(t, ended)
		}
		return err
	}
	t.Cleanup(func() { stop() })
	return stop
}

func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Second):
		t.Error("nothing came in 10 s")
	}
	return v
}

// eventually waits for a condition that no channel tells.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(10 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not in 10 s: %s", what)
		}
	}
}

func readLine(t *testing.T, in *bufio.Reader) string {
	t.Helper()
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return line[:len(line)-1]
}

// readAll returns what comes until the writing end is closed.
func readAll(r io.Reader) <-chan []byte {
	c := make(chan []byte, 1)
	go func() {
		var b bytes.Buffer
		b.Grow(1 << 20)
		_, _ = b.ReadFrom(r)
		c <- b.Bytes()
	}()
	return c
}
