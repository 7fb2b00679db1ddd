package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/ledger/generate"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/topics"
)

// bufferBytes bounds what waits for the broker; a single record may be larger.
const bufferBytes = 64 << 20

type feedFlags struct {
	topic          string
	layout         string
	fromTail       bool
	keepPartitions bool
	rate           float64
	workload       generate.Config
}

func newFeed(c *cli) *cobra.Command {
	f := feedFlags{workload: generate.Config{}}
	cmd := &cobra.Command{
		Use:   "feed [file]",
		Short: "Write events to the input topic, from a file, standard input or a generator",
		Long: "feed makes each line one record: the line is the value, byte for byte, and its account_id the key. A line without one is sent without a\n" +
			"key: the processor says what is wrong with it. Blank lines are passed over. It writes idempotently with acks=all, and says what was\n" +
			"acknowledged; a record that the topic cannot take is refused by name, and the rest goes on (exit 1).\n\n" +
			"--generate makes a workload instead; the same seed gives the same events, so feeding one seed twice gives duplicates only.\n" +
			"A format (-f) is franz-go's: https://pkg.go.dev/github.com/twmb/franz-go/pkg/kgo#NewRecordReader",
		Example: "  processor feed events.jsonl\n  processor feed --generate 5000 --duplicates 5% --malformed 1%\n" +
			"  processor tail credit-events --to-end -o jsonl | processor feed --from-tail --topic copy",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%s takes one file at most, got %d", cmd.CommandPath(), len(args))
			}
			return nil
		},
	}
	configFlags(cmd, groupConnection)
	cmd.Flags().StringVar(&f.topic, "topic", topology.Credits.Name, "the topic to write to; it must exist")
	_ = cmd.RegisterFlagCompletionFunc("topic", c.firstArgument(topicNames)) // fails only for a flag that does not exist
	cmd.Flags().StringVarP(&f.layout, "format", "f", "", "format of the input; keys are then read from it or absent")
	cmd.Flags().BoolVar(&f.fromTail, "from-tail", false, "the input is what tail -o jsonl wrote: keys, headers and times come back as they were")
	cmd.Flags().BoolVar(&f.keepPartitions, "keep-partitions", false, "with --from-tail: write to the partition of each line, not to that of its key")
	cmd.Flags().Float64Var(&f.rate, "rate", 0, "records a second; 0: as fast as the broker takes them")
	workloadFlags(cmd, &f.workload)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return c.feed(cmd, args, f) }
	return cmd
}

func workloadFlags(cmd *cobra.Command, w *generate.Config) {
	cmd.Flags().IntVar(&w.Events, "generate", 0, "make n events instead of reading any")
	cmd.Flags().IntVar(&w.Accounts, "accounts", 1000, "with --generate: over how many accounts")
	cmd.Flags().Uint64Var(&w.Seed, "seed", 1, "with --generate: the same seed gives the same events")
	for _, s := range []struct {
		share *float64
		name  string
		what  string
	}{
		{&w.Duplicates, "duplicates", "delivered again with the same content"},
		{&w.Conflicts, "conflicts", "delivered again with other content"},
		{&w.Malformed, "malformed", "no events at all"},
		{&w.Refused, "refused", "well-formed, but against a rule"},
	} {
		cmd.Flags().Var((*shareFlag)(s.share), s.name, "with --generate: which share is "+s.what+", as 5% or 0.05")
	}
}

// shareFlag is a fraction, written as 0.05 or 5%.
type shareFlag float64

func (s *shareFlag) String() string { return strconv.FormatFloat(float64(*s)*100, 'f', -1, 64) + "%" }
func (s *shareFlag) Type() string   { return "share" }
func (s *shareFlag) Set(text string) error {
	digits, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("%q is no share: write 5%% or 0.05", text)
	}
	*s = shareFlag(v)
	return nil
}

// check refuses flags that do not go together.
func (f feedFlags) check(cmd *cobra.Command, args []string) error {
	generating := cmd.Flags().Changed("generate")
	for _, name := range []string{"accounts", "seed", "duplicates", "conflicts", "malformed", "refused"} {
		if cmd.Flags().Changed(name) && !generating {
			return usageErrorf("--%s belongs to --generate n", name)
		}
	}
	switch {
	case f.workload.Accounts < 1:
		return usageErrorf("--accounts %d: give 1 or more", f.workload.Accounts)
	case generating && (len(args) > 0 || f.layout != "" || f.fromTail):
		return usageErrorf("--generate makes the input: give no file, --format or --from-tail with it")
	case f.layout != "" && f.fromTail:
		return usageErrorf("--format and --from-tail are two ways to read the input: give one")
	case f.keepPartitions && !f.fromTail:
		return usageErrorf("--keep-partitions needs --from-tail: only there a line names its partition")
	case !(f.rate >= 0 && f.rate <= 1e9):
		return usageErrorf("--rate %v: give records a second, 0 for no limit", f.rate)
	}
	return nil
}

// copies reports whether the input is records and not events.
func (f feedFlags) copies() bool { return f.fromTail || f.layout != "" }

// checkTopic keeps events out of the topics that the job itself writes: one foreign record there breaks its history for good.
// Records of tail and of a format are let through: putting a copy back can be what somebody wants.
func (f feedFlags) checkTopic(cfg Config) error {
	if f.copies() {
		return nil
	}
	for _, w := range cfg.job().Topics() {
		if w.Name == f.topic && w.Role != topics.RoleInput {
			return usageErrorf("--topic %s: the job itself writes it, and an event there breaks its history: feed %s", f.topic, topology.Credits.Name)
		}
	}
	return nil
}

func (c *cli) feed(cmd *cobra.Command, args []string, f feedFlags) error {
	if err := f.check(cmd, args); err != nil {
		return err
	}
	cfg, err := c.config(cmd)
	if err != nil {
		return err
	}
	if err := f.checkTopic(cfg); err != nil {
		return err
	}
	source, closeInput, err := c.openSource(cmd, args, f)
	if err != nil {
		return err
	}
	defer func() { _ = closeInput() }() // it was only read
	target, err := describeTarget(cmd.Context(), cfg, f.topic)
	if err != nil {
		return err
	}
	if target.keyed && !f.copies() {
		return fail(exitUsage, fmt.Errorf("topic %s is compacted: the next event of an account would delete this one", f.topic),
			"events belong into a topic with cleanup.policy=delete; --from-tail and --format copy records into a compacted one")
	}
	client, err := cfg.newClient(target.options(pipeline.Partitioner(cfg.Partitioner), f.keepPartitions)...)
	if err != nil {
		return err
	}
	progress := newProgress(c, "feed", int64(f.workload.Events))
	feeder := &feeder{client: client, target: target, report: newFeedReport(f.topic), progress: progress, rate: f.rate}
	err = feeder.run(cmd.Context(), source)
	progress.done()
	if g, ok := source.(*generated); ok {
		feeder.report.expect(g)
	}
	return errors.Join(printOne(c, feeder.report, feeder.report.text()), feeder.report.failure(err))
}

// openSource is the input that the flags name.
func (c *cli) openSource(cmd *cobra.Command, args []string, f feedFlags) (feedSource, func() error, error) {
	nothing := func() error { return nil }
	if cmd.Flags().Changed("generate") {
		g, err := newGenerated(f.workload)
		return g, nothing, fail(exitUsage, err, "see processor feed --help")
	}
	in, closeInput := c.stdin, nothing
	if len(args) == 1 && args[0] != "-" {
		file, err := os.Open(args[0])
		if err != nil {
			return nil, nil, fail(exitUsage, err, "give the path of a file with one event a line, or - for standard input")
		}
		in, closeInput = file, file.Close
	}
	switch {
	case f.layout != "":
		s, err := newFormatted(in, f.layout)
		return s, closeInput, fail(exitUsage, err, "see processor feed --help")
	case f.fromTail:
		return tailLines{newLines(in), f.keepPartitions}, closeInput, nil
	}
	return eventLines{newLines(in)}, closeInput, nil
}

// feedTarget is the topic as the broker describes it.
type feedTarget struct {
	topic string
	limit int64         // max.message.bytes, 0 = unknown
	ahead time.Duration // how far ahead of the clock a record may be stamped, 0 = unknown or any
	keyed bool          // compacted: a record needs a key
}

func describeTarget(ctx context.Context, cfg Config, topic string) (feedTarget, error) {
	client, err := cfg.open(ctx)
	if err != nil {
		return feedTarget{}, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, lookUpLimit)
	defer cancel()
	haves, err := topics.NewAdmin(client).Describe(ctx, topic)
	if err != nil {
		return feedTarget{}, err
	}
	have, ok := haves[topic]
	switch {
	case !ok:
		return feedTarget{}, fail(exitNotFound, fmt.Errorf("topic %s does not exist", topic), "processor topics apply creates the job's topics")
	case have.Partitions == 0:
		return feedTarget{}, fmt.Errorf("topic %s: %w", topic, have.Err)
	}
	return newTarget(topic, have), nil
}

// newTarget keeps what decides whether a record can be taken. Without the right to read the configs it is unknown: the broker
// then refuses for itself.
func newTarget(topic string, have topics.Have) feedTarget {
	t := feedTarget{topic: topic, keyed: strings.Contains(have.Config["cleanup.policy"], "compact")}
	t.limit, _ = strconv.ParseInt(have.Config["max.message.bytes"], 10, 64)
	ms, err := strconv.ParseInt(have.Config["message.timestamp.after.max.ms"], 10, 64)
	if err == nil && ms > 0 && ms < int64(100*365*24*time.Hour/time.Millisecond) && have.Config["message.timestamp.type"] != "LogAppendTime" {
		t.ahead = time.Duration(ms) * time.Millisecond
	}
	return t
}

// options are those of a producer that reaches the topic's own limit and places keys like every other producer of the topic.
func (t feedTarget) options(partitioner pipeline.Partitioner, keepPartitions bool) []kgo.Opt {
	opts := []kgo.Opt{kgo.DefaultProduceTopic(t.topic), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(byKey(partitioner))}
	if keepPartitions {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	if t.limit > 0 {
		batch := min(t.limit, 1<<29)
		opts = append(opts, kgo.ProducerBatchMaxBytes(int32(batch)), kgo.BrokerMaxWriteBytes(int32(max(batch+1<<20, 100<<20))),
			kgo.MaxBufferedBytes(int(max(2*batch, bufferBytes))))
	}
	return opts
}

// byKey places a record by its key, and records without one in turn.
func byKey(p pipeline.Partitioner) kgo.Partitioner {
	return kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		var turn atomic.Uint32
		return func(r *kgo.Record, n int) int {
			if r.Key == nil {
				return int(turn.Add(1) % uint32(n))
			}
			return int(p.Partition(r.Key, int32(n)))
		}
	})
}

// refusal says why the topic would refuse a record, before it is sent: the broker would refuse the whole batch with it.
func (t feedTarget) refusal(r *kgo.Record, now time.Time) error {
	switch {
	case t.keyed && r.Key == nil:
		return fmt.Errorf("no key, and topic %s is compacted", t.topic)
	case t.ahead > 0 && r.Timestamp.Sub(now) > t.ahead:
		return fmt.Errorf("stamped %s, and topic %s takes message.timestamp.after.max.ms=%d", r.Timestamp.UTC().Format(time.RFC3339), t.topic, t.ahead.Milliseconds())
	case t.limit > 0 && size(r) > t.limit:
		return t.tooLarge(r)
	}
	return nil
}

func (t feedTarget) tooLarge(r *kgo.Record) error {
	if t.limit == 0 {
		return fmt.Errorf("%d bytes, more than topic %s takes (max.message.bytes)", size(r), t.topic)
	}
	return fmt.Errorf("%d bytes, more than topic %s takes (max.message.bytes=%d)", size(r), t.topic, t.limit)
}

func size(r *kgo.Record) int64 {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return int64(n)
}
