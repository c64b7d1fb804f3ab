package interop

//lint:file-ignore SA1019 what 2026-07-28 deprecates is what has to go on working for older hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goSDKRefusing is a server with sessions that refuses the stateless revisions
// by the error for versions.
func goSDKRefusing(t *testing.T) *upstream {
	t.Helper()
	legacy := []string{"2025-11-25", "2025-06-18", "2025-03-26"}
	return goSDKUpstream(t, &mcp.ServerOptions{SupportedProtocolVersions: legacy}, &mcp.StreamableHTTPOptions{})
}

// goSDKSessions is one that answers server/discover with legacy versions only.
func goSDKSessions(t *testing.T) *upstream {
	t.Helper()
	return goSDKUpstream(t, &mcp.ServerOptions{}, &mcp.StreamableHTTPOptions{})
}

func goSDKStateless(t *testing.T) *upstream {
	t.Helper()
	return goSDKUpstream(t, &mcp.ServerOptions{}, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
}

func goSDKUpstream(t *testing.T, o *mcp.ServerOptions, transport *mcp.StreamableHTTPOptions) *upstream {
	t.Helper()
	u := newUpstream()
	o.Instructions = instructions
	o.PageSize = 2
	o.CompletionHandler = goSDKComplete
	s := mcp.NewServer(&mcp.Implementation{Name: serverName, Version: "1"}, o)
	addGoSDKTools(s, u)
	addGoSDKResources(s)
	u.addTool = func(name string) { goSDKTool(s, name, echoSchema, goSDKEcho) }
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, transport)
	u.serve(t, handler)
	t.Cleanup(func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
	})
	return u
}

func goSDKTool(s *mcp.Server, name, schema string, run mcp.ToolHandler) {
	s.AddTool(&mcp.Tool{
		Name: name, InputSchema: json.RawMessage(schema), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, run)
}

func goSDKText(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func addGoSDKTools(s *mcp.Server, u *upstream) {
	goSDKTool(s, "echo", echoSchema, goSDKEcho)
	goSDKTool(s, "walk", emptySchema, goSDKWalk(u))
	goSDKTool(s, "chat", chatSchema, goSDKChat(u))
	goSDKTool(s, "fail", emptySchema, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r := goSDKText("it failed")
		r.IsError = true
		return r, nil
	})
	goSDKTool(s, "wait", emptySchema, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, u.wait(ctx)
	})
	s.AddTool(&mcp.Tool{
		Name: "weather", InputSchema: json.RawMessage(emptySchema), OutputSchema: json.RawMessage(weatherSchema),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r := goSDKText(structuredText)
		r.StructuredContent = json.RawMessage(structuredText)
		return r, nil
	})
}

func goSDKEcho(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var a struct{ Text string }
	if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
		return nil, err
	}
	return goSDKText(a.Text), nil
}

func goSDKWalk(u *upstream) mcp.ToolHandler {
	return func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		err := u.walk(ctx, func(step int) error {
			return r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(step), Total: progressSteps, Message: fmt.Sprintf("step %d", step),
			})
		})
		return goSDKText("walked"), err
	}
}

func goSDKChat(u *upstream) mcp.ToolHandler {
	return func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var a struct{ Level, Text string }
		if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
			return nil, err
		}
		err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: mcp.LoggingLevel(a.Level), Data: a.Text})
		return goSDKText("said " + a.Text), errors.Join(err, u.said(ctx, a.Text))
	}
}

func addGoSDKResources(s *mcp.Server) {
	s.AddResource(&mcp.Resource{URI: readmeURI, Name: "readme"}, goSDKRead(func(string) string { return readmeText }))
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: noteTemplate, Name: "note"}, goSDKRead(func(uri string) string {
		return "note " + strings.TrimPrefix(uri, "test://notes/")
	}))
	s.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "name", Required: true}, {Name: "style"}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			text := &mcp.TextContent{Text: "Greet " + r.Params.Arguments["name"] + "."}
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: text}}}, nil
		})
}

func goSDKRead(text func(uri string) string) mcp.ResourceHandler {
	return func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		uri := r.Params.URI
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: text(uri)}}}, nil
	}
}

func goSDKComplete(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: completions(r.Params.Argument.Value)}}, nil
}

func completions(begun string) []string {
	values := []string{}
	for _, s := range styles() {
		if strings.HasPrefix(s, begun) {
			values = append(values, s)
		}
	}
	return values
}
