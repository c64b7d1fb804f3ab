package interop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// What every upstream offers, whoever wrote it.
const (
	serverName   = "interop upstream"
	instructions = "be kind"

	readmeURI    = "test://static/readme"
	readmeText   = "this text never changes"
	noteTemplate = "test://notes/{name}"
	noteURI      = "test://notes/today"
	noteText     = "note today"

	readOnly       = `{"readOnlyHint":true}`
	echoSchema     = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`
	chatSchema     = `{"type":"object","properties":{"level":{"type":"string"},"text":{"type":"string"}}}`
	emptySchema    = `{"type":"object"}`
	weatherSchema  = `{"type":"object","properties":{"city":{"type":"string"},"celsius":{"type":"number"}},"required":["city","celsius"]}`
	progressSteps  = 2
	quiet, loud    = "quiet", "loud" // what chat says below and at the level
	structuredText = `{"celsius":21.5,"city":"Bern"}`
)

// tools are the names of the tools of every upstream:
// echo returns its text, walk reports progress in two steps, fail fails,
// weather has structured content, chat sends a log message, wait works until
// it is cancelled.
func tools() []string { return []string{"echo", "walk", "fail", "weather", "chat", "wait"} }

func styles() []string { return []string{"formal", "friendly", "funny"} }

// An upstream is one server of a pair.
type upstream struct {
	url     string
	flags   []string          // for the program
	addTool func(name string) // the server then says that its list has changed

	proceed   chan struct{} // the test has seen what was sent
	started   chan struct{} // wait has begun
	cancelled chan struct{} // wait was told to stop
	closing   chan struct{} // the test is over
}

func newUpstream() *upstream {
	return &upstream{
		proceed: make(chan struct{}), started: make(chan struct{}, 1),
		cancelled: make(chan struct{}, 1), closing: make(chan struct{}),
	}
}

// walk is the tool of that name: it goes on after each step when the test has
// seen that step.
func (u *upstream) walk(ctx context.Context, report func(step int) error) error {
	for i := range progressSteps {
		if err := report(i + 1); err != nil {
			return err
		}
		if err := u.hold(ctx); err != nil {
			return err
		}
	}
	return nil
}

// said ends the tool chat: a loud message has to be seen first.
func (u *upstream) said(ctx context.Context, text string) error {
	if text != loud {
		return nil
	}
	return u.hold(ctx)
}

// hold waits until the test has seen what was sent. Some servers lose what a
// tool sends just before it ends.
func (u *upstream) hold(ctx context.Context) error {
	select {
	case <-u.proceed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-u.closing:
		return errors.New("the test is over")
	}
}

// wait is the tool of that name.
func (u *upstream) wait(ctx context.Context) error {
	put(u.started, struct{}{})
	select {
	case <-ctx.Done():
		put(u.cancelled, struct{}{})
	case <-u.closing:
	}
	return errors.New("stopped waiting")
}

// An upstreamCase is one way to start an upstream.
type upstreamCase struct {
	name  string
	start func(*testing.T) *upstream
}

func upstreamCases() []upstreamCase {
	return []upstreamCase{
		{"bridgetest legacy", func(t *testing.T) *upstream { return loopback(t, bridgetest.Legacy) }},
		{"bridgetest modern", func(t *testing.T) *upstream { return loopback(t, bridgetest.Modern) }},
		{"go-sdk refusing modern", goSDKRefusing},
		{"go-sdk sessions", goSDKSessions},
		{"go-sdk stateless", goSDKStateless},
		{"mcp-go as probed", func(t *testing.T) *upstream { return mcpGoUpstream(t) }},
		{"mcp-go legacy", func(t *testing.T) *upstream { return mcpGoUpstream(t, "--protocol", "legacy") }},
	}
}

// loopback starts our own upstream.
func loopback(t *testing.T, era bridgetest.Era) *upstream {
	t.Helper()
	u := newUpstream()
	up, err := bridgetest.Start(bridgetest.Options{
		Era: era, Name: serverName, Instructions: instructions, PageSize: 2, Tools: loopbackTools(u),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(u.closing)
		up.Close()
	})
	u.url = up.URL()
	u.addTool = func(name string) { up.AddTool(bridgetest.Tool{Name: name, Run: runEcho}) }
	return u
}

func loopbackTools(u *upstream) []bridgetest.Tool {
	marks := []byte(readOnly)
	return []bridgetest.Tool{
		{Name: "echo", Annotations: marks, InputSchema: []byte(echoSchema), Run: runEcho},
		{Name: "walk", Annotations: marks, InputSchema: []byte(emptySchema), Run: func(c *bridgetest.Call) (any, error) {
			err := u.walk(c.Context(), func(step int) error {
				c.Progress(step, progressSteps, fmt.Sprintf("step %d", step))
				return nil
			})
			return bridgetest.Text("walked"), err
		}},
		{Name: "fail", Annotations: marks, InputSchema: []byte(emptySchema), Run: func(*bridgetest.Call) (any, error) {
			return bridgetest.Failure("it failed"), nil
		}},
		{Name: "weather", Annotations: marks, InputSchema: []byte(emptySchema), Output: []byte(weatherSchema), Run: runWeather},
		{Name: "chat", Annotations: marks, InputSchema: []byte(chatSchema), Run: runChat(u)},
		{Name: "wait", Annotations: marks, InputSchema: []byte(emptySchema), Run: func(c *bridgetest.Call) (any, error) {
			return nil, u.wait(c.Context())
		}},
	}
}

func runEcho(c *bridgetest.Call) (any, error) {
	var a struct{ Text string }
	if err := c.Bind(&a); err != nil {
		return nil, err
	}
	return bridgetest.Text(a.Text), nil
}

func runWeather(*bridgetest.Call) (any, error) {
	return bridgetest.Structured(map[string]any{"city": "Bern", "celsius": 21.5}), nil
}

func runChat(u *upstream) func(*bridgetest.Call) (any, error) {
	return func(c *bridgetest.Call) (any, error) {
		var a struct{ Level, Text string }
		if err := c.Bind(&a); err != nil {
			return nil, err
		}
		c.Log(a.Level, a.Text)
		return bridgetest.Text("said " + a.Text), u.said(c.Context(), a.Text)
	}
}

// serve starts a server of others, and closes what that leaves open.
func (u *upstream) serve(t *testing.T, h http.Handler) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		close(u.closing)
		s.CloseClientConnections()
		s.Close()
	})
	u.url = s.URL
}
