package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// cli is what the command sees of the world. main fills it; a test fills it with buffers.
type cli struct {
	stdin   io.Reader
	stdout  io.Writer // data only
	stderr  io.Writer // logs, progress, errors
	environ []string  // KEY=value, as os.Environ returns it

	format outputFormat
}

// execute runs one command line and returns the exit code; the error, if any, has been printed.
func (c *cli) execute(ctx context.Context, args []string) exitCode {
	root := newRoot(c)
	root.SetArgs(args)
	return exitOf(ctx, c.stderr, root.ExecuteContext(ctx), c.colour(c.stderr))
}

// newRoot builds the whole command tree. Errors are neither printed nor exited on below it.
func newRoot(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:           "processor",
		Short:         "The ledger job on Kafka, exactly once",
		Long:          "processor reads credit-events, keeps a balance per account and writes ledger-updates: every input has exactly one outcome.\n\nStart with: processor demo",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fail(exitUsage, inWords(err), "see "+cmd.CommandPath()+" --help")
	})
	root.Version = readVersion().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentFlags().VarP(&c.format, "output", "o", "format of stdout: table, json or jsonl")
	root.AddCommand(subcommands(c)...)
	_ = root.RegisterFlagCompletionFunc("output", completeFormat) // fails only for a flag that does not exist
	addCompletion(root)
	refuseStrayArguments(root)
	return root
}

// group is a command that only holds others.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(subs...)
	return cmd
}

// refuseStrayArguments makes every complaint about arguments a usage error; a command that names no rule takes none.
func refuseStrayArguments(cmd *cobra.Command) {
	rule := cmd.Args
	if rule == nil {
		rule = noArguments
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		return asUsage(cmd, rule(cmd, args))
	}
	for _, sub := range cmd.Commands() {
		refuseStrayArguments(sub)
	}
}

func asUsage(cmd *cobra.Command, err error) error {
	if f := (*failure)(nil); err == nil || errors.As(err, &f) {
		return err
	}
	return fail(exitUsage, err, "see "+cmd.CommandPath()+" --help")
}

// exactlyOne is the rule of a command that takes one argument, which is a what.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s takes one %s, got %s", cmd.CommandPath(), what, counted(len(args), "argument"))
		}
		return nil
	}
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return fmt.Errorf("%s takes no argument, got %q", cmd.CommandPath(), args[0])
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fail(exitUsage, fmt.Errorf("unknown command %q", args[0]), "did you mean "+strings.Join(near, " or ")+"?")
	}
	return fmt.Errorf("unknown command %q", args[0])
}
