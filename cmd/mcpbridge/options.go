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

	guardWindow time.Duration  // 0: the journal's own
	linger      *time.Duration // nil: what is left of --job-timeout

	headers     []string // as configured, still with ${NAME}
	headerFiles []string
	bearerEnv   string
	signIn      signInOptions

	read, write []string // globs
	base        string   // directory of the config.toml whose values are being parsed

	configPath string
	word       string // that named the server
	said       layer  // what was said, in all places
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
	bridge.ToolConfig
	class string
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

// lingerLimit is how long open calls may outlive the host: as long as they may
// last at all, unless --linger says otherwise.
func (o *options) lingerLimit() time.Duration {
	switch {
	case o.linger != nil:
		return *o.linger
	case o.JobTimeout > 0:
		return o.JobTimeout
	}
	return bridge.DefaultJobTimeout
}
