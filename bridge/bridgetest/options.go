package bridgetest

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"
)

// An Era says which revisions of MCP an upstream speaks.
type Era uint8

const (
	Both   Era = iota // legacy and modern at one endpoint
	Legacy            // 2025-03-26 to 2025-11-25 over Streamable HTTP
	Modern            // 2026-07-28
	SSE               // 2024-11-05: HTTP+SSE at /sse
)

// String returns the name that ParseEra takes.
func (e Era) String() string {
	switch e {
	case Both:
		return "both"
	case Legacy:
		return "legacy"
	case Modern:
		return "modern"
	case SSE:
		return "sse"
	}
	return fmt.Sprintf("era %d", uint8(e))
}

// ParseEra reads "both", "legacy", "modern" or "sse".
func ParseEra(s string) (Era, error) {
	for e := Both; e <= SSE; e++ {
		if e.String() == s {
			return e, nil
		}
	}
	return Both, fmt.Errorf("era %q is none of both, legacy, modern, sse", s)
}

// Options say how an Upstream behaves. The zero value is a dual-era server with
// the default tools, sessions, a GET stream and resumable streams.
type Options struct {
	Listen   string // address of the first replica; "" is 127.0.0.1:0
	Era      Era
	Replicas int         // listeners that share one state; 0 is 1
	Faults   []Fault     // as by SetFaults
	TLS      *tls.Config // nil: plain HTTP
	HTTP2    bool        // offer HTTP/2: by ALPN with TLS, else with prior knowledge

	Sessionless   bool     // legacy: give out and ask for no Mcp-Session-Id
	NoGETStream   bool     // legacy: answer 405 to GET
	NoEventIDs    bool     // legacy: events have no ids, streams cannot be resumed
	Priming       bool     // legacy: begin each stream with an event of an id and no data
	AlwaysStream  bool     // answer every request by an event stream
	LegacyOffered []string // legacy revisions, newest first; nil: all that the era has
	ModernOffered []string // modern revisions, newest first; nil: 2026-07-28

	Name         string        // server name; "" is "bridgetest"
	Instructions string        // "" is none
	PageSize     int           // tools of one page of tools/list; 0: all
	Tools        []Tool        // nil: DefaultTools
	Tasks        bool          // declare tasks, and add the tools task_write, task_only and task_ask
	TTL          time.Duration // freshness told to modern clients; 0 is 5 minutes
	Retry        time.Duration // legacy: told to clients at the beginning of each stream; 0: nothing
	Header       http.Header   // added to every response of an MCP endpoint, for example Set-Cookie
	KeepAlive    time.Duration // comment lines on idle streams; 0: none

	// Authorize, if set, is asked before any request to an MCP endpoint is
	// read. It returns false after it wrote the refusal itself.
	Authorize func(http.ResponseWriter, *http.Request) bool
	// Extra, if set, serves every path that the upstream does not know.
	Extra http.Handler
}

// modernVersion is the first, and so far the only, revision without a handshake.
const modernVersion = "2026-07-28"

func (o *Options) listen() string {
	if o.Listen == "" {
		return "127.0.0.1:0"
	}
	return o.Listen
}

func (o *Options) replicas() int { return max(o.Replicas, 1) }

func (o *Options) name() string {
	if o.Name == "" {
		return "bridgetest"
	}
	return o.Name
}

func (o *Options) ttl() time.Duration {
	if o.TTL == 0 {
		return 5 * time.Minute
	}
	return o.TTL
}

// legacyVersions returns the handshake revisions on offer, newest first.
func (o *Options) legacyVersions() []string {
	switch {
	case o.Era == Modern:
		return nil
	case o.LegacyOffered != nil:
		return o.LegacyOffered
	case o.Era == SSE:
		return []string{"2024-11-05"}
	}
	return []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
}

// modernVersions returns the stateless revisions on offer, newest first.
func (o *Options) modernVersions() []string {
	switch {
	case o.Era == Legacy || o.Era == SSE:
		return nil
	case o.ModernOffered != nil:
		return o.ModernOffered
	}
	return []string{modernVersion}
}
