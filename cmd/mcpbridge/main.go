package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/spf13/cobra"
)

func main() {
	cobra.MousetrapHelpText = ""                                                    // its look at the parent process costs time on Windows
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) // the only exit in the program
}

// run is the whole program. It returns the exit code.
func run(ctx context.Context, args []string, stdin, stdout, stderr *os.File) int {
	log.SetOutput(io.Discard) // until openLog, and for good in commands without a log: see libraryLog
	p := program{stdin: stdin, stdout: stdout, stderr: stderr, env: os.LookupEnv, worker: joinFront(os.LookupEnv)}
	if len(args) == 0 {
		fmt.Fprint(stderr, shortUsage)
		return exitUsage
	}
	err := p.execute(ctx, args)
	var reported *reportedError
	var worked exitStatus
	if err != nil && !errors.As(err, &reported) && !errors.As(err, &worked) {
		fmt.Fprintf(stderr, "mcpbridge: %v\n", err)
	}
	return exitCode(err)
}

// A program is what every command is given.
type program struct {
	stdin, stdout, stderr *os.File
	env                   lookup
	worker                *worker     // nil unless a front started this process
	userResolves          jobs.Handle // see userResolvesFlag
}

// untilSignal returns a context that ends when somebody asks the process to
// leave. Commands that read from a person do without: a first Ctrl-C ends them.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}
