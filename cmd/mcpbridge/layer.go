package main

import (
	"slices"
	"strings"
)

// A source is where a value was set. A higher one wins.
type source uint8

const (
	fromFile source = iota
	fromEnvironment
	fromFlag
)

// A value is what one source says of one setting.
type value struct {
	texts []string // one, unless the setting takes a list
	from  source
	where string // how a person finds it, such as --retries
	base  string // directory that file names in it are relative to; "" for the working directory
}

// A layer is what one source says, by the name of the setting.
type layer map[string]value

// A lookup finds an environment variable, as os.LookupEnv does.
type lookup func(name string) (string, bool)

// environment reads the variables that are named after settings. An empty one
// counts as not set: hosts pass on what nobody filled in.
func environment(env lookup) layer {
	l := layer{}
	for _, s := range settings() {
		if text, ok := env(s.variable()); ok && strings.TrimSpace(text) != "" {
			l[s.name] = value{texts: s.split(text), from: fromEnvironment, where: s.variable()}
		}
	}
	return l
}

// split makes a list of a text: one element a line, and for globs at commas
// too, which no tool name contains.
func (s setting) split(text string) []string {
	if !s.many() {
		return []string{text}
	}
	separator := func(r rune) bool { return r == '\n' || r == '\r' || r == ',' && s.kind == globs }
	var all []string
	for _, part := range strings.FieldsFunc(text, separator) {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// strangers returns the variables of env that look like settings and are none,
// each with the setting that was probably meant. Variables without a near
// setting are somebody's own, such as the one that --bearer-env names.
func strangers(environ []string) []string {
	var known, found []string
	for _, s := range settings() {
		known = append(known, s.variable())
	}
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, variablePrefix) || slices.Contains(known, name) || name == secretVariable {
			continue
		}
		for _, k := range known {
			if distance(name, k) <= 2 {
				found = append(found, name+" is not a setting; did you mean "+k+"?")
				break
			}
		}
	}
	return found
}

// apply parses v into o. The error says where the value stands, and is a usage
// error for a flag and a configuration error for any other source. A value with
// a placeholder that nobody replaced is always a configuration error.
func (s setting) apply(o *options, v value) error {
	if err := s.unexpanded(v); err != nil {
		return err
	}
	o.base = v.base
	err := s.parse(o, v.texts)
	switch {
	case err == nil:
		return nil
	case v.from == fromFlag:
		return usagef("%s: %v", v.where, err)
	default:
		return configf("%s: %v", v.where, err)
	}
}

func (s setting) unexpanded(v value) error {
	find := placeholder
	if s.name == "header" {
		find = placeholderInHeader
	}
	for _, text := range v.texts {
		if p := find(text); p != "" {
			return unexpandedf(v.where, p)
		}
	}
	return nil
}

func unexpandedf(where, placeholder string) error {
	return configf("%s: the value still holds %s, which the host or shell did not replace; write the value itself or set the variable where the host starts mcpbridge", where, placeholder)
}
