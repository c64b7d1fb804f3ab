package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/spf13/cobra"
)

// maxPasted bounds a pasted address, in bytes.
const maxPasted = 64 << 10

func (p *program) loginCommand() *cobra.Command {
	var noBrowser bool
	cmd := p.accountCommand("login", func(ctx context.Context, a *account) error { return a.login(ctx, noBrowser) })
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "")
	return cmd
}

// login has the person at this terminal sign in. Bridges that run take the tokens
// up by themselves.
func (a *account) login(ctx context.Context, noBrowser bool) error {
	status, err := a.credentials.Status()
	if err != nil {
		return err
	}
	if status.Kind != "oauth" {
		return usagef("server %s is configured with fixed credentials (%s): there is nothing to sign in to", a.opt.Server, status.Kind)
	}
	if err := a.learnChallenge(ctx); err != nil {
		return err
	}
	if noBrowser || isTerminal(a.stdin) {
		go a.takePasted() // parked on standard input until the program ends
	}
	show := &promptWriter{to: a.stderr, server: a.opt.Server, noBrowser: noBrowser}
	if err := a.credentials.SignIn(ctx, auth.SignInOptions{Show: show.show, NoBrowser: noBrowser, Again: true}); err != nil {
		if ctx.Err() != nil {
			return &signInError{fmt.Errorf("sign in to %s: given up", a.opt.Server)}
		}
		return signInFailed(fmt.Errorf("sign in to %s: %w", a.opt.Server, err))
	}
	if err := a.credentials.Stored(); err != nil {
		return fmt.Errorf("sign in to %s: the tokens came but cannot be stored: %w", a.opt.Server, err)
	}
	who, err := a.credentials.Principal()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "Signed in to %s (account %s).\n", a.opt.Server, who)
	return err
}

// takePasted finishes the sign-in by the address that the browser ended at, where
// the browser cannot reach this machine.
func (a *account) takePasted() {
	lines := bufio.NewScanner(io.LimitReader(a.stdin, maxPasted))
	lines.Buffer(nil, maxPasted)
	for lines.Scan() {
		address := strings.TrimSpace(lines.Text())
		if address == "" {
			continue
		}
		if err := a.credentials.Paste(address); err != nil {
			fmt.Fprintf(a.stderr, "mcpbridge: %v\n", err)
		}
	}
}

// A promptWriter tells a person how to sign in, each thing once.
type promptWriter struct {
	to        io.Writer
	server    string
	noBrowser bool // asked for

	mu   sync.Mutex
	said map[string]bool
}

func (w *promptWriter) show(p auth.Prompt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := p.Expires.Format(time.TimeOnly)
	switch {
	case p.UserCode != "":
		w.say("To sign in to %s, open this page on any device and type the code %s (until %s):\n\n  %s\n\n", w.server, p.UserCode, until, p.URL)
	case p.Elsewhere:
		w.say("Another mcpbridge process waits for this sign-in. Finish it in the browser it opened, or open this page (until %s):\n\n  %s\n\n", until, p.URL)
	case p.NoBrowser && !w.noBrowser:
		w.say("No browser could be started.\n%s", pasteHint)
	case w.noBrowser:
		w.say("To sign in to %s, open this page in a browser (until %s):\n\n  %s\n\n%s", w.server, until, p.URL, pasteHint)
	default:
		w.say("A browser is opened to sign in to %s. If none appears, open this page (until %s):\n\n  %s\n\n", w.server, until, p.URL)
	}
}

// pasteHint is for browsers on other machines.
const pasteHint = "If the browser ends at a page that it cannot show, paste that page's address here.\n"

func (w *promptWriter) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if w.said[text] {
		return
	}
	if w.said == nil {
		w.said = map[string]bool{}
	}
	w.said[text] = true
	_, _ = io.WriteString(w.to, text) // who does not see it sees the browser
}
