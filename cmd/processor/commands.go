package main

import "github.com/spf13/cobra"

// subcommands lists every command of the binary.
func subcommands(c *cli) []*cobra.Command {
	return []*cobra.Command{
		newDemo(c),
		newDemoChild(c),
		newRun(c),
		newTopics(c),
		newFeed(c),
		newTail(c),
		newQuery(c),
		newLag(c),
		newDLQ(c),
		newTx(c),
		newACLs(c),
		newFence(c),
		newReset(c),
		newVerify(c),
		newDoctor(c),
		newConfig(c),
		newTopology(c),
		newVersion(c),
	}
}
