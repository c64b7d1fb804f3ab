package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// mcpGoUpstream is a server that speaks every revision, sessions included.
func mcpGoUpstream(t *testing.T, flags ...string) *upstream {
	t.Helper()
	u := newUpstream()
	u.flags = flags
	s := server.NewMCPServer(serverName, "1",
		server.WithInstructions(instructions), server.WithPaginationLimit(2), server.WithLogging(), server.WithCompletions(),
		server.WithToolCapabilities(true), server.WithResourceCapabilities(true, true), server.WithPromptCapabilities(true),
		server.WithPromptCompletionProvider(mcpGoCompleter{}),
	)
	addMCPGoTools(s, u)
	addMCPGoResources(s)
	u.addTool = func(name string) { mcpGoTool(s, name, echoSchema, mcpGoEcho) }
	handler := server.NewStreamableHTTPServer(s, server.WithStateful(true))
	u.serve(t, handler)
	return u
}

func mcpGoTool(s *server.MCPServer, name, schema string, run server.ToolHandlerFunc) {
	tool := mcp.NewToolWithRawSchema(name, "", json.RawMessage(schema))
	tool.Annotations = mcp.ToolAnnotation{ReadOnlyHint: mcp.ToBoolPtr(true)}
	if name == "weather" {
		tool.RawOutputSchema = json.RawMessage(weatherSchema)
	}
	s.AddTool(tool, run)
}

func addMCPGoTools(s *server.MCPServer, u *upstream) {
	mcpGoTool(s, "echo", echoSchema, mcpGoEcho)
	mcpGoTool(s, "walk", emptySchema, mcpGoWalk(u))
	mcpGoTool(s, "chat", chatSchema, mcpGoChat(u))
	mcpGoTool(s, "fail", emptySchema, func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultError("it failed"), nil
	})
	mcpGoTool(s, "weather", emptySchema, func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultStructured(json.RawMessage(structuredText), structuredText), nil
	})
	mcpGoTool(s, "wait", emptySchema, func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, u.wait(ctx)
	})
}

func mcpGoEcho(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(r.GetString("text", "")), nil
}

func mcpGoWalk(u *upstream) server.ToolHandlerFunc {
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		err := u.walk(ctx, func(step int) error {
			return server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": r.Params.Meta.ProgressToken, "progress": step, "total": progressSteps, "message": fmt.Sprintf("step %d", step),
			})
		})
		return mcp.NewToolResultText("walked"), err
	}
}

func mcpGoChat(u *upstream) server.ToolHandlerFunc {
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text := r.GetString("text", "")
		note := mcp.NewLoggingMessageNotification(mcp.LoggingLevel(r.GetString("level", "info")), "", text)
		err := server.ServerFromContext(ctx).SendLogMessageToClient(ctx, note)
		return mcp.NewToolResultText("said " + text), errors.Join(err, u.said(ctx, text))
	}
}

func addMCPGoResources(s *server.MCPServer) {
	s.AddResource(mcp.NewResource(readmeURI, "readme"), mcpGoRead(func(string) string { return readmeText }))
	s.AddResourceTemplate(mcp.NewResourceTemplate(noteTemplate, "note"), server.ResourceTemplateHandlerFunc(mcpGoRead(func(uri string) string {
		return "note " + strings.TrimPrefix(uri, "test://notes/")
	})))
	s.AddPrompt(mcp.NewPrompt("greet", mcp.WithArgument("name", mcp.RequiredArgument()), mcp.WithArgument("style")),
		func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			text := mcp.NewTextContent("Greet " + r.Params.Arguments["name"] + ".")
			return mcp.NewGetPromptResult("", []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, text)}), nil
		})
}

func mcpGoRead(text func(uri string) string) server.ResourceHandlerFunc {
	return func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		uri := r.Params.URI
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: "text/plain", Text: text(uri)}}, nil
	}
}

type mcpGoCompleter struct{}

func (mcpGoCompleter) CompletePromptArgument(_ context.Context, _ string, a mcp.CompleteArgument, _ mcp.CompleteContext) (*mcp.Completion, error) {
	return &mcp.Completion{Values: completions(a.Value)}, nil
}
