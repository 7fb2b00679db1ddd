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

	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

func newDLQ(c *cli) *cobra.Command {
	return group("dlq", "Look at the dead letters, and send them to their input again", newDLQList(c), newDLQShow(c), newDLQRedrive(c))
}

// connected is a command's RunE with what most need first: configuration, and a client whose brokers were looked at. limit bounds the whole; 0 leaves that to the signal.
func (c *cli) connected(limit time.Duration, do func(ctx context.Context, cfg Config, client *kgo.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cfg, err := c.config(cmd)
		if err != nil {
			return err
		}
		client, err := cfg.open(cmd.Context())
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := cmd.Context(), context.CancelFunc(func() {})
		if limit > 0 {
			ctx, cancel = context.WithTimeout(ctx, limit)
		}
		defer cancel()
		return do(ctx, cfg, client, args)
	}
}

// letterFilter chooses dead letters. Its zero value takes all.
type letterFilter struct {
	reason, stage string
	since         timeFlag
}

func (f *letterFilter) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.reason, "reason", "", "only those with this reason, such as malformed_json")
	cmd.Flags().StringVar(&f.stage, "stage", "", "only those of this stage")
	cmd.Flags().Var(&f.since, "since", "only those written since: a time like 2026-01-31T12:00:00Z, or a duration like 90m")
}

func (f letterFilter) takes(l *deadLetter) bool {
	return (f.reason == "" || l.Reason == f.reason) && (f.stage == "" || l.Stage == f.stage) && !l.Written.Before(f.since.Time)
}

func (f letterFilter) empty() bool { return f.reason == "" && f.stage == "" && f.since.IsZero() }

// timeFlag is a moment, written as such or as how long ago it was. The zero value is the beginning of time.
type timeFlag struct{ time.Time }

func (t *timeFlag) String() string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
func (t *timeFlag) Type() string { return "time" }
func (t *timeFlag) Set(s string) error {
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		t.Time = at
		return nil
	}
	if ago, err := duration(s); err == nil {
		t.Time = time.Now().Add(-ago)
		return nil
	}
	return fmt.Errorf("%q is neither a time like 2026-01-31T12:00:00Z nor a duration like 90m or 2d", s)
}

// parsePosition reads topic/partition/offset, or partition/offset of a topic that goes without saying.
func parsePosition(s, topic string) (record.Position, error) {
	parts := strings.Split(s, "/")
	if len(parts) == 2 {
		parts = append([]string{topic}, parts...)
	}
	if len(parts) == 3 {
		p, err1 := strconv.ParseInt(parts[1], 10, 32)
		o, err2 := strconv.ParseInt(parts[2], 10, 64)
		if errors.Join(err1, err2) == nil && p >= 0 && o >= 0 && topics.CheckName(parts[0]) == nil {
			return record.Position{Topic: parts[0], Partition: int32(p), Offset: o}, nil
		}
	}
	return record.Position{}, fmt.Errorf("%q is no position: write partition/offset, as dlq list --each prints it", s)
}

// letterPositions reads the positions that an operator names; they must be of the job's dead letters.
func letterPositions(args []string, topic string) ([]record.Position, error) {
	var out []record.Position
	for _, a := range args {
		p, err := parsePosition(a, topic)
		if err == nil && p.Topic != topic {
			err = fmt.Errorf("%q: the dead letters of this job are in %s", a, topic)
		}
		if err != nil {
			return nil, fail(exitUsage, err, "processor dlq list --each shows the positions")
		}
		out = append(out, p)
	}
	return out, nil
}
