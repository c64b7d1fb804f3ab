package auth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// browserWait is how long a program that opens browsers may take to fail. One
// that still runs then is taken for the browser itself and left alone.
const browserWait = 2 * time.Second

// OpenBrowser shows a page to the person at this machine: with the command in
// $BROWSER if it is set, else with the system's own. The command gets the
// address as one argument; no shell is involved on any system. Only http and
// https addresses are passed on. env looks up environment variables.
func OpenBrowser(ctx context.Context, address string, env func(string) (string, bool)) error {
	clean, err := rebuild(address)
	if err != nil {
		return fmt.Errorf("open browser: %w", err)
	}
	problem := errors.New("no browser found")
	for _, argv := range browserCommands(clean, env) {
		if problem = start(ctx, argv); problem == nil {
			return nil
		}
	}
	return fmt.Errorf("open browser: %w", problem)
}

// rebuild parses and re-encodes an address, so that nothing but a URL reaches
// the command, whoever wrote the endpoint that it was made from.
func rebuild(address string) (string, error) {
	u, err := addressRule{plain: true}.check(address)
	if err != nil {
		return "", err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", errors.New("not a valid URL")
	}
	rebuilt := u.Scheme + "://" + u.Host + pathEscapes().Replace(u.EscapedPath())
	if len(query) > 0 {
		rebuilt += "?" + query.Encode()
	}
	return rebuilt, nil
}

// pathEscapes encodes what means something to a shell and may stand in a path:
// some openers are scripts.
func pathEscapes() *strings.Replacer {
	return strings.NewReplacer("$", "%24", "&", "%26", "'", "%27", "(", "%28", ")", "%29", "*", "%2A", "!", "%21", ";", "%3B", "[", "%5B", "]", "%5D")
}

func browserCommands(address string, env func(string) (string, bool)) [][]string {
	if chosen, ok := env("BROWSER"); ok && strings.TrimSpace(chosen) != "" {
		return chosenBrowsers(chosen, address)
	}
	if remoteShell(env) {
		return nil // it would open on a screen that nobody sees
	}
	return systemBrowsers(address)
}

// chosenBrowsers reads $BROWSER: commands separated like PATH, tried in order;
// %s stands for the address, which else comes last.
func chosenBrowsers(chosen, address string) [][]string {
	var commands [][]string
	for _, one := range filepath.SplitList(chosen) {
		argv, err := splitCommand(one)
		if err != nil || len(argv) == 0 {
			continue
		}
		placed := false
		for i, arg := range argv[1:] {
			if strings.Contains(arg, "%s") {
				argv[i+1] = strings.ReplaceAll(arg, "%s", address)
				placed = true
			}
		}
		if !placed {
			argv = append(argv, address)
		}
		commands = append(commands, argv)
	}
	return commands
}

func remoteShell(env func(string) (string, bool)) bool {
	set := func(name string) bool { v, ok := env(name); return ok && v != "" }
	return set("SSH_CONNECTION") && !set("DISPLAY") && !set("WAYLAND_DISPLAY")
}

// start runs the command without our streams: they belong to the host.
func start(ctx context.Context, argv []string) error {
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("%s: not found", argv[0])
	}
	cmd := exec.Command(program, argv[1:]...)
	cmd.Dir = os.TempDir()
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", argv[0], err)
	}
	// Reaps the command when it ends, which may be when the browser is closed.
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	wait := time.NewTimer(browserWait)
	defer wait.Stop()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("%s: %w", argv[0], err)
		}
		return nil
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return nil
	}
}
