package main

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/spf13/cobra"
)

// userResolvesFlag names the job whose resolution through this bridge is a
// person's word. It is for "jobs resolve", which starts a bridge for one job.
const userResolvesFlag = "user-resolves"

// execute runs the command that args name.
func (p *program) execute(ctx context.Context, args []string) error {
	root := p.alone()
	if slices.ContainsFunc(args, isCommand) {
		p.addCommands(root)
	}
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// commandNames are the words for which there is a command.
func commandNames() []string {
	return []string{"classify", "completion", "demo", "help", "jobs", "login", "logout", "upstream", "version", "whoami"}
}

// isCommand reports whether a word may ask for a command, or is what a shell asks
// cobra with. A host that starts the bridge says none of these, and need not wait
// until all commands with their flags are made.
func isCommand(word string) bool {
	return slices.Contains(commandNames(), word) || word == cobra.ShellCompRequestCmd || word == cobra.ShellCompNoDescRequestCmd
}

// root is the bridge itself, with all other commands below it.
func (p *program) root() *cobra.Command {
	root := p.alone()
	p.addCommands(root)
	return root
}

// alone is the bridge itself.
func (p *program) alone() *cobra.Command {
	var version bool
	var userResolves string
	root := &cobra.Command{
		Use:           "mcpbridge [flags] <url | name>",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, words []string) error {
			if version {
				return p.printVersion(false)
			}
			p.userResolves = jobs.Handle(userResolves)
			return orCommand(words, p.bridge(cmd.Context(), bridgeFlags(cmd), words))
		},
	}
	root.ValidArgsFunction = p.completeServer
	addBridgeFlags(root)
	root.Flags().BoolVar(&version, "version", false, "")
	root.Flags().StringVar(&userResolves, userResolvesFlag, "", "")
	_ = root.Flags().MarkHidden(userResolvesFlag) // it exists: that is the only error
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(p.stdout, cmd) })
	return root
}

func (p *program) addCommands(root *cobra.Command) {
	root.SetHelpCommand(helpCommand())
	root.AddCommand(p.loginCommand(), p.logoutCommand(), p.whoamiCommand())
	root.AddCommand(p.jobsCommand(), p.demoCommand(), p.classifyCommand(), p.upstreamCommand(), p.versionCommand())
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args = cobra.ArbitraryArgs
		completion.RunE = func(*cobra.Command, []string) error {
			return usagef("completion: name a shell: bash, fish, powershell or zsh")
		}
	}
}

// completeServer offers the servers of config.toml to a shell.
func (p *program) completeServer(cmd *cobra.Command, words []string, _ string) ([]string, cobra.ShellCompDirective) {
	r := resolver{merged: layer{}}
	file := r.readFile(bridgeFlags(cmd), environment(p.env), defaultConfigPath())
	if len(words) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return file.names(), cobra.ShellCompDirectiveNoFileComp
}

// orCommand adds to the error about an unknown server the command that may have
// been meant.
func orCommand(words []string, err error) error {
	var config *configError
	if len(words) != 1 || isAddress(words[0]) || !errors.As(err, &config) {
		return err
	}
	if name := nearest(words[0], commandNames()); name != "" {
		return configf("%v; or was the command %s meant?", err, name)
	}
	return err
}

// noWords refuses arguments that are no flags. They are not repeated.
func noWords(cmd *cobra.Command, words []string) error {
	if len(words) > 0 {
		return usagef("%s takes no arguments", cmd.Name())
	}
	return nil
}

// helpCommand is "mcpbridge help [command]".
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "help [command]",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, words []string) error {
			about, rest, err := cmd.Root().Find(words)
			if err != nil || len(rest) > 0 {
				return usagef("no help for that: there is no such command; see mcpbridge help")
			}
			return about.Help()
		},
	}
}

// printHelp writes the text about cmd or the command it belongs to, or what
// cobra knows of its own commands.
func printHelp(w io.Writer, cmd *cobra.Command) {
	text := helpTexts()[cmd.Name()]
	if parent := cmd.Parent(); text == "" && parent.HasParent() {
		text = helpTexts()[parent.Name()]
	}
	if text == "" {
		text = cmd.Long + "\n\n" + cmd.UsageString()
	}
	_, _ = io.WriteString(w, text)
}
