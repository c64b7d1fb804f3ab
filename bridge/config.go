package bridge

import (
	"log/slog"
	"net/url"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/retry"
)

// An EraChoice is what --protocol says of the upstream.
type EraChoice string

const (
	EraAuto   EraChoice = "auto"
	EraModern EraChoice = "modern"
	EraLegacy EraChoice = "legacy"
)

// A TransportChoice is what --transport says of the upstream.
type TransportChoice string

const (
	TransportAuto TransportChoice = "auto"
	TransportHTTP TransportChoice = "http" // Streamable HTTP
	TransportSSE  TransportChoice = "sse"  // HTTP+SSE (2024-11-05)
)

// A CancelChoice is what --on-cancel says of notifications/cancelled.
type CancelChoice string

const (
	CancelAuto    CancelChoice = "auto"    // a read is cancelled upstream, anything else goes on
	CancelForward CancelChoice = "forward" // everything is cancelled upstream
)

// A ToolConfig is what config.toml says of the tools that match a glob.
// Zero fields leave the server's own setting.
type ToolConfig struct {
	Glob         string
	AnswerWithin time.Duration
	OnCancel     CancelChoice
}

// Config is everything that a Bridge is told. Defaults fills in what is zero.
type Config struct {
	URL    *url.URL // the upstream's endpoint, http or https
	Server string   // its name in texts: that of config.toml, --server-id, else host and path

	// Broken, if set, is why this configuration cannot work, for a person to
	// read, with its cure. The bridge then serves that explanation only.
	Broken error

	Version   string // of this program
	Principal string // --principal; "" for the account of the credentials

	Protocol  EraChoice
	Transport TransportChoice

	// The network.
	Headers    []auth.Header
	Proxy      string // "": environment, "direct", or a URL
	CACert     string // file names
	ClientCert string
	ClientKey  string
	NoCookies  bool

	// Limits, in bytes.
	MaxMessage    int64 // one message of either side
	HostLineLimit int64 // one line to the host, exclusive
	MaxMemory     int64 // all bodies held at once

	// Deadlines.
	ConnectTimeout time.Duration
	AnswerWithin   time.Duration // 0: auto, by the host's name
	IdleTimeout    time.Duration // 0: off
	JobTimeout     time.Duration
	Drain          time.Duration
	DeadlineHeader string // header that tells upstream the time left, in milliseconds; "" for none

	// Policy.
	Retries            int          // further deliveries of one exchange at most; -1: none
	Classes            []retry.Rule // --read, --write and classes of config.toml, first match wins
	DistrustAnnotation bool         // trust_annotations = false
	IgnoreTools        []string     // globs
	OnlyTools          []string     // globs
	OnCancel           CancelChoice
	Tools              []ToolConfig // first match wins

	StateDir string // "" keeps nothing on disk
	Log      *slog.Logger
}

// Defaults of Config, as the design names them.
const (
	DefaultMaxMessage     = 64 << 20
	DefaultHostLineLimit  = 10 << 20
	DefaultMaxMemory      = 256 << 20
	DefaultConnectTimeout = 10 * time.Second
	DefaultJobTimeout     = time.Hour
	DefaultDrain          = 1500 * time.Millisecond
	DefaultRetries        = 2
)

// withDefaults returns c with every zero field that has a default filled in.
func (c Config) withDefaults() Config {
	setDefault(&c.MaxMessage, DefaultMaxMessage)
	setDefault(&c.HostLineLimit, DefaultHostLineLimit)
	setDefault(&c.MaxMemory, DefaultMaxMemory)
	setDefault(&c.ConnectTimeout, DefaultConnectTimeout)
	setDefault(&c.JobTimeout, DefaultJobTimeout)
	setDefault(&c.Drain, DefaultDrain)
	setDefault(&c.Retries, DefaultRetries)
	setDefault(&c.Protocol, EraAuto)
	setDefault(&c.Transport, TransportAuto)
	setDefault(&c.OnCancel, CancelAuto)
	if c.Retries < 0 {
		c.Retries = 0
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Server == "" && c.URL != nil {
		c.Server = c.URL.Host + c.URL.Path
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
