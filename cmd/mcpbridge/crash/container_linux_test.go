package crash

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// In a container whose first process is the program, or its parent, a worker
// would die with the container: one process serves and says so, and whoever
// kills it leaves an unknown outcome.
func TestContainer(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("unshare", "--pid", "--fork", "true").CombinedOutput(); err != nil {
		t.Skipf("no process namespaces here: %v %s", err, out)
	}
	for _, c := range []struct {
		name string
		in   []string
	}{
		{"first process", []string{"unshare", "--pid", "--fork", "--kill-child"}},
		{"child of the first process", []string{"unshare", "--pid", "--fork", "--kill-child", "sh", "-c", `"$@"; true`, "sh"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newCalls(t)
			l := w.startHost(bridgetest.HostOptions{Command: append(c.in, w.command()...), Dir: w.home})
			if a := l.call("mcpbridge_job", "{}"); !strings.Contains(a.text, "linger: off (") {
				t.Errorf("a worker in a container: %s", a.text)
			}
			_, open := l.hold("before", "add_entry", "one")
			kill(t, l.host.PID()) // and with it everything in the container
			if _, err := l.host.Wait(w.ctx); err != nil {
				t.Fatal(err)
			}
			next := w.alone()
			h := next.call("add_entry", `{"key":"one"}`).must(t, unknown).handle
			open()
			w.ledger(func(v *bridgetest.View) bool { return v.Effects("add_entry") == 1 })
			next.resolve(h, "happened", "it is there").must(t, settled)
			w.once("add_entry")
		})
	}
}
