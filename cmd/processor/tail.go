package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	tailWait    = 250 * time.Millisecond // of one fetch while nothing new comes
	lookUpLimit = 15 * time.Second       // for metadata and offsets at the start
)

type tailFlags struct {
	from        string
	layout      string
	partitions  []int32
	limit       int64
	toEnd       bool
	uncommitted bool
}

func newTail(c *cli) *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use:   "tail <topic>",
		Short: "Print the records of a topic",
		Long: "tail prints the committed records of a topic, from its start, and goes on with new ones until it is stopped.\n\n" +
			"A line holds partition/offset, time, key, value and headers. null is a missing key or value; the text null, nothing and whatever is\n" +
			"not printable stand in quotes. -o jsonl loses nothing: processor feed --from-tail reads it back.\n\n" +
			"--to-end stops at the last committed record there was at the start, whatever stands behind it (transaction markers, aborted records, open\n" +
			"transactions: it says whose). A format (-f) is franz-go's: https://pkg.go.dev/github.com/twmb/franz-go/pkg/kgo#NewRecordFormatter",
		Example: "  processor tail ledger-updates --to-end\n  processor tail credit-events --from -10 -o jsonl\n  processor tail credit-events -f '%p/%o %k %v\\n'",
		Args:    exactlyOne("topic"),
	}
	cmd.ValidArgsFunction = c.firstArgument(topicNames)
	configFlags(cmd, groupConnection)
	cmd.Flags().StringVar(&f.from, "from", "start", "where to begin: start, end, an offset, -n (the last n offsets of each partition) or a time (RFC 3339)")
	cmd.Flags().StringVarP(&f.layout, "format", "f", "", "format of each record, instead of -o")
	cmd.Flags().Int32SliceVarP(&f.partitions, "partition", "p", nil, "read these partitions only")
	cmd.Flags().Int64VarP(&f.limit, "limit", "n", 0, "stop after n records")
	cmd.Flags().BoolVar(&f.toEnd, "to-end", false, "stop at the end that there was at the start")
	cmd.Flags().BoolVar(&f.uncommitted, "uncommitted", false, "show records of open and aborted transactions too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return c.tail(cmd, args[0], f) }
	return cmd
}

func (c *cli) tail(cmd *cobra.Command, topic string, f tailFlags) error {
	if f.limit < 0 {
		return usageErrorf("--limit %d: give a number of records, 0 for no limit", f.limit)
	}
	cfg, err := c.config(cmd)
	if err != nil {
		return err
	}
	printer, err := newTailPrinter(c, f)
	if err != nil {
		return fail(exitUsage, err, "see processor tail --help")
	}
	client, err := cfg.open(cmd.Context())
	if err != nil {
		return err
	}
	defer client.Close()
	t := &tailer{cli: c, admin: kadm.NewClient(client), flags: f, printer: printer,
		reader: &topicReader{client: client, topic: topic, uncommitted: f.uncommitted}}
	if err := t.start(cmd.Context()); err != nil {
		return err
	}
	return errors.Join(t.run(cmd.Context()), printer.close(c.stderr))
}

// tailer prints one topic.
type tailer struct {
	cli     *cli
	admin   *kadm.Client
	flags   tailFlags
	printer *tailPrinter
	reader  *topicReader
	printed int64
}

// start looks up where to begin and, with --to-end, where to stop.
func (t *tailer) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookUpLimit)
	defer cancel()
	topic := t.reader.topic
	meta, err := topicMetadata(ctx, t.reader.client, topic)
	if err != nil {
		return err
	}
	partitions := make([]int32, len(meta.Partitions))
	for i, p := range meta.Partitions {
		partitions[i] = p.Partition
	}
	for _, p := range t.flags.partitions {
		if !slices.Contains(partitions, p) {
			return fail(exitNotFound, fmt.Errorf("topic %s has no partition %d", topic, p), fmt.Sprintf("it has %d, from 0", len(partitions)))
		}
	}
	if len(t.flags.partitions) > 0 {
		partitions = slices.Compact(slices.Sorted(slices.Values(t.flags.partitions)))
	}
	bounds, err := lookUp(ctx, t.admin, topic, partitions)
	if err != nil {
		return err
	}
	begin, err := t.begin(ctx, topic)
	if err != nil {
		return err
	}
	for _, b := range bounds {
		if at := begin(b); at > b.end {
			fmt.Fprintf(t.cli.stderr, "partition %d: offset %d is beyond the end %d: beginning at the end\n", b.partition, at, b.end)
		}
		t.reader.cursors = append(t.reader.cursors, t.cursor(ctx, b, begin(b)))
	}
	return nil
}

func (t *tailer) cursor(ctx context.Context, b bounds, next int64) *cursor {
	c := &cursor{partition: b.partition, next: min(max(next, b.start), b.end), target: noTarget}
	if !t.flags.toEnd {
		return c
	}
	if c.target = b.stable; t.flags.uncommitted {
		c.target = b.end
		return c
	}
	if b.stable < b.end {
		t.sayHidden(ctx, b)
	}
	return c
}

// sayHidden names the transaction behind which the end lies.
func (t *tailer) sayHidden(ctx context.Context, b bounds) {
	who := "which ended meanwhile"
	if h, err := findHolder(ctx, t.admin, t.reader.topic, b.partition); err != nil {
		who = "whose is unknown: " + err.Error()
	} else if h != nil {
		who = "of " + h.String()
	}
	fmt.Fprintf(t.cli.stderr, "partition %d: stopping at offset %d, %d before the end: an open transaction %s\n", b.partition, b.stable, b.end-b.stable, who)
}

// begin turns --from into an offset for each partition.
func (t *tailer) begin(ctx context.Context, topic string) (func(bounds) int64, error) {
	switch from := t.flags.from; {
	case from == "start":
		return func(b bounds) int64 { return b.start }, nil
	case from == "end":
		return func(b bounds) int64 { return b.end }, nil
	case strings.Contains(from, "T"):
		return t.beginAt(ctx, topic, from)
	default:
		n, err := strconv.ParseInt(from, 10, 64)
		if err != nil {
			return nil, usageErrorf("--from %q: use start, end, an offset, -n or a time like 2026-01-31T12:00:00Z", from)
		}
		return func(b bounds) int64 {
			if strings.HasPrefix(from, "-") {
				return b.end + n
			}
			return n
		}, nil
	}
}

// beginAt begins at the first record that is not older than a time; a partition without one begins at its end.
func (t *tailer) beginAt(ctx context.Context, topic, from string) (func(bounds) int64, error) {
	at, err := time.Parse(time.RFC3339, from)
	if err != nil {
		return nil, usageErrorf("--from %q: a time needs date, time and zone, like 2026-01-31T12:00:00Z", from)
	}
	listed, err := t.admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topic)
	if err := errors.Join(err, listed.Error()); err != nil {
		return nil, fmt.Errorf("topic %s: offsets after %s: %w", topic, from, err)
	}
	return func(b bounds) int64 {
		if o, ok := listed.Lookup(topic, b.partition); ok && o.Offset >= 0 {
			return o.Offset
		}
		return b.end
	}, nil
}

func (t *tailer) run(ctx context.Context) error {
	for !t.finished() {
		got, err := t.reader.round(ctx, tailWait)
		if err := errors.Join(t.print(got), err); err != nil {
			return err
		}
	}
	return nil
}

func (t *tailer) finished() bool {
	if t.flags.limit > 0 && t.printed >= t.flags.limit {
		return true
	}
	return !slices.ContainsFunc(t.reader.cursors, func(c *cursor) bool { return !c.done() })
}

func (t *tailer) print(got []fetched) error {
	for _, f := range got {
		if f.skipped > 0 {
			fmt.Fprintf(t.cli.stderr, "partition %d: %d offsets were deleted by retention before they were read\n", f.partition.Partition, f.skipped)
		}
		for _, r := range f.partition.Records {
			if t.flags.limit > 0 && t.printed >= t.flags.limit {
				break
			}
			t.printed++
			if err := t.printer.print(&f.partition, r); err != nil {
				return err
			}
		}
	}
	return t.printer.w.Flush()
}

// tailPrinter writes records to stdout in one of the formats.
type tailPrinter struct {
	w      *bufio.Writer
	append func(dst []byte, p *kgo.FetchPartition, r *kgo.Record) []byte
	array  bool // -o json: one array
	lossy  bool // the format can't show null
	count  int64
	nulls  int64
	buf    []byte
}

func newTailPrinter(c *cli, f tailFlags) (*tailPrinter, error) {
	p := &tailPrinter{w: bufio.NewWriterSize(c.stdout, 64<<10)}
	if f.layout != "" && c.format != "" {
		return nil, fmt.Errorf("--format and -o %s: give one of them", c.format)
	}
	if f.layout != "" {
		formatter, err := kgo.NewRecordFormatter(f.layout)
		if err != nil {
			return nil, fmt.Errorf("--format %q: %w", f.layout, err)
		}
		p.lossy, p.append = true, formatter.AppendPartitionRecord
		return p, nil
	}
	switch c.format.orTable() {
	case formatTable:
		p.append = func(dst []byte, _ *kgo.FetchPartition, r *kgo.Record) []byte { return appendText(dst, r) }
	case formatJSONL:
		p.append = func(dst []byte, _ *kgo.FetchPartition, r *kgo.Record) []byte { return append(appendJSON(dst, r), '\n') }
	case formatJSON:
		p.array = true
		p.append = func(dst []byte, _ *kgo.FetchPartition, r *kgo.Record) []byte { return appendJSON(dst, r) }
	}
	return p, nil
}

func (p *tailPrinter) print(partition *kgo.FetchPartition, r *kgo.Record) error {
	if p.array {
		if _, err := p.w.WriteString([2]string{"[\n  ", ",\n  "}[min(p.count, 1)]); err != nil {
			return err
		}
	}
	p.count++
	if r.Key == nil || r.Value == nil {
		p.nulls++
	}
	p.buf = p.append(p.buf[:0], partition, r)
	_, err := p.w.Write(p.buf)
	return err
}

// close ends the array of -o json, and says what a format could not show.
func (p *tailPrinter) close(stderr io.Writer) error {
	if p.array {
		p.w.WriteString([2]string{"[]\n", "\n]\n"}[min(p.count, 1)]) // an error sticks to the writer, Flush returns it
	}
	if p.lossy && p.nulls > 0 {
		fmt.Fprintf(stderr, "%d records have no key or no value: a format shows null as nothing; -o jsonl keeps the difference\n", p.nulls)
	}
	return p.w.Flush()
}

// bounds are the offsets of one partition at one time. All are next offsets.
type bounds struct {
	partition int32
	start     int64 // the first offset that is still there
	stable    int64 // below it every transaction is decided
	end       int64 // high watermark
}

// lookUp lists the bounds of partitions. The stable offset is asked for first, so that it is never above the end.
func lookUp(ctx context.Context, admin *kadm.Client, topic string, partitions []int32) ([]bounds, error) {
	stables, err1 := admin.ListCommittedOffsets(ctx, topic)
	ends, err2 := admin.ListEndOffsets(ctx, topic)
	starts, err3 := admin.ListStartOffsets(ctx, topic)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("topic %s: list offsets: %w", topic, err)
	}
	out := make([]bounds, len(partitions))
	for i, p := range partitions {
		out[i].partition = p
		for _, side := range []struct {
			listed kadm.ListedOffsets
			offset *int64
		}{{stables, &out[i].stable}, {ends, &out[i].end}, {starts, &out[i].start}} {
			o, ok := side.listed.Lookup(topic, p)
			if !ok || o.Err != nil {
				return nil, fmt.Errorf("topic %s partition %d: list offsets: %w", topic, p, errors.Join(o.Err, missing(ok)))
			}
			*side.offset = o.Offset
		}
	}
	return out, nil
}

func missing(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("not in the broker's answer")
}
