package classify

import (
	"net/http"
	"strings"
	"unicode"
)

// sessionLost reports whether the answer says that the session of the request
// is gone. 2025-03-26 and later, Streamable HTTP, "Session Management": a 404
// to a request with a session id. Many servers say it in other ways: 400, 403
// or 503 with a text about the session, or a JSON-RPC error of the codes that
// SDKs use for it.
func sessionLost(e *Expectation, c *Capture, v *Verdict) bool {
	if !e.Session || c.Sent == NothingSent {
		return false
	}
	switch c.Status {
	case http.StatusNotFound:
		return v.RPCError == nil || v.RPCError.Code != MethodNotFound
	case http.StatusBadRequest, http.StatusForbidden, http.StatusServiceUnavailable:
		return namesLostSession(errorText(c, v)) || wantsInitialize(c, v)
	}
	return v.Outcome == JSONRPCError && isSessionCode(v.RPCError.Code) && namesLostSession(v.RPCError.Message)
}

// wantsInitialize reports whether the answer is that of the TypeScript SDK's
// transport to a request of a session that it does not have: it takes it for one
// that came before the handshake.
func wantsInitialize(c *Capture, v *Verdict) bool {
	return c.Status == http.StatusBadRequest && v.RPCError != nil && v.RPCError.Code == -32000 &&
		v.RPCError.Message == "Bad Request: Server not initialized"
}

// isSessionCode reports whether a code is one with which SDKs answer a request
// that has no valid session. A tool that has sessions of its own reports them
// with others.
func isSessionCode(code int64) bool {
	return code == -32000 || code == -32001 || code == InvalidRequest
}

// errorText is what the answer says in words, without other parts of its body.
func errorText(c *Capture, v *Verdict) string {
	if v.RPCError != nil {
		return v.RPCError.Message
	}
	return string(c.Body[:min(len(c.Body), excerptSource)])
}

// namesLostSession reports whether a text says that a session is missing, not
// known or over: the word session beside one of the words below, with nothing
// between them that makes the sentence one about something else. ("Invalid
// arguments: session must be a string" is none.)
func namesLostSession(text string) bool {
	for _, clause := range clauses(text) {
		for i, word := range clause {
			if (word == "session" || word == "sessions" || word == "sessionid") && (lostBefore(clause[:i]) || lostAfter(clause[i+1:])) {
				return true
			}
		}
	}
	return false
}

// clauses splits a text at punctuation into lower-case words; an identifier in
// camel case is several words. A colon behind "id" separates nothing.
func clauses(text string) [][]string {
	var all [][]string
	var clause []string
	var word []rune
	endWord := func() {
		if len(word) > 0 {
			clause = append(clause, strings.ToLower(string(word)))
		}
		word = nil
	}
	for _, r := range text {
		switch {
		case unicode.IsUpper(r) && len(word) > 0 && unicode.IsLower(word[len(word)-1]):
			endWord()
			word = append(word, r)
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			word = append(word, r)
		case strings.ContainsRune(".:;,!?\n{}[]", r):
			endWord()
			if r == ':' && len(clause) > 0 && clause[len(clause)-1] == "id" {
				continue
			}
			all, clause = append(all, clause), nil
		default:
			endWord()
		}
	}
	endWord()
	return append(all, clause)
}

// lostBefore reads the words in front of "session", nearest first.
func lostBefore(words []string) bool {
	for i := len(words) - 1; i >= 0; i-- {
		switch words[i] {
		case "no", "missing", "invalid", "unknown", "expired", "stale", "terminated", "closed", "unrecognized",
			"unrecognised", "without", "nonexistent", "inactive":
			return true
		case "valid", "active", "existing", "such", "mcp", "or", "and", "the", "a", "an", "your", "server", "client":
		default:
			return false
		}
	}
	return false
}

// lostAfter reads the words behind "session".
func lostAfter(words []string) bool {
	denied, id := false, false
	for _, word := range words {
		switch word {
		case "missing", "invalid", "unknown", "expired", "terminated", "required", "closed", "gone", "lost", "stale",
			"ended", "deleted", "unrecognized", "unrecognised":
			return true
		case "found", "exist", "exists", "valid", "recognized", "recognised", "initialized", "initialised", "active",
			"longer", "known", "available", "provided":
			if denied {
				return true
			}
		case "not", "no", "never", "doesn", "isn", "wasn", "cannot", "can":
			denied = true
		case "id", "ids":
			id = true
			continue
		case "header", "token", "is", "are", "was", "has", "have", "been", "be", "already", "does", "could", "t", "or", "and",
			"with", "this", "the", "given", "mcp", "s":
		default:
			if !id && !isIdentifier(word) {
				return false
			}
		}
		id = id && isIdentifier(word)
	}
	return false
}

// isIdentifier reports whether a word looks like a part of a session id.
func isIdentifier(word string) bool {
	const longestWord = 16
	return len(word) >= longestWord || strings.ContainsAny(word, "0123456789")
}
