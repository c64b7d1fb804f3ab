// Package interop proves that the loopback upstream is a server that real
// clients can talk to, in every era.
package interop

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	gomcp "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o bridgetest.Options) *bridgetest.Upstream {
	t.Helper()
	u, err := bridgetest.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// httpClient has connections of its own, gone at the end of the test.
func httpClient(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// An officialCase is a revision as the official SDK speaks it.
type officialCase struct {
	name    string
	era     bridgetest.Era
	ask     string
	want    string
	elicits bool
}

func officialCases() []officialCase {
	return []officialCase{
		{"modern on both", bridgetest.Both, "", "2026-07-28", true},
		{"modern on modern", bridgetest.Modern, "", "2026-07-28", true},
		{"falls back to legacy", bridgetest.Legacy, "", "2025-11-25", true},
		{"legacy on both", bridgetest.Both, "2025-11-25", "2025-11-25", true},
		{"2025-06-18", bridgetest.Legacy, "2025-06-18", "2025-06-18", true},
		{"2025-03-26", bridgetest.Legacy, "2025-03-26", "2025-03-26", false},
		{"HTTP+SSE", bridgetest.SSE, "2024-11-05", "2024-11-05", false},
	}
}

type official struct {
	*mcp.ClientSession
	progress chan float64
	changed  chan struct{}
	updated  chan string
}

func connectOfficial(t *testing.T, u *bridgetest.Upstream, c officialCase) *official {
	t.Helper()
	o := &official{progress: make(chan float64, 16), changed: make(chan struct{}, 16), updated: make(chan string, 16)}
	cl := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "octocat"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			o.progress <- r.Params.Progress
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { o.changed <- struct{}{} },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { o.updated <- r.Params.URI },
	})
	var tr mcp.Transport = &mcp.StreamableClientTransport{Endpoint: u.URL(), HTTPClient: httpClient(t)}
	if c.era == bridgetest.SSE {
		tr = &mcp.SSEClientTransport{Endpoint: u.URL(), HTTPClient: httpClient(t)}
	}
	cs, err := cl.Connect(testContext(t), tr, &mcp.ClientSessionOptions{ProtocolVersion: c.ask})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = cs.Close() })
	o.ClientSession = cs
	return o
}

func TestOfficialClient(t *testing.T) {
	t.Parallel()
	for _, c := range officialCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := start(t, bridgetest.Options{Era: c.era, PageSize: 5, Instructions: "be kind"})
			cs := connectOfficial(t, u, c)
			if got := cs.InitializeResult().ProtocolVersion; got != c.want {
				t.Fatalf("protocol version %q, want %q", got, c.want)
			}
			if got := cs.InitializeResult().Instructions; got != "be kind" {
				t.Errorf("instructions %q", got)
			}
			checkTools(t, cs, c.want)
			checkEffect(t, cs, u)
			checkProgress(t, cs)
			checkFeatures(t, cs)
			if c.elicits {
				checkQuestion(t, cs, u)
			}
			checkChange(t, cs, u)
		})
	}
}

func call(t *testing.T, cs *official, name string, args map[string]any) *mcp.CallToolResult {
	t.Helper()
	r, err := cs.CallTool(testContext(t), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("call %s: %v", name, err)
	}
	return r
}

func text(r *mcp.CallToolResult) string {
	if len(r.Content) == 0 {
		return ""
	}
	tc, _ := r.Content[0].(*mcp.TextContent)
	if tc == nil {
		return ""
	}
	return tc.Text
}

func checkTools(t *testing.T, cs *official, version string) {
	t.Helper()
	var names []string
	for tool, err := range cs.Tools(testContext(t), nil) {
		if err != nil {
			t.Fatalf("list tools: %v", err)
		}
		names = append(names, tool.Name)
	}
	if !slices.Contains(names, "echo") || !slices.Contains(names, "get_export") {
		t.Errorf("tools are %v", names)
	}
	if modern := version == "2026-07-28"; slices.Contains(names, "structured_array") != modern {
		t.Errorf("structured_array listed: %v, want %v", !modern, modern)
	}
	if slices.Contains(names, "bad_header") {
		t.Error("bad_header survived the client's check")
	}
	if got := text(call(t, cs, "echo", map[string]any{"text": "hällo"})); got != "hällo" {
		t.Errorf("echo returned %q", got)
	}
	r := call(t, cs, "region_query", map[string]any{"region": "zürich", "options": map[string]any{"limit": 3, "deep": true}})
	if r.IsError {
		t.Errorf("region_query failed: %s", text(r))
	}
}

func checkEffect(t *testing.T, cs *official, u *bridgetest.Upstream) {
	t.Helper()
	call(t, cs, "write_note", map[string]any{"key": "k1"})
	if n := u.Ledger().EffectsOf("write_note", "k1"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	if n := u.Ledger().Deliveries("write_note"); n != 1 {
		t.Errorf("%d deliveries, want 1", n)
	}
	if r := call(t, cs, "fail_write", map[string]any{"key": "k2"}); !r.IsError {
		t.Error("fail_write did not fail")
	}
}

func checkProgress(t *testing.T, cs *official) {
	t.Helper()
	p := &mcp.CallToolParams{Name: "stream", Arguments: map[string]any{"n": 2}}
	p.SetProgressToken("tok")
	if _, err := cs.CallTool(testContext(t), p); err != nil {
		t.Fatalf("stream: %v", err)
	}
	for want := 1.0; want <= 2; want++ {
		select {
		case got := <-cs.progress:
			if got != want {
				t.Errorf("progress %v, want %v", got, want)
			}
		case <-testContext(t).Done():
			t.Fatalf("progress %v did not come", want)
		}
	}
}

func checkFeatures(t *testing.T, cs *official) {
	t.Helper()
	ctx := testContext(t)
	r, err := cs.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://static/readme"})
	if err != nil || r.Contents[0].Text == "" {
		t.Errorf("read resource: %v, %v", r, err)
	}
	p, err := cs.GetPrompt(ctx, &mcp.GetPromptParams{Name: "greet", Arguments: map[string]string{"name": "Ada"}})
	if err != nil || len(p.Messages) != 1 {
		t.Errorf("get prompt: %v, %v", p, err)
	}
	if _, err := cs.ListResourceTemplates(ctx, nil); err != nil {
		t.Errorf("list templates: %v", err)
	}
	c, err := cs.Complete(ctx, &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "greet"},
		Argument: mcp.CompleteParamsArgument{Name: "style", Value: "f"},
	})
	if err != nil || len(c.Completion.Values) != 3 {
		t.Errorf("complete: %v, %v", c, err)
	}
}

func checkQuestion(t *testing.T, cs *official, u *bridgetest.Upstream) {
	t.Helper()
	r := call(t, cs, "ask", map[string]any{"key": "q", "rounds": 2, "effect": true})
	if r.IsError {
		t.Errorf("ask failed: %s", text(r))
	}
	if n := u.Ledger().EffectsOf("ask", "q"); n != 1 {
		t.Errorf("%d effects of ask, want 1", n)
	}
}

func checkChange(t *testing.T, cs *official, u *bridgetest.Upstream) {
	t.Helper()
	ctx := testContext(t)
	if err := cs.Subscribe(ctx, &mcp.SubscribeParams{URI: "test://items/alpha"}); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := u.WaitListeners(ctx, 1); err != nil {
		t.Fatal(err)
	}
	u.SetItem("alpha", "new")
	select {
	case uri := <-cs.updated:
		if uri != "test://items/alpha" {
			t.Errorf("updated %q", uri)
		}
	case <-ctx.Done():
		t.Fatal("resources/updated did not come")
	}
}

// TestMCPGo: the other Go client, which probes on its own.
func TestMCPGo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		era  bridgetest.Era
		want string
	}{
		{"both", bridgetest.Both, "2026-07-28"},
		{"modern", bridgetest.Modern, "2026-07-28"},
		{"legacy", bridgetest.Legacy, "2025-11-25"},
		{"HTTP+SSE", bridgetest.SSE, "2024-11-05"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := start(t, bridgetest.Options{Era: c.era})
			cl, err := client.NewStreamableHttpClient(u.URL())
			if c.era == bridgetest.SSE {
				cl, err = client.NewSSEMCPClient(u.URL())
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cl.Close(); http.DefaultClient.CloseIdleConnections() })
			ctx := testContext(t)
			if err := cl.Start(ctx); err != nil {
				t.Fatalf("start: %v", err)
			}
			var init gomcp.InitializeRequest
			init.Params.ClientInfo = gomcp.Implementation{Name: "interop", Version: "1"}
			r, err := cl.Initialize(ctx, init)
			if err != nil {
				t.Fatalf("initialize: %v", err)
			}
			if r.ProtocolVersion != c.want {
				t.Errorf("protocol version %q, want %q", r.ProtocolVersion, c.want)
			}
			checkMCPGo(ctx, t, cl, u)
		})
	}
}

func checkMCPGo(ctx context.Context, t *testing.T, cl *client.Client, u *bridgetest.Upstream) {
	t.Helper()
	tools, err := cl.ListTools(ctx, gomcp.ListToolsRequest{})
	if err != nil || len(tools.Tools) < 20 {
		t.Fatalf("list tools: %d, %v", len(tools.Tools), err)
	}
	var req gomcp.CallToolRequest
	req.Params.Name = "write_note"
	req.Params.Arguments = map[string]any{"key": "k"}
	res, err := cl.CallTool(ctx, req)
	if err != nil || res.IsError {
		t.Fatalf("call: %v, %v", res, err)
	}
	if n := u.Ledger().EffectsOf("write_note", "k"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}
