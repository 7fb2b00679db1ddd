package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tallystick/tallystick/topics"
)

// applyLimit bounds topics apply: a cluster takes its time to spread a new topic.
const applyLimit = time.Minute

// created is what apply did; the other actions are those of a plan.
const created topics.Action = "created"

func newTopics(c *cli) *cobra.Command {
	return group("topics", "Compare the job's topics with what it needs, and create what is missing", newTopicsPlan(c), newTopicsApply(c))
}

func newTopicsPlan(c *cli) *cobra.Command {
	return topicsCommand(c, &cobra.Command{
		Use:   "plan",
		Short: "Show what is missing, wrong or risky; change nothing",
		Long: "plan compares the topics that the job uses with those on the broker. It exits 0 when run would start, 2 when apply has something to create,\n" +
			"1 when something must not be used as it is. Every reason names its remedy; a setting that the broker does not report is no difference.",
		Example: "  processor topics plan\n  processor topics plan -o json | jq '.[] | select(.action != \"accept\")'",
	}, lookUpLimit, c.planTopics)
}

func newTopicsApply(c *cli) *cobra.Command {
	return topicsCommand(c, &cobra.Command{
		Use:   "apply",
		Short: "Create the missing topics, read them back and compare again",
		Long: "apply creates what plan shows as create, waits until it is visible and compares again. It creates nothing when anything is refused, and never\n" +
			"changes or deletes a topic that exists. It needs CREATE on the topics.",
		Example: "  processor topics apply --partitions 12",
	}, applyLimit, c.applyTopics)
}

// topicsCommand adds what plan and apply share: flags, connection, time limit.
func topicsCommand(c *cli, cmd *cobra.Command, limit time.Duration, do func(context.Context, *topics.Admin, []topics.Want, topics.Rules) error) *cobra.Command {
	configFlags(cmd, groupConnection, groupApplication, groupLedger, groupTopics)
	partitions := cmd.Flags().Int32("partitions", topics.DefaultPartitions, "partitions of a new input whose count nothing else decides; it can never change")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *partitions < 1 {
			return usageErrorf("--partitions %d: give 1 or more", *partitions)
		}
		cfg, err := c.config(cmd)
		if err != nil {
			return err
		}
		client, err := cfg.open(cmd.Context())
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), limit)
		defer cancel()
		rules := cfg.topicRules()
		rules.Partitions = *partitions
		return do(ctx, topics.NewAdmin(client), cfg.job().Topics(), rules)
	}
	return cmd
}

func (c *cli) planTopics(ctx context.Context, admin *topics.Admin, wants []topics.Want, rules topics.Rules) error {
	steps, err := admin.Plan(ctx, wants, rules)
	if err != nil {
		return err
	}
	if err := c.printSteps(steps); err != nil {
		return err
	}
	if err := steps.Refused(); err != nil {
		return refusedTopics(err, "")
	}
	if n := len(steps.Pending()); n > 0 {
		are, them := "topics are", "them"
		if n == 1 {
			are, them = "topic is", "it"
		}
		fmt.Fprintf(c.stderr, "%d %s missing: processor topics apply creates %s\n", n, are, them)
		return silent(exitUsage)
	}
	return nil
}

func (c *cli) applyTopics(ctx context.Context, admin *topics.Admin, wants []topics.Want, rules topics.Rules) error {
	before, err := admin.Plan(ctx, wants, rules)
	if err != nil {
		return err
	}
	steps, err := admin.Apply(ctx, wants, rules)
	for i, s := range steps {
		missed := func(b topics.Step) bool { return b.Topic == s.Topic && b.Action == topics.Create }
		if s.Action != topics.Create && slices.ContainsFunc(before, missed) {
			steps[i].Action = created
		}
	}
	if steps != nil {
		err = errors.Join(c.printSteps(steps), err)
	}
	if err != nil && steps.Refused() != nil {
		done := "nothing was created; "
		if slices.ContainsFunc(steps, func(s topics.Step) bool { return s.Action == created }) {
			done = ""
		}
		return refusedTopics(err, done)
	}
	return err
}

func refusedTopics(err error, done string) error {
	return fail(exitFailed, err, done+"run refuses these topics too; each line ends with its remedy")
}

// printSteps writes the steps; a table is followed by the settings of new topics and by the reasons, one a line.
func (c *cli) printSteps(steps topics.Steps) error {
	err := printList(c, []string{"topic", "role", "action", "partitions", "replicas"}, steps, stepCells)
	if err != nil || c.format.orTable() != formatTable {
		return err
	}
	var b strings.Builder
	for _, s := range steps.Pending() {
		for _, k := range slices.Sorted(maps.Keys(s.Config)) {
			fmt.Fprintf(&b, "%s  %s: %s=%s\n", topics.Create, s.Topic, k, s.Config[k])
		}
	}
	for _, r := range commonReasons(steps) {
		fmt.Fprintf(&b, "%-6s  %s: %s: %s\n", r.Level, strings.Join(r.topics, ", "), r.Key, strings.TrimSuffix(r.Cause+"; "+r.Remedy, "; "))
	}
	if b.Len() == 0 {
		return nil
	}
	return writeLines(c.stdout, "\n"+b.String())
}

// commonReason is a reason with all the topics that it is true of.
type commonReason struct {
	topics.Reason
	topics []string
}

// commonReasons says once what is true of several topics: on a small cluster most reasons are the same for all.
func commonReasons(steps topics.Steps) []*commonReason {
	var all []*commonReason
	for _, s := range steps {
		for _, r := range s.Reasons {
			i := slices.IndexFunc(all, func(c *commonReason) bool { return c.Reason == r })
			if i < 0 {
				i = len(all)
				all = append(all, &commonReason{Reason: r})
			}
			all[i].topics = append(all[i].topics, s.Topic)
		}
	}
	return all
}

func stepCells(s topics.Step) []string {
	roles := make([]string, len(s.Roles))
	for i, r := range s.Roles {
		roles[i] = string(r)
	}
	return []string{s.Topic, strings.Join(roles, ", "), string(s.Action), strconv.Itoa(int(s.Partitions)), replicas(s.Replication)}
}

func replicas(n int16) string {
	switch n {
	case -1:
		return "broker's default"
	case 0:
		return "unknown"
	}
	return strconv.Itoa(int(n))
}
