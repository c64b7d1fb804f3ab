package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/mcpbridge/mcpbridge/bridge"
	"golang.org/x/term"
)

// bridge serves the host on standard input and output until it is gone, or has
// a worker do it.
func (p *program) bridge(ctx context.Context, flags layer, words []string) error {
	if p.worker != nil {
		return p.serve(ctx, flags, words, "")
	}
	why := p.whyNoWorker(flags, words)
	if why == "" {
		code, err := p.front()
		if err == nil {
			return exitStatus(code)
		}
		why = "the worker could not be started: " + err.Error()
	}
	return p.serve(ctx, flags, words, why)
}

// serve serves the host in this process. NoWorker is why it ends with the host;
// "" in a worker.
func (p *program) serve(ctx context.Context, flags layer, words []string, noWorker string) error {
	p.collectLess()
	leaving, ctx := newDeparture(ctx, p.worker != nil)
	defer leaving.gone()
	watching := meanwhile(func() (stop func()) {
		deaf, brittle := leaving.watchSignals(), surviveBrokenPipes()
		return func() { brittle(); deaf() }
	})
	defer func() { watching()() }()
	opt, err := p.options(flags, words)
	if err != nil {
		return err
	}
	log := p.openLog(opt.log)
	defer log.close()
	opt.Log = log.Logger
	closeCredentials, err := p.openCredentials(&opt)
	if err != nil {
		return err
	}
	defer closeCredentials()
	closeJournal, err := p.openJournal(&opt)
	if err != nil {
		return err
	}
	defer closeJournal()
	p.remark(&opt)
	stdin, err := p.hostSide(leaving, &opt, noWorker)
	if err != nil {
		return err
	}
	b, err := p.newBridge(opt.Config)
	if err != nil {
		return err
	}
	watching() // before the host is read and written to
	err = leaving.within(overdue, func() error { return b.Run(ctx, stdin, p.stdout) })
	if err == nil || ctx.Err() != nil {
		return nil // the host is gone, or somebody asked the process to leave
	}
	log.Error(err.Error())
	return &reportedError{err}
}

// meanwhile runs f in another goroutine and returns what waits for its result. The
// runtime takes as long to have signals watched as it takes us to read the
// configuration.
func meanwhile[T any](f func() T) (wait func() T) {
	var result T
	done := make(chan struct{})
	go func() {
		defer close(done)
		result = f()
	}()
	return func() T {
		<-done
		return result
	}
}

// garbage is how much may lie about before it is collected, in percent of what is
// in use. What is in use is small, and the runtime's own 100 % had it collected
// many times a second under load, most of all under that of journaled calls; large
// answers are not garbage of this kind.
const garbage = 300

func (p *program) collectLess() {
	if _, said := p.env("GOGC"); !said {
		debug.SetGCPercent(garbage)
	}
}

// options reads what the bridge is told. What is wrong with it is told to the
// host, if a host started us.
func (p *program) options(flags layer, words []string) (options, error) {
	opt, err := resolve(flags, words, p.env, defaultConfigPath())
	var broken *configError
	if errors.As(err, &broken) && p.hosted() {
		opt.Broken, err = broken, nil
	}
	opt.Version = buildVersion()
	opt.UserResolves = p.userResolves
	return opt, err
}

// hostSide says in o what becomes of open calls when the host goes, and returns
// what the host is read from.
func (p *program) hostSide(leaving *departure, o *options, noWorker string) (io.Reader, error) {
	if p.worker == nil {
		o.Linger, o.LingerOff = 0, noWorker
		return p.stdin, nil
	}
	side, err := p.worker.serve(leaving, p.stdin, o.StateDir)
	if err != nil {
		return nil, err
	}
	o.LetGo = func() { side.letGo(); go noteLinger(o.Jobs) }
	o.End, o.ParentGone = leaving.end, side.parentGone
	if o.Linger == 0 {
		o.LingerOff = "--linger 0"
	}
	return side.stdin, nil
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
