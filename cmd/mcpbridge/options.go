package main

import (
	"log/slog"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/bridge"
)

// Options are all settings of one bridge, parsed. The embedded Config is what
// package bridge takes; the rest is this package's business.
type options struct {
	bridge.Config

	allowHTTP         bool
	allowNetworkState bool

	headers     []string // as configured, still with ${NAME}
	headerFiles []string
	bearerEnv   string

	read, write []string // globs
	base        string   // directory of the config.toml whose values are being parsed

	configPath string
	serverID   string
	tools      []toolOptions // most specific glob first

	log logOptions
}

// LogOptions say where the program reports about itself.
type logOptions struct {
	level slog.Level // of standard error
	json  bool
	file  string // "" for none
}

// ToolOptions are what [servers.NAME.tools."GLOB"] says. Zero fields were left
// out.
type toolOptions struct {
	glob           string
	class          string
	answerWithin   time.Duration
	onCancel       bridge.CancelChoice
	idempotencyKey string // JSON pointer into the arguments
	store          string
	guard          string
	resolve        string
	status         *statusOptions
}

// StatusOptions say how to learn what became of a call: which tool to ask, and
// how to read its answer.
type statusOptions struct {
	tool        string
	arguments   map[string]any
	state       string // JSON pointer into the result
	completed   []string
	failed      []string
	working     []string
	absent      []string
	settleAfter time.Duration
}

// defaultOptions are the settings of a bridge that nobody configured.
func defaultOptions() options {
	return options{log: logOptions{level: slog.LevelWarn}}
}

// credentials reads the headers that the options name, in the order in which a
// later one replaces an earlier one: files, --header, --bearer-env.
func (o *options) credentials(env lookup) ([]auth.Header, error) {
	var all []auth.Header
	for _, path := range o.headerFiles {
		headers, err := auth.ReadHeaderFile(path)
		if err != nil {
			return nil, configf("%v", err)
		}
		all = append(all, headers...)
	}
	for _, text := range o.headers {
		header, err := auth.ParseHeader(text, env)
		if err != nil {
			return nil, configf("%v", err)
		}
		all = append(all, header)
	}
	if o.bearerEnv != "" {
		header, err := auth.BearerEnv(o.bearerEnv, env)
		if err != nil {
			return nil, configf("%v", err)
		}
		all = append(all, header)
	}
	return all, nil
}
