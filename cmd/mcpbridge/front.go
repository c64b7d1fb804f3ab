package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"time"
)

// An exitStatus is the exit code of the process that did the work.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// whyNoWorker says why this process is to serve the host itself; "" if a worker
// should. It is asked before anything else is read: the front is to cost
// nothing.
func (p *program) whyNoWorker(flags layer, words []string) string {
	switch {
	case runtime.GOOS == "windows":
		return "not available on Windows"
	case isTerminal(p.stdin) || isTerminal(p.stdout):
		return "on a terminal" // after Ctrl-Z a process outside the session would take the lines typed
	case os.Getpid() == 1 || os.Getppid() == 1:
		return "this process ends with its container or service"
	case p.lingerIsOff(flags, words):
		return "--linger 0"
	}
	return ""
}

// lingerIsOff reports whether --linger is zero, wherever that is said.
func (p *program) lingerIsOff(flags layer, words []string) bool {
	for _, l := range []layer{flags, environment(p.env)} {
		if v, ok := l["linger"]; ok {
			d, err := time.ParseDuration(v.texts[0])
			return err == nil && d == 0
		}
	}
	if !p.fileSpeaksOfLinger(flags) {
		return false
	}
	o, _ := resolve(flags, words, p.env, defaultConfigPath())
	return o.linger != nil && *o.linger == 0
}

// fileSpeaksOfLinger spares the front from parsing a config.toml that does not
// matter here.
func (p *program) fileSpeaksOfLinger(flags layer) bool {
	path := defaultConfigPath()
	for _, l := range []layer{environment(p.env), flags} {
		if v, ok := l["config"]; ok {
			path = v.texts[0]
		}
	}
	text, err := os.ReadFile(path)
	return err == nil && bytes.Contains(text, []byte("linger"))
}
