package retry

import (
	"strings"
	"unicode"
)

// namesReading reports whether a tool's name begins with a reading word, or has
// one behind a prefix: everything up to the last "." or "__", or one word such
// as a product's name. A word that writes is no prefix: create_view creates.
func namesReading(name string) bool {
	if words := splitWords(name); len(words) > 0 && isReading(words[0]) {
		return true
	}
	for _, separator := range []string{".", "__"} {
		if i := strings.LastIndex(name, separator); i >= 0 {
			if words := splitWords(name[i:]); len(words) > 0 && isReading(words[0]) {
				return true
			}
		}
	}
	words := splitWords(name)
	return len(words) > 1 && isReading(words[1]) && !isWriting(words[0])
}

// splitWords splits a name at "_", "-" and "." and at camel humps into words in
// lower case: getItem and HTTPGet have two, getaway has one.
func splitWords(name string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	runes := []rune(name)
	for i, r := range runes {
		if r == '_' || r == '-' || r == '.' {
			end()
			continue
		}
		if isHump(runes, i) {
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}

// isHump reports whether a new word begins with the capital at i.
func isHump(name []rune, i int) bool {
	if i == 0 || !unicode.IsUpper(name[i]) {
		return false
	}
	if !unicode.IsUpper(name[i-1]) {
		return true
	}
	return i+1 < len(name) && unicode.IsLower(name[i+1])
}

func isReading(word string) bool {
	switch word {
	case "get", "list", "search", "find", "read", "fetch", "query", "lookup", "describe", "show", "count", "view":
		return true
	}
	return false
}

func isWriting(word string) bool {
	switch word {
	case "add", "append", "apply", "approve", "archive", "assign", "book", "buy", "cancel", "change", "clear", "close",
		"commit", "convert", "copy", "create", "delete", "deploy", "destroy", "disable", "do", "drop", "edit", "enable",
		"exec", "execute", "export", "generate", "import", "insert", "invoke", "kill", "make", "mark", "merge", "modify",
		"move", "new", "open", "order", "patch", "pay", "post", "publish", "purge", "push", "put", "refresh", "register",
		"remove", "rename", "replace", "reset", "restart", "restore", "run", "save", "schedule", "send", "set", "share",
		"start", "stop", "store", "submit", "subscribe", "sync", "trigger", "update", "upload", "upsert", "write":
		return true
	}
	return false
}
