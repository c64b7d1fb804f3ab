package interop

//lint:file-ignore SA1019 what 2026-07-28 deprecates is what has to go on working for older hosts

import (
	"context"
	"fmt"
	"os/exec"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// mcpGoHost is the client of mcp-go.
type mcpGoHost struct {
	client  *client.Client
	init    *mcp.InitializeResult
	notices *notices
	listens chan struct{} // a listen was acknowledged
}

func startMCPGo(t *testing.T, up *upstream, version string) host {
	t.Helper()
	p := command(t, up)
	stdio := transport.NewStdioWithOptions(p.cmd.Path, nil, nil, transport.WithCommandFunc(
		func(context.Context, string, []string, []string) (*exec.Cmd, error) { return p.cmd, nil }))
	h := &mcpGoHost{notices: newNotices(), listens: make(chan struct{}, backlog)}
	h.client = client.NewClient(stdio, client.WithProtocolVersion(version))
	h.client.OnNotification(h.note)
	if err := h.client.Start(t.Context()); err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		_ = h.client.Close()
		p.checkEnd(t)
	})
	if err := h.connect(t, version); err != nil {
		t.Fatalf("connect: %v\n%s", err, p.stderr)
	}
	return h
}

// connect initializes, and listens where notices come to listeners only.
func (h *mcpGoHost) connect(t *testing.T, version string) (err error) {
	var request mcp.InitializeRequest
	request.Params.ClientInfo = mcp.Implementation{Name: "interop", Version: "1"}
	if h.init, err = h.client.Initialize(limited(t), request); err != nil || version < modern {
		return err
	}
	failed := make(chan error, 1)
	stop, err := h.client.ListenAsync(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true}, func(err error) { failed <- err })
	if err != nil {
		return err
	}
	t.Cleanup(stop)
	select {
	case <-h.listens:
		return nil
	case err := <-failed:
		return fmt.Errorf("listen: %w", err)
	case <-limited(t).Done():
		return fmt.Errorf("listen: not acknowledged")
	}
}

func (h *mcpGoHost) note(n mcp.JSONRPCNotification) {
	fields := n.Params.AdditionalFields
	switch n.Method {
	case "notifications/progress":
		done, _ := fields["progress"].(float64)
		total, _ := fields["total"].(float64)
		put(h.notices.progress, step{done, total})
	case "notifications/message":
		put(h.notices.logs, fmt.Sprint(fields["data"]))
	case "notifications/tools/list_changed":
		put(h.notices.changed, struct{}{})
	case mcp.MethodNotificationSubscriptionsAcknowledged:
		put(h.listens, struct{}{})
	}
}

func (h *mcpGoHost) heard() *notices { return h.notices }

func (h *mcpGoHost) version() string { return h.init.ProtocolVersion }

func (h *mcpGoHost) server() (name, instructions string) {
	return h.init.ServerInfo.Name, h.init.Instructions
}

func (h *mcpGoHost) listTools(ctx context.Context) ([]string, error) {
	r, err := h.client.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, tool := range r.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

func (h *mcpGoHost) call(ctx context.Context, tool string, args map[string]any) (result, error) {
	return h.send(ctx, mcp.CallToolParams{Name: tool, Arguments: args})
}

func (h *mcpGoHost) callWithProgress(ctx context.Context, tool string) (result, error) {
	return h.send(ctx, mcp.CallToolParams{
		Name: tool, Arguments: map[string]any{}, Meta: &mcp.Meta{ProgressToken: "token of the host"},
	})
}

func (h *mcpGoHost) send(ctx context.Context, p mcp.CallToolParams) (result, error) {
	r, err := h.client.CallTool(ctx, mcp.CallToolRequest{Params: p})
	if err != nil {
		return result{}, err
	}
	out := result{structured: r.StructuredContent, failed: r.IsError}
	for _, block := range r.Content {
		if text, ok := block.(mcp.TextContent); ok {
			out.text += text.Text
		}
	}
	return out, nil
}

func (h *mcpGoHost) resources(ctx context.Context) ([]string, error) {
	r, err := h.client.ListResources(ctx, mcp.ListResourcesRequest{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, one := range r.Resources {
		out = append(out, one.URI)
	}
	return out, nil
}

func (h *mcpGoHost) templates(ctx context.Context) ([]string, error) {
	r, err := h.client.ListResourceTemplates(ctx, mcp.ListResourceTemplatesRequest{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, one := range r.ResourceTemplates {
		out = append(out, one.URITemplate.Raw())
	}
	return out, nil
}

func (h *mcpGoHost) read(ctx context.Context, uri string) (string, error) {
	var request mcp.ReadResourceRequest
	request.Params.URI = uri
	r, err := h.client.ReadResource(ctx, request)
	if err != nil {
		return "", err
	}
	if len(r.Contents) != 1 {
		return "", fmt.Errorf("%d contents", len(r.Contents))
	}
	text, ok := r.Contents[0].(mcp.TextResourceContents)
	if !ok {
		return "", fmt.Errorf("content is %T", r.Contents[0])
	}
	return text.Text, nil
}

func (h *mcpGoHost) prompts(ctx context.Context) ([]string, error) {
	r, err := h.client.ListPrompts(ctx, mcp.ListPromptsRequest{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, one := range r.Prompts {
		out = append(out, one.Name)
	}
	return out, nil
}

func (h *mcpGoHost) prompt(ctx context.Context, name string, args map[string]string) (string, error) {
	var request mcp.GetPromptRequest
	request.Params.Name, request.Params.Arguments = name, args
	r, err := h.client.GetPrompt(ctx, request)
	if err != nil {
		return "", err
	}
	if len(r.Messages) != 1 {
		return "", fmt.Errorf("%d messages", len(r.Messages))
	}
	text, ok := r.Messages[0].Content.(mcp.TextContent)
	if !ok {
		return "", fmt.Errorf("content is %T", r.Messages[0].Content)
	}
	return text.Text, nil
}

func (h *mcpGoHost) complete(ctx context.Context, prompt, argument, begun string) ([]string, error) {
	var request mcp.CompleteRequest
	request.Params.Ref = mcp.PromptReference{Type: "ref/prompt", Name: prompt}
	request.Params.Argument = mcp.CompleteArgument{Name: argument, Value: begun}
	r, err := h.client.Complete(ctx, request)
	if err != nil {
		return nil, err
	}
	return r.Completion.Values, nil
}

func (h *mcpGoHost) ping(ctx context.Context) error { return h.client.Ping(ctx) }

func (h *mcpGoHost) chat(ctx context.Context, wanted, level, text string) error {
	var request mcp.SetLevelRequest
	request.Params.Level = mcp.LoggingLevel(wanted)
	if err := h.client.SetLevel(ctx, request); err != nil {
		return err
	}
	_, err := h.call(ctx, "chat", map[string]any{"level": level, "text": text})
	return err
}
