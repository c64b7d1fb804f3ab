package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/mcpbridge/mcpbridge/bridge"
	"golang.org/x/term"
)

// bridge serves the host on standard input and output until it is gone.
func (p *program) bridge(ctx context.Context, flags layer, words []string) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	defer surviveBrokenPipes()()
	opt, err := resolve(flags, words, p.env, defaultConfigPath())
	var broken *configError
	if errors.As(err, &broken) && p.hosted() {
		opt.Broken, err = broken, nil
	}
	if err != nil {
		return err
	}
	log := p.openLog(opt.log)
	defer log.close()
	opt.Log = log.Logger
	opt.Version = buildVersion()
	closeJournal, err := p.openJournal(&opt)
	if err != nil {
		return err
	}
	defer closeJournal()
	p.remark(&opt)
	b, err := p.newBridge(opt.Config)
	if err != nil {
		return err
	}
	err = b.Run(ctx, p.stdin, p.stdout)
	if err == nil || ctx.Err() != nil {
		return nil // the host is gone, or somebody asked the process to leave
	}
	log.Error(err.Error())
	return &reportedError{err}
}

// surviveBrokenPipes makes a write to a host that is gone an error instead of
// the death of the process. The signal is taken and not ignored, because child
// processes would inherit that.
func surviveBrokenPipes() (undo func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}

// newBridge makes the bridge. What package bridge finds wrong with the
// configuration is told as config.toml's own errors are.
func (p *program) newBridge(c bridge.Config) (*bridge.Bridge, error) {
	b, err := bridge.New(c)
	if err != nil && c.Broken == nil && p.hosted() {
		c.Broken, c.Jobs = configf("%v", err), nil
		c.Log.Error(c.Broken.Error())
		b, err = bridge.New(c)
	}
	if err != nil {
		return nil, configf("%v", err)
	}
	return b, nil
}

// hosted reports whether a host started us, which would not show an exit's
// reason to anybody.
func (p *program) hosted() bool { return !isTerminal(p.stdin) }

// remark logs what works and is still worth a word.
func (p *program) remark(o *options) {
	if o.Broken != nil {
		o.Log.Error(o.Broken.Error())
	}
	for _, s := range strangers(os.Environ()) {
		o.Log.Warn(s)
	}
	if u := o.URL; u != nil && u.Scheme == "http" && !isLoopback(u.Hostname()) && o.allowHTTP {
		o.Log.Warn("http:// is in use: calls and credentials travel in clear", "host", u.Host)
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
