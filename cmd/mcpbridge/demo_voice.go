package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A speaker is one of those whose words the demo tells.
type speaker string

const (
	theHost   speaker = "host"
	theBridge speaker = "bridge"
	theServer speaker = "server"
	theLedger speaker = "ledger"
)

const bold = "1" // a graphic rendition of ECMA-48, as colour returns

const (
	voiceWidth = 98 // columns of one line
	voiceInset = 11 // columns before what is said
)

// A voice writes the transcript of the demo. Its first error stays, and ends
// all writing.
type voice struct {
	w       io.Writer
	colours bool
	err     error
}

func newVoice(w io.Writer, colours bool) *voice { return &voice{w: w, colours: colours} }

func (v *voice) printf(format string, args ...any) {
	if v.err == nil {
		_, v.err = fmt.Fprintf(v.w, format, args...)
	}
}

// open says who is on stage.
func (v *voice) open() {
	v.printf("%s\n\n", v.paint(bold, "A host, the bridge and a server that misbehaves, all of them on this machine."))
	v.says(theHost, "stands for Cursor, Codex and their like: it starts the bridge and talks to it by pipes.")
	v.says(theBridge, "is this program as a host starts it, in its own words.")
	v.says(theServer, "is an MCP server behind HTTP, which fails where it is told to.")
	v.says(theLedger, "is kept by the server: what it was really sent, and what it really did.")
}

// finish is said when all of it has been seen.
func (v *voice) finish() {
	v.printf("\n")
	for _, line := range wrap("All of this was checked while it happened. Three calls with an effect met trouble; "+
		"each was sent once and done once. \"mcpbridge help\" says how to put the bridge before a server of yours.", voiceWidth) {
		v.printf("%s\n", line)
	}
}

func (v *voice) title(n int, text string) {
	v.printf("\n%s\n", v.paint(bold, fmt.Sprintf("%d. %s", n, text)))
}

// says tells what one of them says or does, wrapped below itself.
func (v *voice) says(who speaker, format string, args ...any) {
	inset := "   " + v.paint(who.colour(), fmt.Sprintf("%-*s", voiceInset-3, string(who)))
	for _, line := range wrap(fmt.Sprintf(format, args...), voiceWidth-voiceInset) {
		v.printf("%s%s\n", inset, line)
		inset = strings.Repeat(" ", voiceInset)
	}
}

// colour is the graphic rendition (ECMA-48) of a speaker's name.
func (s speaker) colour() string {
	switch s {
	case theHost:
		return "36"
	case theBridge:
		return "32"
	case theServer:
		return "35"
	case theLedger:
		return "33"
	}
	return "0"
}

func (v *voice) paint(rendition, text string) string {
	if !v.colours {
		return text
	}
	return "\x1b[" + rendition + "m" + text + "\x1b[0m"
}

// wrap breaks text at spaces into lines of at most width columns, where it has
// spaces.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
