package stdio

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A long line makes its pipe hold more; short ones leave it as the host made it.
func TestLongLineWidensPipe(t *testing.T) {
	t.Parallel()
	_, w := newPipe(t)
	holds := func() int {
		n, err := unix.FcntlInt(w.Fd(), unix.F_GETPIPE_SZ, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	s := newSink(w)
	before := holds()
	if n, err := s.write(bytes.Repeat([]byte("x"), before/2)); err != nil || n != before/2 || holds() != before {
		t.Fatalf("%d bytes written of %d, and the pipe holds %d: %v", n, before/2, holds(), err)
	}
	n, err := s.write(bytes.Repeat([]byte("x"), widePipe+1))
	if err != nil {
		t.Fatal(err)
	}
	if holds() != widePipe {
		t.Skipf("this user may not have a pipe of %d bytes (os.Getuid %d)", widePipe, os.Getuid())
	}
	if n < widePipe/2 {
		t.Errorf("%d bytes fit into a pipe of %d", n, widePipe)
	}
}
