package retry

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// maxGlob bounds a glob in bytes.
const maxGlob = 512

// MatchGlob reports whether a glob matches a whole tool name: * stands for any
// characters, ? for one, everything else for itself in the same case.
func MatchGlob(glob, name string) bool {
	star, retry := -1, 0 // behind the last *, and where it is to end next
	g, n := 0, 0
	for n < len(name) {
		_, width := utf8.DecodeRuneInString(name[n:])
		switch {
		case g < len(glob) && glob[g] == '*':
			star, retry = g+1, n
			g++
		case g < len(glob) && glob[g] == '?':
			g++
			n += width
		case g < len(glob) && glob[g] == name[n]:
			g++
			n++
		case star >= 0:
			_, width := utf8.DecodeRuneInString(name[retry:])
			retry += width
			g, n = star, retry
		default:
			return false
		}
	}
	for g < len(glob) && glob[g] == '*' {
		g++
	}
	return g == len(glob)
}

// CheckGlob says what is wrong with a glob of a configuration.
func CheckGlob(glob string) error {
	switch {
	case glob == "":
		return errors.New("glob for tool names is empty: * matches every tool")
	case len(glob) > maxGlob:
		return fmt.Errorf("glob for tool names is longer than %d bytes", maxGlob)
	case !utf8.ValidString(glob):
		return fmt.Errorf("glob %q is not UTF-8", glob)
	}
	for _, r := range glob {
		if unicode.IsControl(r) {
			return fmt.Errorf("glob %q has a control character", glob)
		}
	}
	return nil
}
