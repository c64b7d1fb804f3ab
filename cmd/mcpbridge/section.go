package main

import (
	"bytes"
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// A section is a run of lines of config.toml that begins with a table's header,
// or with the file. Looking for headers line by line misreads strings of
// several lines; sections serve to tell whose a mistake is, in a file that is
// no TOML as a whole.
type section struct {
	first  int // its first line, from 0
	lines  [][]byte
	server string // NAME of [servers.NAME] and what is below it; "" for all else
}

func sections(text []byte) []section {
	var all []section
	for n, line := range bytes.SplitAfter(text, []byte("\n")) {
		if n == 0 || isTableHeader(line) {
			all = append(all, section{first: n, server: serverOfHeader(line)})
		}
		last := &all[len(all)-1]
		last.lines = append(last.lines, line)
	}
	return all
}

// culprit returns the section that is no TOML by itself, or the one where
// parsing the whole file failed, with the place (from 1) and the reason.
func culprit(text []byte, whole error) (s section, line, column int, why string) {
	all := sections(text)
	for _, s := range all {
		var alone map[string]any
		if err := toml.Unmarshal(bytes.Join(s.lines, nil), &alone); err != nil {
			line, column, why = explain(err)
			return s, s.first + line, column, why
		}
	}
	line, column, why = explain(whole)
	for _, candidate := range all {
		if candidate.first < line {
			s = candidate
		}
	}
	return s, line, column, why
}

func explain(err error) (line, column int, why string) {
	line, column = 1, 1
	var where *toml.DecodeError
	if errors.As(err, &where) {
		line, column = where.Position()
	}
	return line, column, strings.TrimPrefix(err.Error(), "toml: ")
}

// blank returns text with the lines of s emptied, so that later positions stay
// true.
func (s section) blank(text []byte) []byte {
	all := bytes.SplitAfter(text, []byte("\n"))
	for n := range s.lines {
		all[s.first+n] = []byte("\n")
	}
	return bytes.Join(all, nil)
}

func isTableHeader(line []byte) bool {
	s := strings.TrimSpace(string(line))
	return strings.HasPrefix(s, "[") && !strings.Contains(s, "=")
}

// serverOfHeader returns NAME of a line such as [servers.NAME] or
// [servers.NAME.tools."GLOB"].
func serverOfHeader(line []byte) string {
	s, ok := strings.CutPrefix(strings.TrimLeft(string(line), "[ \t"), "servers")
	if !ok {
		return ""
	}
	if s, ok = strings.CutPrefix(strings.TrimLeft(s, " \t"), "."); !ok {
		return ""
	}
	s = strings.TrimSpace(s)
	for _, quote := range []string{`"`, "'"} {
		if name, ok := strings.CutPrefix(s, quote); ok {
			name, _, _ = strings.Cut(name, quote)
			return name
		}
	}
	if end := strings.IndexAny(s, ".] \t"); end >= 0 {
		s = s[:end]
	}
	return s
}
