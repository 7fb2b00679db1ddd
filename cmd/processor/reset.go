package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// resetLimit bounds reset apply: deleting and making topics takes a cluster its time.
const resetLimit = 3 * time.Minute

const (
	toEarliest = "earliest"
	toLatest   = "latest"
	toTime     = "time"
	toOffset   = "offset"
	toMarker   = "marker"
	skipLost   = "lost"
)

// resetFlags say where the job is to start.
type resetFlags struct {
	to       string
	offsets  []string
	toMarker bool
	skipLost bool
	yes      bool
	at       time.Time                  // of a time
	given    map[string]map[int32]int64 // of offsets: topic, partition
}

func (f *resetFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.to, "to", "", "throw the state away and start over: earliest, latest, or a time like 2026-01-31T12:00:00Z")
	cmd.Flags().StringArrayVar(&f.offsets, "to-offset", nil, "throw the state away and start over at topic/partition=offset; may be repeated, the others: earliest")
	cmd.Flags().BoolVar(&f.toMarker, "to-marker", false, "keep the state, and move the group's offsets to what the state has applied")
	cmd.Flags().BoolVar(&f.skipLost, "skip-lost", false, "keep the state, and go on behind input that retention deleted before it was processed: it is given up for good")
}

// mode reads the flags: what the reset does; empty when none was given.
func (f *resetFlags) mode() (string, error) {
	n := 0
	for _, given := range []bool{f.to != "", len(f.offsets) > 0, f.toMarker, f.skipLost} {
		if given {
			n++
		}
	}
	switch {
	case n > 1:
		return "", usageErrorf("--to, --to-offset, --to-marker and --skip-lost are four ways to reset: give one")
	case f.toMarker:
		return toMarker, nil
	case f.skipLost:
		return skipLost, nil
	case len(f.offsets) > 0:
		return toOffset, f.readOffsets()
	case f.to == "", f.to == toEarliest, f.to == toLatest:
		return f.to, nil
	}
	at, err := time.Parse(time.RFC3339, f.to)
	if err != nil {
		return "", usageErrorf("--to %q: use earliest, latest or a time like 2026-01-31T12:00:00Z", f.to)
	}
	f.at = at
	return toTime, nil
}

func (f *resetFlags) readOffsets() error {
	f.given = map[string]map[int32]int64{}
	for _, text := range f.offsets {
		name, offset, _ := strings.Cut(text, "=")
		i := strings.LastIndexByte(name, '/')
		p, err1 := strconv.ParseInt(name[i+1:], 10, 32)
		o, err2 := strconv.ParseInt(offset, 10, 64)
		if i <= 0 || err1 != nil || err2 != nil || p < 0 || o < 0 {
			return usageErrorf("--to-offset %q: write topic/partition=offset, like credit-events/3=1042", text)
		}
		topic := name[:i]
		if f.given[topic] == nil {
			f.given[topic] = map[int32]int64{}
		}
		if _, twice := f.given[topic][int32(p)]; twice {
			return usageErrorf("--to-offset %s is given twice", name)
		}
		f.given[topic][int32(p)] = o
	}
	return nil
}

func newReset(c *cli) *cobra.Command {
	return group("reset", "Start the job over, or put its offsets right: the way out when a task refuses to run", newResetPlan(c), newResetApply(c))
}

const resetLong = "Two kinds. --to-marker keeps the state and moves the group's offsets to what the state has applied: for offsets that were moved by a tool, deleted, or\n" +
	"lost. --skip-lost does so too, and has tasks go on behind what retention deleted of their input unread (I4): those events are in no balance, for\n" +
	"good; a note in the dead letters names them, and verify cannot decide these partitions any more. --to and --to-offset throw the state away, balances and remembered ids, and start over there: the state topics are deleted and made\n" +
	"again, outputs and dead letters stay as they are. Every instance must be stopped; members are named.\n\n"

func newResetPlan(c *cli) *cobra.Command {
	var f resetFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what a reset would delete, move and keep, and what that means; change nothing",
		Long: "plan lists what apply would do with the same flags. Without any it shows where every task stands and which ways there are. It exits 2 when\n" +
			"apply has something to do, 1 when apply would refuse, 0 when nothing is to be done.\n\n" + resetLong,
		Example: "  processor reset plan\n  processor reset plan --to-marker\n  processor reset plan --skip-lost\n  processor reset plan --to earliest\n  processor reset plan --to-offset credit-events/3=1042",
	}
	return c.resetCommand(cmd, &f, lookUpLimit, c.planReset)
}

func newResetApply(c *cli) *cobra.Command {
	var f resetFlags
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Reset, then read back and compare",
		Long: "apply does what plan shows, after asking (or with --yes), in an order that a crash cannot make harmful: first the group's offsets are marked as\n" +
			"under reset, so that no instance runs a task on what is half done; then the topics; then a fresh applied marker for each task and its\n" +
			"offset. Run it again after a crash: it begins anew. At the end it reads everything back.\n\n" + resetLong,
		Example: "  processor reset apply --to-marker --yes",
	}
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	return c.resetCommand(cmd, &f, 0, c.applyReset)
}

func (c *cli) resetCommand(cmd *cobra.Command, f *resetFlags, limit time.Duration, do func(context.Context, *reset) error) *cobra.Command {
	configFlags(cmd, groupConnection, groupApplication, groupLedger, groupTopics)
	f.flags(cmd)
	var mode string
	run := c.connected(limit, func(ctx context.Context, cfg Config, client *kgo.Client, _ []string) error {
		return do(ctx, &reset{cli: c, cfg: cfg, job: cfg.job(), client: client, flags: *f, mode: mode})
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if mode, err = f.mode(); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

func (c *cli) planReset(ctx context.Context, r *reset) error {
	p, err := r.plan(ctx)
	if err != nil {
		return err
	}
	if err := printOne(c, p, p.text()); err != nil {
		return err
	}
	if err := p.refusal(); err != nil {
		return err
	}
	if p.pending() {
		return silent(exitUsage)
	}
	return nil
}

func (c *cli) applyReset(ctx context.Context, r *reset) error {
	if r.mode == "" {
		return usageErrorf("where to? give --to-marker, --skip-lost, --to or --to-offset; processor reset plan shows where the tasks stand")
	}
	looking, cancel := context.WithTimeout(ctx, lookUpLimit)
	defer cancel()
	p, err := r.plan(looking)
	if err != nil {
		return err
	}
	if err := p.refusal(); err != nil {
		return errors.Join(printOne(c, p, p.text()), err)
	}
	if !p.pending() {
		return printOne(c, p, p.text())
	}
	if !r.flags.yes {
		if err := printOne(c, p, p.text()); err != nil {
			return err
		}
		if err := c.confirm(p.question()); err != nil {
			return err
		}
	}
	acting, cancel := context.WithTimeout(ctx, resetLimit)
	defer cancel()
	if err := r.apply(acting, p); err != nil {
		return fail(exitFailed, fmt.Errorf("the reset is not complete: %w", err), rightsFirst(err, "run the same command again: it begins anew; until then no instance runs a task on what is half done"))
	}
	return printOne(c, p, p.text())
}
