package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// modern is the first revision without a handshake.
	modern = "2026-07-28"
	// patience is how long one step of a test may take on a busy machine.
	patience = 10 * time.Second
	// pause is how long the upstream waits between two changes of its tools.
	pause = 250 * time.Millisecond
)

// limited returns a context for one step of a test.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// TestPairs: every host with every upstream, through every feature.
func TestPairs(t *testing.T) {
	t.Parallel()
	for _, front := range hostCases() {
		for _, back := range upstreamCases() {
			t.Run(front.name+" to "+back.name, func(t *testing.T) {
				t.Parallel()
				up := back.start(t)
				h := front.start(t, up, front.version)
				for _, f := range features() {
					t.Run(f.name, func(t *testing.T) { f.check(t, h, up) })
				}
				if got := h.version(); got != front.version {
					t.Errorf("protocol version %q, want %q", got, front.version)
				}
			})
		}
	}
}

type feature struct {
	name  string
	check func(*testing.T, host, *upstream)
}

// features are checked in this order: the last one changes the list of tools.
func features() []feature {
	return []feature{
		{"server", checkServer},
		{"ping", checkPing},
		{"tools", checkTools},
		{"call", checkCall},
		{"progress", checkProgress},
		{"error of a tool", checkFailure},
		{"structured content", checkStructured},
		{"unknown tool", checkUnknownTool},
		{"resources", checkResources},
		{"templates", checkTemplates},
		{"prompts", checkPrompts},
		{"completion", checkCompletion},
		{"logging", checkLogging},
		{"cancellation", checkCancel},
		{"list changed", checkChange},
	}
}

func checkServer(t *testing.T, h host, _ *upstream) {
	name, text := h.server()
	if name != serverName || !strings.HasPrefix(text, instructions) {
		t.Errorf("server %q with instructions %q, want %q with %q", name, text, serverName, instructions)
	}
}

func checkPing(t *testing.T, h host, _ *upstream) {
	if err := h.ping(limited(t)); err != nil {
		t.Error(err)
	}
}

func checkTools(t *testing.T, h host, _ *upstream) {
	names, err := h.listTools(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range tools() {
		if !slices.Contains(names, want) {
			t.Errorf("tool %q is not among %q", want, names)
		}
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			t.Errorf("tool %q is listed twice", name)
		}
	}
}

func checkCall(t *testing.T, h host, _ *upstream) {
	const text = "hällo \u2028 \U0001F600"
	r, err := h.call(limited(t), "echo", map[string]any{"text": text})
	if err != nil {
		t.Fatal(err)
	}
	if r.text != text || r.failed {
		t.Errorf("echo returned %+v, want text %q", r, text)
	}
}

// checkProgress: each step arrives before the tool takes the next one, so that
// what is kept until the end would never arrive.
func checkProgress(t *testing.T, h host, up *upstream) {
	ctx := limited(t)
	type answer struct {
		result
		err error
	}
	done := make(chan answer, 1)
	go func() {
		r, err := h.callWithProgress(ctx, "walk")
		done <- answer{r, err}
	}()
	for i := range progressSteps {
		want := step{float64(i + 1), progressSteps}
		select {
		case got := <-h.heard().progress:
			if got != want {
				t.Errorf("progress %v, want %v", got, want)
			}
			up.proceed <- struct{}{}
		case a := <-done:
			t.Fatalf("walk returned %+v, %v before progress %v", a.result, a.err, want)
		case <-ctx.Done():
			t.Fatalf("progress %v did not come", want)
		}
	}
	if a := <-done; a.err != nil || a.failed || a.text != "walked" {
		t.Fatalf("walk returned %+v, %v", a.result, a.err)
	}
}

func checkFailure(t *testing.T, h host, _ *upstream) {
	r, err := h.call(limited(t), "fail", map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.failed || r.text != "it failed" {
		t.Errorf("fail returned %+v", r)
	}
}

func checkStructured(t *testing.T, h host, _ *upstream) {
	r, err := h.call(limited(t), "weather", map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(r.structured) // sorted by key
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != structuredText {
		t.Errorf("structured content %s, want %s", got, structuredText)
	}
}

// checkUnknownTool: servers say it as an error of the protocol or of the tool;
// either way the host has to be told by the server, and not by a silence.
func checkUnknownTool(t *testing.T, h host, _ *upstream) {
	r, err := h.call(limited(t), "no_such_tool", map[string]any{})
	if err == nil && !r.failed {
		t.Errorf("no_such_tool returned %+v", r)
	}
	if said := fmt.Sprint(r.text, err); !strings.Contains(said, "no_such_tool") {
		t.Errorf("the answer does not name the tool: %s", said)
	}
}

func checkResources(t *testing.T, h host, _ *upstream) {
	uris, err := h.resources(limited(t))
	if err != nil || !slices.Contains(uris, readmeURI) {
		t.Errorf("resources are %q, %v", uris, err)
	}
	text, err := h.read(limited(t), readmeURI)
	if err != nil || text != readmeText {
		t.Errorf("%s is %q, %v, want %q", readmeURI, text, err, readmeText)
	}
	if _, err := h.read(limited(t), "test://nowhere"); err == nil {
		t.Error("a resource that does not exist was read")
	}
}

func checkTemplates(t *testing.T, h host, _ *upstream) {
	all, err := h.templates(limited(t))
	if err != nil || !slices.Equal(all, []string{noteTemplate}) {
		t.Errorf("templates are %q, %v", all, err)
	}
	text, err := h.read(limited(t), noteURI)
	if err != nil || text != noteText {
		t.Errorf("%s is %q, %v, want %q", noteURI, text, err, noteText)
	}
}

func checkPrompts(t *testing.T, h host, _ *upstream) {
	names, err := h.prompts(limited(t))
	if err != nil || !slices.Contains(names, "greet") {
		t.Errorf("prompts are %q, %v", names, err)
	}
	text, err := h.prompt(limited(t), "greet", map[string]string{"name": "Ada"})
	if err != nil || text != "Greet Ada." {
		t.Errorf("greet says %q, %v", text, err)
	}
}

func checkCompletion(t *testing.T, h host, _ *upstream) {
	values, err := h.complete(limited(t), "greet", "style", "f")
	if err != nil || !slices.Equal(values, styles()) {
		t.Errorf("completions are %q, %v, want %q", values, err, styles())
	}
	values, err = h.complete(limited(t), "greet", "style", "fu")
	if err != nil || !slices.Equal(values, []string{"funny"}) {
		t.Errorf("completions are %q, %v, want funny alone", values, err)
	}
}

// checkLogging: what is below the level does not come, what is at it does. The
// first would have come before the second.
func checkLogging(t *testing.T, h host, up *upstream) {
	ctx := limited(t)
	if err := h.chat(ctx, "warning", "info", quiet); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- h.chat(ctx, "warning", "warning", loud) }()
	select {
	case got := <-h.heard().logs:
		if got != loud {
			t.Errorf("message %q came, want %q", got, loud)
		}
	case err := <-done:
		t.Fatalf("chat returned %v before its message came", err)
	case <-ctx.Done():
		t.Fatal("no message came")
	}
	up.proceed <- struct{}{}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// checkCancel: a call that its host gives up ends at the server too.
func checkCancel(t *testing.T, h host, up *upstream) {
	limit := limited(t)
	ctx, cancel := context.WithCancel(limit)
	done := make(chan error, 1)
	go func() {
		_, err := h.call(ctx, "wait", map[string]any{})
		done <- err
	}()
	select {
	case <-up.started:
	case err := <-done:
		t.Fatalf("wait returned %v before it was cancelled", err)
	case <-limit.Done():
		t.Fatal("wait did not begin")
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a cancelled call returned a result")
	}
	select {
	case <-up.cancelled:
	case <-limit.Done():
		t.Fatal("the server was not told")
	}
}

// checkChange: the upstream gets new tools until the host hears of one; a
// server of others does not tell when it has begun to listen to us.
func checkChange(t *testing.T, h host, up *upstream) {
	ctx := limited(t)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for n := 1; ; n++ {
		up.addTool(fmt.Sprintf("late_%d", n))
		select {
		case <-h.heard().changed:
			awaitTool(ctx, t, h, "late_1")
			return
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("list_changed did not come")
		}
	}
}

// awaitTool lists again at every change until the tool is there.
func awaitTool(ctx context.Context, t *testing.T, h host, name string) {
	t.Helper()
	for {
		names, err := h.listTools(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(names, name) {
			return
		}
		select {
		case <-h.heard().changed:
		case <-ctx.Done():
			t.Fatalf("tool %q is not among %q", name, names)
		}
	}
}
