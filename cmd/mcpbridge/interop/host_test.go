package interop

import (
	"context"
	"testing"
)

// backlog bounds the notifications that a host of a test keeps unread.
const backlog = 64

// A host is a client of others in front of the program. Its methods are the
// client's own, in words that all clients share.
type host interface {
	version() string
	server() (name, instructions string)
	listTools(context.Context) ([]string, error)
	call(ctx context.Context, tool string, args map[string]any) (result, error)
	callWithProgress(ctx context.Context, tool string) (result, error)
	resources(context.Context) ([]string, error)
	templates(context.Context) ([]string, error)
	read(ctx context.Context, uri string) (string, error)
	prompts(context.Context) ([]string, error)
	prompt(ctx context.Context, name string, args map[string]string) (string, error)
	complete(ctx context.Context, prompt, argument, begun string) ([]string, error)
	ping(context.Context) error
	// chat calls the tool chat at a level of logging.
	chat(ctx context.Context, wanted, level, text string) error
	heard() *notices
}

// A result is what a host was told about a tool's call.
type result struct {
	text       string
	structured any
	failed     bool
}

// A step is one notifications/progress.
type step struct{ done, total float64 }

// The notices of a host, in the order in which they came.
type notices struct {
	progress chan step
	logs     chan string
	changed  chan struct{}
}

func newNotices() *notices {
	return &notices{make(chan step, backlog), make(chan string, backlog), make(chan struct{}, backlog)}
}

// put keeps v unless the host has long stopped reading.
func put[T any](c chan T, v T) {
	select {
	case c <- v:
	default:
	}
}

// A hostCase is one client at one revision.
type hostCase struct {
	name    string
	version string
	start   func(t *testing.T, up *upstream, version string) host
}

func hostCases() []hostCase {
	return []hostCase{
		{"go-sdk modern", "2026-07-28", startGoSDK},
		{"go-sdk 2025-11-25", "2025-11-25", startGoSDK},
		{"go-sdk 2025-06-18", "2025-06-18", startGoSDK},
		{"mcp-go modern", "2026-07-28", startMCPGo},
		{"mcp-go 2025-11-25", "2025-11-25", startMCPGo},
		{"mcp-go 2025-03-26", "2025-03-26", startMCPGo},
	}
}
