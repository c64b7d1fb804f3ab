package bridge

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	mark3labs "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// Servers of HTTP+SSE that others have written.
func TestHTTPSSEOfOthers(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) string{"go-sdk": goSDKOverSSE, "mcp-go": mcpGoOverSSE} {
		for _, version := range []string{rev2024_11_05, rev2025_11_25, rev2026_07_28} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				r := &sseRig{t: t}
				r.ctx, r.host = startSSEBridge(t, sseTestConfig{URL: start(t)}, bridgetest.HostOptions{})
				r.start(version)
				list, err := r.host.Call(r.ctx, "tools/list", "{}")
				if err != nil || !strings.Contains(string(list.Result), `"greet"`) {
					t.Fatalf("tools/list: %s, %v", list.Raw, err)
				}
				for _, who := range []string{"Ada", "Grace"} {
					r.says("greet", `{"who":"`+who+`"}`, "hello "+who, false)
				}
				if _, err := r.host.Call(r.ctx, "ping", "{}"); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func goSDKOverSSE(t *testing.T) string {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "other", Version: "1"}, nil)
	type input struct {
		Who string `json:"who"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "greet"}, func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello " + in.Who}}}, nil, nil
	})
	return servedOverSSE(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil), "/")
}

func mcpGoOverSSE(t *testing.T) string {
	t.Helper()
	s := server.NewMCPServer("other", "1")
	s.AddTool(mark3labs.NewTool("greet", mark3labs.WithString("who")), func(_ context.Context, r mark3labs.CallToolRequest) (*mark3labs.CallToolResult, error) {
		return mark3labs.NewToolResultText("hello " + r.GetString("who", "nobody")), nil
	})
	return servedOverSSE(t, server.NewSSEServer(s), "/sse")
}

func servedOverSSE(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL + path
}
