package main

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// accountSettings are the settings of the bridge that commands about an account
// take too: whom to ask, how to reach it, and as whom.
func accountSettings() []setting {
	names := []string{"server-id", "principal", "header", "header-file", "bearer-env",
		"allow-http", "proxy", "ca-cert", "client-cert", "client-key", "connect-timeout",
		"state-dir", "allow-network-state", "log-level", "config"}
	for _, s := range signInSettings() {
		names = append(names, s.name)
	}
	return slices.DeleteFunc(settings(), func(s setting) bool { return !slices.Contains(names, s.name) })
}

// loginCommand is the command line with which a person signs in as the bridge
// would: its absolute path, and what was said about signing in on its own command
// line and in its environment. Values that may be secrets are left out; they are
// not needed for it.
func loginCommand(o *options) string {
	program, err := os.Executable()
	if err != nil {
		program = "mcpbridge"
	}
	words := []string{quoted(program), "login"}
	for _, s := range accountSettings() {
		v, ok := o.said[s.name]
		if !ok || v.from == fromFile || s.name == "header" || s.name == "log-level" {
			continue
		}
		for _, text := range v.texts {
			if name := o.fileName(s.name); name != "" {
				text = name
			}
			words = append(words, quoted("--"+s.name+"="+text))
		}
	}
	return strings.Join(append(words, quoted(o.word)), " ")
}

// fileName is the absolute path that a setting names, "" if it is about no file:
// the command is typed in another directory.
func (o *options) fileName(setting string) string {
	switch setting {
	case "ca-cert":
		return o.CACert
	case "client-cert":
		return o.ClientCert
	case "client-key":
		return o.ClientKey
	case "client-secret-file":
		return o.signIn.secretFile
	case "private-key":
		return o.signIn.privateKey
	case "state-dir":
		return o.StateDir
	case "config":
		return o.configPath
	}
	return ""
}

// quoted writes a word so that a shell takes it as it is.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_@%+=:,./-", r) || r == '\\' && runtime.GOOS == "windows"
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	if runtime.GOOS == "windows" {
		return `"` + strings.ReplaceAll(word, `"`, `\"`) + `"`
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
