package interop

//lint:file-ignore SA1019 what 2026-07-28 deprecates is what has to go on working for older hosts

import (
	"context"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goSDKHost is the official Go SDK's client.
type goSDKHost struct {
	session *mcp.ClientSession
	notices *notices
}

func startGoSDK(t *testing.T, up *upstream, version string) host {
	t.Helper()
	p := command(t, up)
	h := &goSDKHost{notices: newNotices()}
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, h.options())
	transport := &mcp.CommandTransport{Command: p.cmd, TerminateDuration: endLimit}
	session, err := client.Connect(limited(t), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect: %v\n%s", err, p.stderr)
	}
	t.Cleanup(func() {
		_ = session.Close()
		p.checkEnd(t)
	})
	h.session = session
	return h
}

func (h *goSDKHost) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			put(h.notices.progress, step{r.Params.Progress, r.Params.Total})
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			put(h.notices.logs, fmt.Sprint(r.Params.Data))
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			put(h.notices.changed, struct{}{})
		},
	}
}

func (h *goSDKHost) heard() *notices { return h.notices }

func (h *goSDKHost) version() string { return h.session.InitializeResult().ProtocolVersion }

func (h *goSDKHost) server() (name, instructions string) {
	r := h.session.InitializeResult()
	if r.ServerInfo == nil {
		return "", r.Instructions
	}
	return r.ServerInfo.Name, r.Instructions
}

func (h *goSDKHost) listTools(ctx context.Context) ([]string, error) {
	var names []string
	for tool, err := range h.session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

func (h *goSDKHost) call(ctx context.Context, tool string, args map[string]any) (result, error) {
	return h.send(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
}

func (h *goSDKHost) callWithProgress(ctx context.Context, tool string) (result, error) {
	p := &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}}
	p.SetProgressToken("token of the host")
	return h.send(ctx, p)
}

func (h *goSDKHost) send(ctx context.Context, p *mcp.CallToolParams) (result, error) {
	r, err := h.session.CallTool(ctx, p)
	if err != nil {
		return result{}, err
	}
	out := result{structured: r.StructuredContent, failed: r.IsError}
	for _, block := range r.Content {
		if text, ok := block.(*mcp.TextContent); ok {
			out.text += text.Text
		}
	}
	return out, nil
}

func (h *goSDKHost) resources(ctx context.Context) ([]string, error) {
	var out []string
	for r, err := range h.session.Resources(ctx, nil) {
		if err != nil {
			return nil, err
		}
		out = append(out, r.URI)
	}
	return out, nil
}

func (h *goSDKHost) templates(ctx context.Context) ([]string, error) {
	var out []string
	for r, err := range h.session.ResourceTemplates(ctx, nil) {
		if err != nil {
			return nil, err
		}
		out = append(out, r.URITemplate)
	}
	return out, nil
}

func (h *goSDKHost) read(ctx context.Context, uri string) (string, error) {
	r, err := h.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return "", err
	}
	if len(r.Contents) != 1 {
		return "", fmt.Errorf("%d contents", len(r.Contents))
	}
	return r.Contents[0].Text, nil
}

func (h *goSDKHost) prompts(ctx context.Context) ([]string, error) {
	var out []string
	for p, err := range h.session.Prompts(ctx, nil) {
		if err != nil {
			return nil, err
		}
		out = append(out, p.Name)
	}
	return out, nil
}

func (h *goSDKHost) prompt(ctx context.Context, name string, args map[string]string) (string, error) {
	r, err := h.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: args})
	if err != nil {
		return "", err
	}
	if len(r.Messages) != 1 {
		return "", fmt.Errorf("%d messages", len(r.Messages))
	}
	text, ok := r.Messages[0].Content.(*mcp.TextContent)
	if !ok {
		return "", fmt.Errorf("content is %T", r.Messages[0].Content)
	}
	return text.Text, nil
}

func (h *goSDKHost) complete(ctx context.Context, prompt, argument, begun string) ([]string, error) {
	r, err := h.session.Complete(ctx, &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: prompt},
		Argument: mcp.CompleteParamsArgument{Name: argument, Value: begun},
	})
	if err != nil {
		return nil, err
	}
	return r.Completion.Values, nil
}

func (h *goSDKHost) ping(ctx context.Context) error { return h.session.Ping(ctx, nil) }

// chat asks for logging by request in 2026-07-28, by method before.
func (h *goSDKHost) chat(ctx context.Context, wanted, level, text string) error {
	p := &mcp.CallToolParams{Name: "chat", Arguments: map[string]any{"level": level, "text": text}}
	if h.version() >= modern {
		p.Meta = mcp.Meta{mcp.MetaKeyLogLevel: wanted}
	} else if err := h.session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: mcp.LoggingLevel(wanted)}); err != nil {
		return err
	}
	_, err := h.send(ctx, p)
	return err
}
