package main

import (
	"bytes"
	"strings"
)

// blankSection finds the table of config.toml to which the given line (from 1)
// belongs. If it is that of a server, it returns the server's name and the text
// with the lines of that table emptied, so that later positions stay true;
// otherwise the name is "".
func blankSection(text []byte, line int) (server string, rest []byte) {
	all := bytes.SplitAfter(text, []byte("\n"))
	if line < 1 || line > len(all) {
		return "", nil
	}
	first := line - 1
	for first > 0 && !isTableHeader(all[first]) {
		first--
	}
	if server = serverOfHeader(all[first]); server == "" {
		return "", nil
	}
	last := max(first+1, line)
	for last < len(all) && !isTableHeader(all[last]) {
		last++
	}
	for i, l := range all {
		if first <= i && i < last {
			l = []byte("\n")
		}
		rest = append(rest, l...)
	}
	return server, rest
}

func isTableHeader(line []byte) bool {
	s := strings.TrimSpace(string(line))
	return strings.HasPrefix(s, "[") && !strings.Contains(s, "=")
}

// serverOfHeader returns NAME of a line such as [servers.NAME] or
// [servers.NAME.tools."GLOB"].
func serverOfHeader(line []byte) string {
	s := strings.TrimLeft(strings.TrimSpace(string(line)), "[ \t")
	s, ok := strings.CutPrefix(s, "servers")
	if !ok {
		return ""
	}
	if s, ok = strings.CutPrefix(strings.TrimLeft(s, " \t"), "."); !ok {
		return ""
	}
	s = strings.TrimLeft(s, " \t")
	for _, quote := range []string{`"`, "'"} {
		if name, ok := strings.CutPrefix(s, quote); ok {
			name, _, _ = strings.Cut(name, quote)
			return name
		}
	}
	end := strings.IndexAny(s, ".] \t")
	if end < 0 {
		end = len(s)
	}
	return s[:end]
}
