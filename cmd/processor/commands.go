package main

import "github.com/spf13/cobra"

// subcommands lists every command of the binary, in the order of a first day with it.
func subcommands(c *cli) []*cobra.Command {
	return []*cobra.Command{
		newDemo(c),
		newDemoChild(c),
		newRun(c),
		newTopics(c),
		newFeed(c),
		newTail(c),
		newLag(c),
		newVerify(c),
		newConfig(c),
		newVersion(c),
	}
}
