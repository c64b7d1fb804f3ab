package classify

import (
	"bytes"
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxExcerpt = 300 // characters of Excerpt
	maxQuoted  = 200 // characters of upstream's text within a Why
	maxTitle   = 120 // characters of the title of a web page
	maxWhy     = 600 // characters of a Why

	// excerptSource and pageSource bound, in bytes, how much of a body is
	// looked at for its excerpt and its title.
	excerptSource = 4 << 10
	pageSource    = 64 << 10
)

// Excerpt returns the beginning of a body for people: at most 300 characters on
// one line, without markup and control characters, and with what looks like a
// credential replaced.
func Excerpt(body []byte) string {
	text := string(body[:min(len(body), excerptSource)])
	if looksLikeMarkup(body) {
		text = html.UnescapeString(withoutTags(text))
	}
	return shorten(text, maxExcerpt)
}

// shorten makes one line of at most limit characters of a text.
func shorten(text string, limit int) string {
	if len(text) > 8*limit {
		text = text[:8*limit]
	}
	text = redact(oneLine(text))
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return strings.TrimSpace(string([]rune(text)[:limit-3])) + "..."
}

// oneLine replaces white space and characters that do not show by single
// spaces.
func oneLine(text string) string {
	if len(text) > 4*maxWhy {
		text = text[:4*maxWhy]
	}
	fields := strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsGraphic(r)
	})
	return strings.Join(fields, " ")
}

// redact replaces words that look like credentials: what follows the name of a
// header or a scheme that carries one, and JSON Web Tokens.
func redact(line string) string {
	words := strings.Split(line, " ")
	hide := nothing
	for i, word := range words {
		bare := strings.ToLower(strings.Trim(word, `"':=,;{}()[]`))
		switch {
		case bare == "bearer" || bare == "basic":
			hide = max(hide, longWords)
			continue
		case announcesSecret(bare) && strings.ContainsAny(word[len(word)-1:], ":="):
			hide = anyWord
			continue
		case strings.HasPrefix(bare, "eyj") && strings.Count(bare, ".") >= 2,
			hide == anyWord && bare != "", hide == longWords && len(bare) >= shortestToken:
			words[i] = redacted
		default:
			words[i] = redactValue(word)
		}
		hide = nothing
	}
	return strings.Join(words, " ")
}

// Which next word is a secret: none, one that is long, any.
const (
	nothing = iota
	longWords
	anyWord

	shortestToken = 16 // "Bearer authentication" is about no token
	redacted      = "[redacted]"
)

func announcesSecret(word string) bool {
	switch word {
	case "authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key", "apikey", "api_key",
		"token", "access_token", "refresh_token", "id_token", "client_secret", "password":
		return true
	}
	return false
}

// redactValue replaces the value in a word such as access_token=abc or
// "api-key":"abc".
func redactValue(word string) string {
	for i, r := range word {
		if r != '=' && r != ':' {
			continue
		}
		name := strings.ToLower(word[:i])
		if cut := strings.LastIndexAny(strings.TrimRight(name, `"'`), `"'?&{,;`); cut >= 0 {
			name = name[cut+1:]
		}
		if announcesSecret(strings.Trim(name, `"'`)) {
			return word[:i+1] + redacted
		}
	}
	return word
}

// webPage describes a body that is an HTML page.
func webPage(body []byte) (description string, ok bool) {
	if !looksLikePage(body) {
		return "", false
	}
	if title := pageTitle(body[:min(len(body), pageSource)]); title != "" {
		return `a web page titled "` + title + `"`, true
	}
	return "a web page", true
}

func looksLikeMarkup(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n\ufeff"), []byte("<"))
}

func looksLikePage(body []byte) bool {
	if !looksLikeMarkup(body) {
		return false
	}
	start := bytes.ToLower(body[:min(len(body), excerptSource)])
	for _, mark := range []string{"<!doctype html", "<html", "<head", "<title", "<body"} {
		if bytes.Contains(start, []byte(mark)) {
			return true
		}
	}
	return false
}

// pageTitle returns the text of the first title element.
func pageTitle(page []byte) string {
	const tag = "<title"
	for i := 0; i+len(tag) <= len(page); i++ {
		if page[i] != '<' || !strings.EqualFold(string(page[i:i+len(tag)]), tag) {
			continue
		}
		_, text, _ := bytes.Cut(page[i:], []byte(">"))
		text, _, _ = bytes.Cut(text, []byte("<"))
		return shorten(html.UnescapeString(string(text)), maxTitle)
	}
	return ""
}

// withoutTags leaves out tags, and the content of scripts and style sheets.
func withoutTags(text string) string {
	var out strings.Builder
	for text != "" {
		before, tag, found := strings.Cut(text, "<")
		out.WriteString(before)
		out.WriteByte(' ')
		if !found {
			break
		}
		_, rest, _ := strings.Cut(tag, ">")
		for _, name := range []string{"script", "style"} {
			if len(tag) >= len(name) && strings.EqualFold(tag[:len(name)], name) {
				_, rest, _ = strings.Cut(rest, "</")
				_, rest, _ = strings.Cut(rest, ">")
			}
		}
		text = rest
	}
	return out.String()
}
