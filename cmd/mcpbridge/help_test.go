package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every flag is explained, and nothing is explained that is no flag.
func TestHelpNamesTheFlags(t *testing.T) {
	t.Parallel()
	p := program{}
	root := p.root()
	commands := append([]*cobra.Command{root}, root.Commands()...)
	for _, cmd := range commands {
		text := helpTexts()[cmd.Name()]
		if text == "" {
			continue // cobra's own
		}
		known := map[string]bool{"help": true}
		for _, c := range append(cmd.Commands(), cmd) {
			if c != cmd && cmd == root {
				continue // each has its own text
			}
			flags := c.Flags()
			flags.AddFlagSet(c.PersistentFlags())
			flags.VisitAll(func(flag *pflag.Flag) {
				known[flag.Name] = true
				if !flag.Hidden && !regexp.MustCompile(`--`+flag.Name+`\b`).MatchString(text) {
					t.Errorf("help of %s does not mention --%s of %s", cmd.Name(), flag.Name, c.Name())
				}
			})
		}
		for _, m := range regexp.MustCompile(`--([a-z][a-z-]*)`).FindAllStringSubmatch(text, -1) {
			if !known[m[1]] {
				t.Errorf("help of %s explains --%s, which is no flag", cmd.Name(), m[1])
			}
		}
		for n, line := range strings.Split(text, "\n") {
			if len(line) > 85 || strings.HasSuffix(line, " ") {
				t.Errorf("help of %s, line %d: too long or ends with a space: %q", cmd.Name(), n+1, line)
			}
		}
	}
}

// A command that commandNames leaves out would be taken for the name of a server.
func TestCommandNames(t *testing.T) {
	t.Parallel()
	var p program
	var names []string
	root := p.root()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		names = append(append(names, cmd.Name()), cmd.Aliases...)
	}
	known := commandNames()
	slices.Sort(names)
	slices.Sort(known)
	if !slices.Equal(names, known) {
		t.Errorf("the commands are %q, commandNames says %q", names, known)
	}
}

func TestHelpNamesTheCommands(t *testing.T) {
	t.Parallel()
	p := program{}
	for _, cmd := range p.root().Commands() {
		if !strings.Contains(bridgeHelp, "\n  "+cmd.Name()+" ") && cmd.Name() != "help" {
			t.Errorf("help does not mention %s", cmd.Name())
		}
		if !strings.Contains(shortUsage, cmd.Name()) {
			t.Errorf("short usage does not mention %s", cmd.Name())
		}
	}
}
