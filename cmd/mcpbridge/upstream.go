package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/spf13/cobra"
)

// maxReplicas bounds --replicas.
const maxReplicas = 64

// UpstreamFlags are the flags of "mcpbridge upstream".
type upstreamFlags struct {
	listen   string
	era      string
	replicas int
	faults   []string
	list     bool
}

func (p *program) upstreamCommand() *cobra.Command {
	var f upstreamFlags
	cmd := &cobra.Command{
		Use:  "upstream",
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.upstream(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "")
	cmd.Flags().StringVar(&f.era, "era", bridgetest.Both.String(), "")
	cmd.Flags().IntVar(&f.replicas, "replicas", 1, "")
	cmd.Flags().StringArrayVar(&f.faults, "fault", nil, "")
	cmd.Flags().BoolVar(&f.list, "list-faults", false, "")
	return cmd
}

// upstream serves until a signal comes.
func (p *program) upstream(ctx context.Context, f upstreamFlags) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	if f.list {
		return listFaults(p.stdout)
	}
	opt, err := f.options()
	if err != nil {
		return err
	}
	up, err := bridgetest.Start(opt)
	if err != nil {
		return err
	}
	defer up.Close()
	for _, url := range up.URLs() {
		if _, err := fmt.Fprintln(p.stdout, url); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func (f upstreamFlags) options() (bridgetest.Options, error) {
	opt := bridgetest.Options{Listen: f.listen, Replicas: f.replicas}
	if f.replicas < 1 || f.replicas > maxReplicas {
		return opt, usagef("--replicas: wants a number from 1 to %d", maxReplicas)
	}
	era, err := bridgetest.ParseEra(f.era)
	if err != nil {
		return opt, usagef("--era: %v", err)
	}
	opt.Era = era
	for _, text := range f.faults {
		fault, err := bridgetest.ParseFault(text)
		if err != nil {
			return opt, usagef("--fault: %v (mcpbridge upstream --list-faults)", err)
		}
		opt.Faults = append(opt.Faults, fault)
	}
	return opt, nil
}

// listFaults prints each fault, what it does, and below that its argument.
func listFaults(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, fault := range bridgetest.FaultNames() {
		fmt.Fprintf(table, "%s\t%s\n", fault.Name, fault.Line)
		if fault.Argument != "" {
			fmt.Fprintf(table, "\t  :%s\n", fault.Argument)
		}
	}
	return table.Flush()
}
