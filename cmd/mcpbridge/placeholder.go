package main

import "strings"

// placeholder returns the first piece of s that a host or a shell should have
// replaced and did not, such as ${TOKEN}, ${env:TOKEN} or {env:TOKEN}; "" if
// there is none.
func placeholder(s string) string {
	return findPlaceholder(s, func(string) bool { return false })
}

// placeholderInHeader is placeholder for a header, in which ${NAME} is ours to
// expand and $$ stands for a dollar sign.
func placeholderInHeader(s string) string {
	return findPlaceholder(strings.ReplaceAll(s, "$$", "  "), isVariable)
}

func findPlaceholder(s string, ours func(name string) bool) string {
	for i := range s {
		for _, opening := range []string{"${", "{env:"} {
			name, ok := strings.CutPrefix(s[i:], opening)
			if !ok {
				continue
			}
			name, _, closed := strings.Cut(name, "}")
			if closed && (opening != "${" || !ours(name)) {
				return opening + name + "}"
			}
		}
	}
	return ""
}

// isVariable reports whether name can be that of an environment variable.
func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
