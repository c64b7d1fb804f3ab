package bridge

import (
	"log/slog"
	"net/url"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/jobs"
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

// A SignInChoice is what --sign-in-on says of the requests that have a person sign
// in.
type SignInChoice string

const (
	SignInOnCall SignInChoice = "call" // calls of tools; "" too
	SignInOnList SignInChoice = "list" // the host's first tools/list as well
)

// A JournalChoice is what --journal says of calls that cannot be journaled.
type JournalChoice string

const (
	JournalAuto     JournalChoice = ""         // required for tools annotated or configured as writes, else try
	JournalRequired JournalChoice = "required" // such a call is not sent
	JournalTry      JournalChoice = "try"      // it is sent, and says so
	JournalOff      JournalChoice = "off"      // nothing is journaled
)

// A JobTools is what --job-tools says: which tools of the bridge are listed.
type JobTools string

const (
	JobToolsTwo  JobTools = "two" // mcpbridge_job, mcpbridge_job_resolve
	JobToolsAll  JobTools = "all" // and mcpbridge_jobs, mcpbridge_job_cancel, mcpbridge_status
	JobToolsNone JobTools = "none"
)

// A ToolConfig is what config.toml says of the tools that match a glob.
// Zero fields leave the server's own setting.
type ToolConfig struct {
	Glob           string
	AnswerWithin   time.Duration
	OnCancel       CancelChoice
	IdempotencyKey string          // JSON pointer into the arguments: the bridge puts a key there
	Store          *jobs.StoreMode // nil: the server's
	Guard          jobs.Guard
	Resolve        string // "model": a model may send a destructive call again
	Status         *StatusConfig
}

// A StatusConfig says how to learn what became of a call: by another tool,
// called as a read.
type StatusConfig struct {
	Tool        string
	Arguments   map[string]any // {key} and {handle} stand for the job's
	State       string         // JSON pointer into the result
	Completed   []string
	Failed      []string
	Working     []string
	Absent      []string
	SettleAfter time.Duration // absent counts only after this; 0: 30 s
}

// Config is everything that a Bridge is told. Defaults fills in what is zero.
type Config struct {
	URL    *url.URL // the upstream's endpoint, http or https
	Server string   // its name in texts: that of config.toml, --server-id, else origin and path

	// Broken, if set, is why this configuration cannot work, for a person to
	// read, with its cure. The bridge then serves that explanation only.
	Broken error

	Version   string // of this program
	Principal string // --principal; "" for the account of the credentials

	Protocol  EraChoice
	Transport TransportChoice

	// The network.
	Headers     []auth.Header
	Credentials Credentials // nil: Headers are all there is
	Login       string      // command with which a person signs in, for texts
	SignInOn    SignInChoice
	Proxy       string // "": environment, "direct", or a URL
	CACert      string // file names
	ClientCert  string
	ClientKey   string
	NoCookies   bool

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

	// Durable jobs.
	Jobs         Journal // nil: nothing is journaled and no handle given out
	Journal      JournalChoice
	Store        jobs.StoreMode
	JobTools     JobTools
	Directory    string        // the host's working directory, for lists of jobs
	Linger       time.Duration // how long open deliveries outlive the host; 0: not at all
	LingerOff    string        // why there is no worker, for the connection line
	InputTimeout time.Duration
	UserResolves jobs.Handle     // a person resolves this job through this bridge: its resolution is the user's word
	LetGo        func()          // lets go of the host's descriptors; nil where there is no worker
	End          <-chan struct{} // closed to end a lingering bridge; nil: never
	ParentGone   func() bool     // whether the host's process is gone; nil: this process's parent tells

	idleStream time.Duration // defaultIdleStream but for tests

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
	DefaultInputTimeout   = 10 * time.Minute
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
	setDefault(&c.JobTools, JobToolsTwo)
	setDefault(&c.InputTimeout, DefaultInputTimeout)
	setDefault(&c.idleStream, defaultIdleStream)
	if c.Retries < 0 {
		c.Retries = 0
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Server == "" && c.URL != nil {
		c.Server = c.URL.Scheme + "://" + c.URL.Host + c.URL.Path
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
