package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/topics"
)

type dlqListFlags struct {
	letterFilter
	each  bool
	limit int
}

func newDLQList(c *cli) *cobra.Command {
	var f dlqListFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Count the dead letters by reason, or list them",
		Long: "list reads the committed dead letters and prints, for each stage and reason, how many there are, how many were redriven, when the first and the\n" +
			"last were written, and what to do. --each prints the letters themselves, the newest last; dlq show prints one with all that it holds.",
		Example: "  processor dlq list\n  processor dlq list --each --reason malformed_json --since 2h\n  processor dlq list --each --limit 0 -o jsonl | jq -r .position",
	}
	configFlags(cmd, groupConnection, groupApplication)
	f.flags(cmd)
	cmd.Flags().BoolVar(&f.each, "each", false, "one row for each dead letter, not for each reason")
	cmd.Flags().IntVar(&f.limit, "limit", 100, "with --each: the newest n, 0: all")
	run := c.connected(0, func(ctx context.Context, cfg Config, client *kgo.Client, _ []string) error {
		return c.dlqList(ctx, cfg, client, f)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case f.limit < 0:
			return usageErrorf("--limit %d: give 0 or more", f.limit)
		case cmd.Flags().Changed("limit") && !f.each:
			return usageErrorf("--limit belongs to --each: the counts are of all dead letters")
		}
		return run(cmd, args)
	}
	return cmd
}

func (c *cli) dlqList(ctx context.Context, cfg Config, client *kgo.Client, f dlqListFlags) error {
	scan := &letterScan{client: client, topic: topics.DeadLetters(cfg.ApplicationID)}
	book, err := scanBook(ctx, scan, f.takes)
	if err != nil {
		return noLetters(err, scan.topic)
	}
	scan.sayHidden(c)
	if !f.each {
		return printList(c, []string{"stage", "reason", "letters", "redriven", "first", "last", "what to do"}, reasonsOf(book.letters), reasonRow.cells)
	}
	slices.SortStableFunc(book.letters, func(a, b *deadLetter) int { return a.Written.Compare(b.Written) })
	rows := book.letters
	if f.limit > 0 && len(rows) > f.limit {
		fmt.Fprintf(c.stderr, "the newest %d of %d dead letters; --limit 0 lists all\n", f.limit, len(rows))
		rows = rows[len(rows)-f.limit:]
	}
	return printList(c, []string{"position", "written", "stage", "reason", "input", "redriven", "message"}, rows, (*deadLetter).cells)
}

func (l *deadLetter) cells() []string {
	again := ""
	if l.Redriven != nil {
		again = l.Redriven.As
	}
	return []string{l.Position, l.Written.Format(time.RFC3339), shown([]byte(l.Stage)), shown([]byte(l.Reason)), shown([]byte(l.Source)), again, shown([]byte(l.Message))}
}

// reasonRow sums up the letters of one stage and reason.
type reasonRow struct {
	Stage    string    `json:"stage"`
	Reason   string    `json:"reason"`
	Letters  int       `json:"letters"`
	Redriven int       `json:"redriven"`
	First    time.Time `json:"first"` // written
	Last     time.Time `json:"last"`
	Advice   string    `json:"what_to_do"`
}

func (r reasonRow) cells() []string {
	return []string{shown([]byte(r.Stage)), shown([]byte(r.Reason)), strconv.Itoa(r.Letters), strconv.Itoa(r.Redriven), r.First.Format(time.RFC3339), r.Last.Format(time.RFC3339), r.Advice}
}

// reasonsOf sums up, the most frequent first.
func reasonsOf(letters []*deadLetter) []reasonRow {
	by := map[[2]string]*reasonRow{}
	for _, l := range letters {
		k := [2]string{l.Stage, l.Reason}
		r := by[k]
		if r == nil {
			r = &reasonRow{Stage: l.Stage, Reason: l.Reason, First: l.Written, Last: l.Written, Advice: adviceOf(l.Reason).text}
			by[k] = r
		}
		r.Letters++
		if l.Redriven != nil {
			r.Redriven++
		}
		if l.Written.Before(r.First) {
			r.First = l.Written
		}
		if l.Written.After(r.Last) {
			r.Last = l.Written
		}
	}
	rows := make([]reasonRow, 0, len(by))
	for _, r := range by {
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b reasonRow) int {
		return cmp.Or(b.Letters-a.Letters, cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Reason, b.Reason))
	})
	return rows
}
