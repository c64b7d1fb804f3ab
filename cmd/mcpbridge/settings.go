package main

import (
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// A setting is one thing that a flag, an environment variable or a key of
// config.toml can set.
type setting struct {
	name  string // that of the flag
	kind  kind
	parse func(*options, []string) error // errors do not name the setting
}

// A kind says in what form a setting is written.
type kind uint8

const (
	single kind = iota // one value
	toggle             // true or false; as a flag without a value, true
	lines              // any number of values; in a variable one a line
	globs              // any number of values; commas separate them too
	once               // single, and only for the program: not in config.toml
)

// key is the setting's name in config.toml.
func (s setting) key() string { return strings.ReplaceAll(s.name, "-", "_") }

// variable is the setting's name in the environment.
func (s setting) variable() string { return variablePrefix + strings.ToUpper(s.key()) }

const variablePrefix = "MCPBRIDGE_"

// many reports whether the setting takes a list.
func (s setting) many() bool { return s.kind == lines || s.kind == globs }

// ofServer reports whether the setting belongs to one server and must not be
// set for all of them: credentials are sent to the server they are meant for.
func (s setting) ofServer() bool {
	switch s.name {
	case "header", "header-file", "bearer-env", "server-id", "principal",
		"token-command", "oauth-grant", "client-id", "client-secret-env", "client-secret-file", "private-key", "private-key-id",
		"token-auth-method", "client-metadata-url", "scope", "resource", "no-resource", "authorize-param", "token-endpoint", "issuer", "use-id-token":
		return true
	}
	return false
}

// settings lists every setting of the bridge, in the order of the help text.
func settings() []setting {
	return append(signInSettings(), []setting{
		{"protocol", single, oneOf(func(o *options, v string) { o.Protocol = bridge.EraChoice(v) },
			string(bridge.EraAuto), string(bridge.EraModern), string(bridge.EraLegacy))},
		{"transport", single, oneOf(func(o *options, v string) { o.Transport = bridge.TransportChoice(v) },
			string(bridge.TransportAuto), string(bridge.TransportHTTP), string(bridge.TransportSSE))},
		{"server-id", single, text(func(o *options) *string { return &o.serverID })},
		{"principal", single, text(func(o *options) *string { return &o.Principal })},

		{"header", lines, parseHeaders},
		{"header-file", lines, parseHeaderFiles},
		{"bearer-env", single, parseBearerEnv},
		{"sign-in-on", single, oneOf(func(o *options, v string) { o.SignInOn = bridge.SignInChoice(v) },
			string(bridge.SignInOnCall), string(bridge.SignInOnList))},
		{"no-cookies", toggle, boolean(func(o *options) *bool { return &o.NoCookies })},

		{"allow-http", toggle, boolean(func(o *options) *bool { return &o.allowHTTP })},
		{"proxy", single, parseProxy},
		{"ca-cert", single, file(func(o *options) *string { return &o.CACert })},
		{"client-cert", single, file(func(o *options) *string { return &o.ClientCert })},
		{"client-key", single, file(func(o *options) *string { return &o.ClientKey })},
		{"connect-timeout", single, span(func(o *options) *time.Duration { return &o.ConnectTimeout })},

		{"answer-within", single, func(o *options, v []string) error { return parseAnswerWithin(&o.AnswerWithin, v[0]) }},
		{"idle-timeout", single, duration(func(o *options) *time.Duration { return &o.IdleTimeout })},
		{"job-timeout", single, span(func(o *options) *time.Duration { return &o.JobTimeout })},
		{"drain", single, parseDrain},
		{"deadline-header", single, parseDeadlineHeader},
		{"retries", single, parseRetries},
		{"on-cancel", single, oneOf(func(o *options, v string) { o.OnCancel = bridge.CancelChoice(v) },
			string(bridge.CancelAuto), string(bridge.CancelForward))},

		{"journal", single, oneOf(func(o *options, v string) { o.Journal = bridge.JournalChoice(v) },
			string(bridge.JournalRequired), string(bridge.JournalTry), string(bridge.JournalOff))},
		{"store", single, func(o *options, v []string) error { return parseStore(&o.Store, v[0]) }},
		{"job-tools", single, oneOf(func(o *options, v string) { o.JobTools = bridge.JobTools(v) },
			string(bridge.JobToolsTwo), string(bridge.JobToolsAll), string(bridge.JobToolsNone))},
		{"guard-window", single, span(func(o *options) *time.Duration { return &o.guardWindow })},
		{"linger", single, parseLinger},
		{"input-timeout", single, span(func(o *options) *time.Duration { return &o.InputTimeout })},

		{"read", globs, patterns(func(o *options) *[]string { return &o.read })},
		{"write", globs, patterns(func(o *options) *[]string { return &o.write })},
		{"ignore-tool", globs, patterns(func(o *options) *[]string { return &o.IgnoreTools })},
		{"only-tool", globs, patterns(func(o *options) *[]string { return &o.OnlyTools })},
		{"trust-annotations", toggle, parseTrust},

		{"max-message", single, lineLength(func(o *options) *int64 { return &o.MaxMessage })},
		{"host-line-limit", single, lineLength(func(o *options) *int64 { return &o.HostLineLimit })},
		{"max-memory", single, size(func(o *options) *int64 { return &o.MaxMemory })},

		{"state-dir", single, file(func(o *options) *string { return &o.StateDir })},
		{"allow-network-state", toggle, boolean(func(o *options) *bool { return &o.allowNetworkState })},
		{"log-level", single, parseLogLevel},
		{"log-format", single, oneOf(func(o *options, v string) { o.log.json = v == "json" }, "text", "json")},
		{"log-file", single, file(func(o *options) *string { return &o.log.file })},
		{"config", once, file(func(o *options) *string { return &o.configPath })},
	}...)
}
