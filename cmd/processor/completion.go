package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tallystick/tallystick/pipeline"
)

// addCompletion adds the command that prints the shells' scripts. It comes last: the library adds it only beside others.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil || cmd == root {
		return
	}
	cmd.Short = "Print a shell's script that completes commands, flags, values, topics and stores"
	cmd.Long = "completion prints a script that makes a shell complete this command: its commands and flags, the values of configuration keys, the\n" +
		"topics and stores of the job. It asks no broker. For bash: source <(processor completion bash)"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, shell := range cmd.Commands() {
		shell.Short = "Print the script for " + shell.Name()
		withoutFormat(shell, "it prints a script")
	}
}

// completeFormat completes -o.
func completeFormat(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var all []string
	for _, f := range formats {
		all = append(all, string(f))
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// complete offers the values of a key that has few; files where it names one; else nothing rather than wrong file names.
func (k *key) complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	switch {
	case strings.HasSuffix(k.name, ".location"):
		return nil, cobra.ShellCompDirectiveDefault
	case k.name == "state.dir":
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return k.values, cobra.ShellCompDirectiveNoFileComp
}

// firstArgument completes the first argument by what the job of the configuration has, and no further one. It asks no broker: a
// shell must not wait.
func (c *cli) firstArgument(of func(*pipeline.Pipeline) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return of(c.likelyJob(cmd)), cobra.ShellCompDirectiveNoFileComp
	}
}

// likelyJob is the job of the configuration, or of the defaults when that is not right yet.
func (c *cli) likelyJob(cmd *cobra.Command) *pipeline.Pipeline {
	cfg, err := c.config(cmd)
	if err != nil {
		cfg, _ = (&cli{}).config(&cobra.Command{}) // the defaults are right
	}
	return cfg.job()
}

// topicNames are the topics of a job, each with what it is used for.
func topicNames(p *pipeline.Pipeline) (names []string) {
	for _, t := range topologyTopics(p) {
		names = append(names, t.Topic+"\t"+strings.Join(t.Roles, ", "))
	}
	return names
}
