package eras

//lint:file-ignore SA1019 roots and sampling are on their way out, and hosts use them

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// The official Go SDK as host and as server where questions are asked.

func sdkHost(t *testing.T, url, version string, updates chan<- string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{RootsV2: &mcp.RootCapabilities{ListChanged: true}, Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if r.Params.Mode == "url" {
				return &mcp.ElicitResult{Action: "accept"}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "sampled"}}, nil
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			select {
			case updates <- r.Params.URI:
			default:
			}
		},
	})
	client.AddRoots(&mcp.Root{URI: "file:///here", Name: "here"})
	cmd := exec.Command(program(), "--state-dir="+t.TempDir(), "--server-id=crm", "--linger=0", url)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
	ctx, cancel := context.WithTimeout(t.Context(), stepMax)
	defer cancel()
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: stepMax}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func sdkCall(t *testing.T, s *mcp.ClientSession, tool string, arguments any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepMax)
	defer cancel()
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSDKHostIsAsked(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{{v2511, bridgetest.Legacy}, {v2511, bridgetest.Modern}, {v2506, bridgetest.Modern}, {modern, bridgetest.Legacy}, {modern, bridgetest.Modern}} {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t, bridgetest.Options{Era: p.era})
			updates := make(chan string, 1)
			s := sdkHost(t, up.URL(), p.version, updates)
			if got := s.InitializeResult().ProtocolVersion; got != p.version {
				t.Fatalf("protocol version %s, want %s", got, p.version)
			}
			for kind, answer := range map[string]string{"elicitation": "Ada", "sampling": "sampled", "roots": "file:///here", "url": "accept"} {
				if kind == "url" && p.version < v2511 {
					continue
				}
				got := sdkCall(t, s, "ask", map[string]any{"kind": kind, "key": kind, "rounds": 2})
				want(t, kind, got, answer)
			}
		})
	}
}

// TestSDKServerAsks: its tool asks a modern host of these tests.
func TestSDKServerAsks(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			form, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "m", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
			roots, err2 := r.Session.ListRoots(ctx, nil)
			sample, err3 := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1})
			b, err4 := json.Marshal([]any{form, roots, sample})
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(b)}}}, errors.Join(err, err2, err3, err4)
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	s := httptest.NewServer(handler)
	t.Cleanup(func() {
		for session := range server.Sessions() {
			_ = session.Close()
		}
		s.CloseClientConnections()
		s.Close()
	})
	for _, v := range []string{v2511, v2506, modern} {
		r := start(t, nil, rigOptions{version: v, url: s.URL})
		got := r.through("tools/call", bridgetest.ToolParams("ask", "{}"))
		want(t, v, string(got.Raw), "Ada", "file:///here", "sampled")
		if len(r.questions()) != 3 {
			t.Errorf("%s: asked %v", v, r.questions())
		}
	}
}

// TestSDKHostSubscribes: in its own way, at servers of either era.
func TestSDKHostSubscribes(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{{v2511, bridgetest.Legacy}, {v2511, bridgetest.Modern}} {
		up := startUpstream(t, bridgetest.Options{Era: p.era})
		updates := make(chan string, 1)
		s := sdkHost(t, up.URL(), p.version, updates)
		sdkCall(t, s, "now", map[string]any{})
		if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://items/a"}); err != nil {
			t.Fatal(err)
		}
		heard := false
		for range 100 {
			up.SetItem("a", "1")
			select {
			case uri := <-updates:
				heard = strings.HasSuffix(uri, "/a")
			case <-time.After(stepMax / 100):
			}
			if heard {
				break
			}
		}
		if !heard {
			t.Errorf("%s: no update", p)
		}
	}
}
