package main

import (
	"maps"
	"strings"

	"github.com/mcpbridge/mcpbridge/retry"
)

// A resolver turns what was said in flags, variables and config.toml into
// options. Flags beat variables, which beat [servers.NAME], which beats what
// stands above the servers.
type resolver struct {
	opt    options
	merged layer
	broken error // the first configuration error; the rest is still read
}

// resolve reads everything that the bridge is told: words are the arguments
// that are no flags, usual is the config.toml to read where none is named. A
// usage error comes alone; with a configuration error the options hold what
// could be read all the same.
func resolve(flags layer, words []string, env lookup, usual string) (options, error) {
	r := &resolver{opt: defaultOptions(), merged: layer{}}
	if err := checkFlags(flags); err != nil {
		return r.opt, err
	}
	address, err := checkWords(words)
	if err != nil {
		return r.opt, err
	}
	variables := environment(env)
	file := r.readFile(flags, variables, usual)
	r.server(address, file)
	maps.Copy(r.merged, variables)
	maps.Copy(r.merged, flags)
	r.parse()
	r.finish(address, env)
	return r.opt, r.broken
}

// note keeps the first configuration error.
func (r *resolver) note(err error) {
	if r.broken == nil {
		r.broken = err
	}
}

// checkFlags finds impossible values, which end the program whatever else is
// wrong. Values with placeholders are left to parse: they are configuration.
func checkFlags(flags layer) error {
	var scratch options
	for _, s := range settings() {
		v, ok := flags[s.name]
		if !ok || s.unexpanded(v) != nil {
			continue
		}
		if err := s.apply(&scratch, v); err != nil {
			return err
		}
	}
	return nil
}

// checkWords returns the one word that says which server is meant. Stray words
// are not repeated: they may be a token that a host split off its header.
func checkWords(words []string) (string, error) {
	switch {
	case len(words) == 0, len(words) == 1 && strings.TrimSpace(words[0]) == "":
		return "", usagef("no server given; write mcpbridge URL or mcpbridge NAME (see mcpbridge help)")
	case len(words) > 1:
		return "", usagef("%d words that are no flags, where one URL or name belongs; "+
			"some hosts split arguments at spaces: write --header=Name:${VARIABLE} without a space and put the value into the variable, and --flag=false with an equals sign", len(words))
	case placeholder(words[0]) != "" || !isAddress(words[0]):
		return words[0], nil
	}
	if _, wrong := parseAddress(words[0]); wrong != "" {
		return "", usagef("%s", wrong)
	}
	return words[0], nil
}

// readFile reads config.toml and merges what stands above the servers.
func (r *resolver) readFile(flags, variables layer, usual string) *configFile {
	path, asked := usual, false
	for _, l := range []layer{variables, flags} {
		if v, ok := l["config"]; ok && placeholder(v.texts[0]) == "" {
			if abs, err := r.opt.absolute(v.texts[0]); err == nil {
				path, asked = abs, true
			}
		}
	}
	file, err := readConfigFile(path, asked)
	if err != nil {
		r.note(err)
		return file
	}
	defaults, err := file.defaults()
	if err != nil {
		r.note(err)
	}
	maps.Copy(r.merged, defaults)
	return file
}

// server finds the upstream that word means.
func (r *resolver) server(word string, file *configFile) {
	where, address := "the address", word
	switch {
	case placeholder(word) != "":
		r.note(unexpandedf(where, placeholder(word)))
		return
	case !isAddress(word):
		r.opt.Server = word
		if r.broken != nil { // the file itself: do not blame the name
			return
		}
		entry, err := file.server(word)
		r.opt.tools = entry.tools
		maps.Copy(r.merged, entry.layer)
		if err != nil {
			r.note(err)
			return
		}
		where, address = entry.where.String(), entry.url
	}
	u, wrong := parseAddress(address)
	if wrong != "" {
		r.note(configf("%s: %s", where, wrong))
		return
	}
	r.opt.URL = u
}

// parse applies the values that won.
func (r *resolver) parse() {
	for _, s := range settings() {
		if v, ok := r.merged[s.name]; ok {
			if err := s.apply(&r.opt, v); err != nil {
				r.note(err)
			}
		}
	}
}

// finish derives what depends on more than one setting.
func (r *resolver) finish(word string, env lookup) {
	o := &r.opt
	if u := o.URL; u != nil && u.Scheme == "http" && !isLoopback(u.Hostname()) && !o.allowHTTP {
		r.note(configf("http:// to %s would send everything in clear; use https://, or --allow-http (allow_http = true) if the network in between is trusted", u.Host))
	}
	if (o.ClientCert == "") != (o.ClientKey == "") {
		r.note(configf("--client-cert and --client-key belong together; give both"))
	}
	headers, err := o.credentials(env)
	if err != nil {
		r.note(err)
	}
	o.Headers = headers
	o.word, o.said = word, r.merged
	if o.serverID != "" {
		o.Server = o.serverID
	}
	if o.StateDir == "" {
		o.StateDir = defaultStateDir(env)
	}
	o.Linger = o.lingerLimit()
	o.Classes = r.classes()
	for _, t := range o.tools {
		o.Tools = append(o.Tools, t.ToolConfig)
	}
}

// classes lists what was said of the classes of tools, in the order in which it
// counts: flags and variables, tables of tools, read and write of config.toml.
// Where a tool is called both a read and a write, it is a write.
func (r *resolver) classes() []retry.Rule {
	var first, last []retry.Rule
	add := func(name string, globs []string, class retry.Class) {
		for _, glob := range globs {
			if r.merged[name].from == fromFile {
				last = append(last, retry.Rule{Glob: glob, Class: class})
			} else {
				first = append(first, retry.Rule{Glob: glob, Class: class})
			}
		}
	}
	add("write", r.opt.write, retry.Write)
	add("read", r.opt.read, retry.Read)
	for _, t := range r.opt.tools {
		switch t.class {
		case "read":
			first = append(first, retry.Rule{Glob: t.Glob, Class: retry.Read})
		case "idempotent":
			first = append(first, retry.Rule{Glob: t.Glob, Class: retry.Idempotent})
		case "write":
			first = append(first, retry.Rule{Glob: t.Glob, Class: retry.Write})
		}
	}
	return append(first, last...)
}
