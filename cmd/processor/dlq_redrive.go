package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

type redriveFlags struct {
	letterFilter
	all, dryRun, yes bool
	stamp            string
	positions        []record.Position
}

const (
	stampOriginal = "original"
	stampNow      = "now"
)

func newDLQRedrive(c *cli) *cobra.Command {
	f := redriveFlags{stamp: stampOriginal}
	cmd := &cobra.Command{
		Use:   "redrive [partition/offset]…",
		Short: "Send dead letters to their input again, each once",
		Long: "redrive writes the dead letters that you choose to the topic they came from: key, value, headers and their order as they were, without the\n" +
			"headers that the engine added, on the partition of their key. It is a new input with an outcome of its own; the header redrive.source\n" +
			"holds the position of the first original, and a ledger-update carries it on as redrive_of. The order against other events of the same\n" +
			"key is not that of old: what came after the letter was processed before.\n\n" +
			"Each letter is sent once, whoever asks: the new input and a note in the dead letters are written in one transaction, and a letter that has\n" +
			"a note is left alone. A second redrive takes over from one that still runs, and from one that was killed; neither sends anything twice.\n\n" +
			"Without --yes it shows what it would do, and asks when there is a terminal to answer at (exit 2 when it did nothing). --all leaves out what\n" +
			"would come back whatever was fixed, such as conflicts; name those by position or --reason.\n\n" +
			"--stamp original gives a record its own time back, so that an event whose id was forgotten meanwhile is not applied a second time: it\n" +
			"becomes a dead letter again (outside_dedupe_window). --stamp now makes it a new event: first look into ledger-updates for its id.",
		Example: "  processor dlq redrive 3/17 3/18\n  processor dlq redrive --reason unknown_type --since 2h\n  processor dlq redrive --all --yes",
	}
	cmd.Args = cobra.ArbitraryArgs
	configFlags(cmd, groupConnection, groupApplication)
	keyFlags(cmd, "partitioner")
	f.flags(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "all dead letters that were not redriven yet")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only show what would be sent (exit 2 if anything)")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&f.stamp, "stamp", stampOriginal, "record time of the new input: original or now")
	run := c.connected(0, func(ctx context.Context, cfg Config, client *kgo.Client, args []string) (err error) {
		if f.positions, err = letterPositions(args, topics.DeadLetters(cfg.ApplicationID)); err != nil {
			return err
		}
		return c.dlqRedrive(ctx, cfg, client, f)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(args); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

// check refuses flags that do not go together.
func (f redriveFlags) check(args []string) error {
	switch {
	case len(args) == 0 && !f.all && f.empty():
		return usageErrorf("which dead letters? name positions, --reason, --stage, --since or --all")
	case len(args) > 0 && (f.all || !f.empty()):
		return usageErrorf("positions name the dead letters: give no --all, --reason, --stage or --since with them")
	case f.dryRun && f.yes:
		return usageErrorf("--dry-run sends nothing and --yes sends: give one")
	case f.stamp != stampOriginal && f.stamp != stampNow:
		return usageErrorf("--stamp %q: use original or now", f.stamp)
	}
	return nil
}

// named reports whether the operator asked for this letter or its reason by name.
func (f redriveFlags) named() bool { return len(f.positions) > 0 || f.reason != "" }

func (f redriveFlags) takes(l *deadLetter) bool {
	if len(f.positions) > 0 {
		return slices.Contains(f.positions, l.at)
	}
	return f.letterFilter.takes(l)
}

func (c *cli) dlqRedrive(ctx context.Context, cfg Config, client *kgo.Client, f redriveFlags) error {
	r := &redrive{client: client, cfg: cfg, flags: f, topic: topics.DeadLetters(cfg.ApplicationID), by: c.operator()}
	plan, _, err := r.plan(ctx, &letterScan{client: client, topic: r.topic})
	if err != nil {
		return noLetters(err, r.topic)
	}
	n := plan.count(sendIt)
	if n == 0 || f.dryRun {
		return errors.Join(plan.print(c, f), plan.verdict(f))
	}
	if !f.yes {
		if err := plan.print(c, f); err != nil {
			return err
		}
		if err := c.confirm(fmt.Sprintf("send %s to %s again?", counted(n, "dead letter"), plan.targets())); err != nil {
			return err
		}
	}
	done, err := r.send(ctx, c, n)
	switch {
	case err != nil && len(done.rows) == 0:
		return err
	case err != nil:
		return errors.Join(done.print(c, f), err)
	}
	return errors.Join(done.print(c, f), done.verdict(f))
}

// action is what is done with a letter.
type action string

const (
	sendIt      action = "redrive"
	sentNow     action = "redriven"
	sentAlready action = "already"
	leftOut     action = "left out"
)

// redriveRow is one chosen letter and its fate.
type redriveRow struct {
	Position string     `json:"position"`
	Reason   string     `json:"reason"`
	Action   action     `json:"action"`
	To       string     `json:"to,omitempty"`     // topic/partition; once sent, with its offset
	Source   string     `json:"source,omitempty"` // value of redrive.source
	Stamp    *time.Time `json:"timestamp,omitempty"`
	Why      string     `json:"why,omitempty"`
	futile   bool
	letter   *deadLetter
	target   *redriveTarget
}

func (r *redriveRow) cells() []string {
	stamp := ""
	if r.Stamp != nil {
		stamp = r.Stamp.Format(timestampLayout)
	}
	return []string{r.Position, shown([]byte(r.Reason)), string(r.Action), r.To, stamp, r.Source, r.Why}
}

// redrivePlan is the fate of every chosen letter.
type redrivePlan struct{ rows []*redriveRow }

func (p *redrivePlan) count(a action) (n int) {
	for _, r := range p.rows {
		if r.Action == a {
			n++
		}
	}
	return n
}

// targets names the topics that are written to.
func (p *redrivePlan) targets() string {
	var names []string
	for _, r := range p.rows {
		if r.Action == sendIt && !slices.Contains(names, r.target.topic) {
			names = append(names, r.target.topic)
		}
	}
	return joinAnd(names)
}

// maxRedriveRows is how many rows a table has: thousands would push what matters off the screen.
const maxRedriveRows = 40

func (p *redrivePlan) print(c *cli, f redriveFlags) error {
	header := []string{"position", "reason", "action", "to", "stamped", "redrive.source", "why"}
	rows, more := p.rows, 0
	if c.format.orTable() == formatTable {
		if len(f.positions) == 0 { // of those that nobody named, what was done before is only counted
			rows = slices.DeleteFunc(slices.Clone(rows), func(r *redriveRow) bool { return r.Action == sentAlready })
		}
		more = max(0, len(rows)-maxRedriveRows)
		rows = rows[:len(rows)-more]
	}
	if err := printList(c, header, rows, (*redriveRow).cells); err != nil {
		return err
	}
	if more > 0 {
		fmt.Fprintf(c.stderr, "and %d more rows: -o jsonl prints all\n", more)
	}
	fmt.Fprintf(c.stderr, "chosen: %s\n", p.summary())
	return nil
}

func (p *redrivePlan) summary() string {
	if len(p.rows) == 0 {
		return "no dead letter"
	}
	return fmt.Sprintf("%s: %d to redrive, %d redriven now, %d redriven before, %d left out",
		counted(len(p.rows), "dead letter"), p.count(sendIt), p.count(sentNow), p.count(sentAlready), p.count(leftOut))
}

// verdict is the exit code: 2 while something is still to be sent, 4 when a named letter is not there, 1 when one had to be left out.
func (p *redrivePlan) verdict(f redriveFlags) error {
	if missing := p.missing(f.positions); missing != "" {
		return fail(exitNotFound, fmt.Errorf("no dead letter at %s", missing), "processor dlq list --each shows the positions; what retention deleted is gone")
	}
	if p.count(sendIt) > 0 {
		return silent(exitUsage)
	}
	for _, r := range p.rows {
		if r.Action == leftOut && (!r.futile || f.named()) {
			return fail(exitFailed, fmt.Errorf("%s left out", counted(p.count(leftOut), "dead letter")), "the column why says what to do")
		}
	}
	return nil
}

func (p *redrivePlan) missing(positions []record.Position) string {
	for _, at := range positions {
		if !slices.ContainsFunc(p.rows, func(r *redriveRow) bool { return r.letter.at == at }) {
			return at.String()
		}
	}
	return ""
}
