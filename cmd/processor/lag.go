package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

func newLag(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lag",
		Short: "Print how far each task has come, and what it waits for",
		Long: "lag prints, for each task and input, the committed offset (the next one to process), the end, and the offsets in between. A number is never\n" +
			"a guess: what could not be read is unknown, with the cause. Offsets count transaction markers too, so a lag of 1 can be a marker.\n\n" +
			"not started: n              the task has never committed\n" +
			"n, set by another tool      the job did not commit this offset: its task stops there at the next start\n" +
			"lost by retention: n        the broker deleted n unread offsets; the task stops there\n" +
			"ahead of the end            the topic was deleted or truncated after the commit\n" +
			"behind n of <id> since …    a transaction of a producer is open; nobody reads past it until it ends\n\n" +
			"Exit 4: the input is missing, or neither a topic nor an offset of this application.id is there.",
	}
	configFlags(cmd, groupConnection, groupApplication)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := c.config(cmd)
		if err != nil {
			return err
		}
		client, err := cfg.open(cmd.Context())
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), lookUpLimit)
		defer cancel()
		rows, err := readLag(ctx, client, cfg)
		if err == nil {
			err = noSuchJob(ctx, client, cfg, rows)
		}
		if err != nil {
			return err
		}
		header := []string{"task", "input", "committed", "end", "lag", "open transaction"}
		return errors.Join(printList(c, header, rows, lagRow.cells), allUnknown(rows))
	}
	return cmd
}

// lagState says what the numbers of a row mean.
type lagState string

const (
	lagRunning lagState = "running"
	lagNew     lagState = "not_started"
	lagLost    lagState = "lost_by_retention"
	lagAhead   lagState = "ahead_of_the_end"
	lagUnknown lagState = "unknown"
)

// lagRow is one input partition of one task. A number that is not known is absent, never 0.
type lagRow struct {
	Task      string   `json:"task"` // stage/partition
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	State     lagState `json:"state"`
	Committed *int64   `json:"committed"` // next offset to process
	Start     *int64   `json:"start"`
	Stable    *int64   `json:"stable"`
	End       *int64   `json:"end"`
	Lag       *int64   `json:"lag"` // offsets from committed, or from start, to end
	Lost      int64    `json:"lost,omitempty"`
	SetBy     string   `json:"set_by,omitempty"`  // who committed the offset when the job did not: its task stops there
	Unknown   string   `json:"unknown,omitempty"` // the cause
	HeldBy    *holder  `json:"held_by,omitempty"`
	HeldError string   `json:"held_error,omitempty"` // an open transaction whose owner could not be found out
}

func (r lagRow) cells() []string {
	return []string{r.Task, fmt.Sprintf("%s/%d", r.Topic, r.Partition), number(r.Committed, "-"), number(r.End, "?"), r.words(), r.held()}
}

// words is the lag for people.
func (r lagRow) words() string {
	switch r.State {
	case lagRunning:
		if r.SetBy != "" {
			return number(r.Lag, "?") + ", set by " + r.SetBy
		}
		return number(r.Lag, "?")
	case lagNew:
		return "not started: " + number(r.Lag, "?")
	case lagLost:
		return fmt.Sprintf("lost by retention: %d", r.Lost)
	case lagAhead:
		return "ahead of the end: topic changed"
	}
	return "unknown: " + r.Unknown
}

func (r lagRow) held() string {
	if r.Stable == nil || r.End == nil || *r.Stable >= *r.End {
		return ""
	}
	behind := fmt.Sprintf("behind %d of ", *r.End-*r.Stable)
	switch {
	case r.HeldBy != nil:
		return behind + r.HeldBy.String()
	case r.HeldError != "":
		return behind + "unknown: " + r.HeldError
	}
	return behind + "one that ended meanwhile"
}

func number(n *int64, absent string) string {
	if n == nil {
		return absent
	}
	return strconv.FormatInt(*n, 10)
}

// allUnknown makes a look-up that learnt nothing a failure.
func allUnknown(rows []lagRow) error {
	for _, r := range rows {
		if r.State != lagUnknown {
			return nil
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return fail(exitUnavailable, errors.New("no offset could be read"), "the table names the causes; try again")
}

// noSuchJob is an error when nothing in the cluster is the application's: no offset, and none of the topics that bear its name. A
// job that has topics and no offset has not run yet.
func noSuchJob(ctx context.Context, client *kgo.Client, cfg Config, rows []lagRow) error {
	if slices.ContainsFunc(rows, func(r lagRow) bool { return r.State != lagNew }) {
		return nil
	}
	own := []string{topics.DeadLetters(cfg.ApplicationID)}
	for _, s := range cfg.job().Stages() {
		own = append(own, s.StateTopic())
	}
	for _, topic := range own {
		if _, err := topicMetadata(ctx, client, topic); !isUnknownTopic(err) {
			return nil // it is there, or may not be looked at
		}
	}
	return fail(exitNotFound, fmt.Errorf("nothing of application.id %q is there: its group has committed no offset, and the topics %s do not exist", cfg.ApplicationID, joinAnd(own)),
		"is application.id right? processor config show tells where it comes from; a job that is new gets its topics by processor topics apply")
}

// readLag reads the committed offsets first and the ends after them: a commit can't be ahead of an end that was read later.
func readLag(ctx context.Context, client *kgo.Client, cfg Config) ([]lagRow, error) {
	var rows []lagRow
	for _, stage := range cfg.job().Stages() {
		for _, topic := range stage.Inputs() {
			meta, err := topicMetadata(ctx, client, topic)
			if err != nil {
				return nil, err
			}
			of, err := readTopicLag(ctx, client, cfg.ApplicationID, topic, meta)
			if err != nil {
				return nil, err
			}
			for i := range of {
				of[i].Task = fmt.Sprintf("%s/%d", stage.Name(), of[i].Partition)
			}
			rows = append(rows, of...)
		}
	}
	return rows, nil
}

func readTopicLag(ctx context.Context, client *kgo.Client, group, topic string, meta kmsg.MetadataResponseTopic) ([]lagRow, error) {
	committed, err := committedOffsets(ctx, client, group, meta)
	if err != nil {
		return nil, fmt.Errorf("committed offsets of group %s: %w", group, err)
	}
	admin := kadm.NewClient(client)
	listings := listOffsets(ctx, admin, topic)
	rows := make([]lagRow, len(meta.Partitions))
	for i, p := range meta.Partitions {
		r := &rows[i]
		r.Topic, r.Partition = topic, p.Partition
		r.judge(committed[p.Partition], listings)
		if r.Stable != nil && r.End != nil && *r.Stable < *r.End {
			r.HeldBy, err = findHolder(ctx, admin, topic, p.Partition)
			if err != nil {
				r.HeldError = err.Error()
			}
		}
	}
	return rows, nil
}

// listing is one kind of offset for all partitions of a topic.
type listing struct {
	offsets kadm.ListedOffsets
	err     error
}

// listOffsets lists stable, end and start offsets, in this order: each bound is never above one that was read later, and never
// below the start.
func listOffsets(ctx context.Context, admin *kadm.Client, topic string) [3]listing {
	var out [3]listing
	for i, list := range []func(context.Context, ...string) (kadm.ListedOffsets, error){admin.ListCommittedOffsets, admin.ListEndOffsets, admin.ListStartOffsets} {
		out[i].offsets, out[i].err = list(ctx, topic)
	}
	return out
}

func (l listing) of(topic string, partition int32) (*int64, error) {
	o, ok := l.offsets.Lookup(topic, partition)
	switch {
	case ok && o.Err == nil && o.Offset >= 0:
		return &o.Offset, nil
	case ok && o.Err != nil:
		return nil, o.Err
	case l.err != nil:
		return nil, l.err
	}
	return nil, errors.New("the broker left the partition out of its answer")
}

// committedOffset is what a group has committed for a partition, or why that is not known.
type committedOffset struct {
	next     int64 // -1: nothing
	metadata string
	err      error
}

// Who commits offsets beside the job.
const (
	anotherTool   = "another tool"
	halfDoneReset = "a reset that is not finished"
)

// setBy is who committed the offset, by its metadata; empty for the job itself.
func (c committedOffset) setBy() string {
	if strings.HasPrefix(c.metadata, resetMark) {
		return halfDoneReset
	}
	if _, err := state.ParseMetadata(c.metadata); err != nil {
		return anotherTool
	}
	return ""
}

// judge fills the row from what was read.
func (r *lagRow) judge(c committedOffset, listings [3]listing) {
	var errs [4]error
	errs[0] = c.err
	for i, side := range []**int64{&r.Stable, &r.End, &r.Start} {
		*side, errs[i+1] = listings[i].of(r.Topic, r.Partition)
	}
	if c.err == nil && c.next >= 0 {
		r.Committed, r.SetBy = &c.next, c.setBy()
	}
	if err := errors.Join(errs[:]...); err != nil {
		r.State, r.Unknown = lagUnknown, strings.ReplaceAll(err.Error(), "\n", "; ")
		return
	}
	from := max(c.next, *r.Start)
	switch {
	case c.next < 0:
		r.State = lagNew
	case c.next < *r.Start:
		r.State, r.Lost = lagLost, *r.Start-c.next
	case c.next > *r.End:
		r.State = lagAhead
		return
	default:
		r.State = lagRunning
	}
	lag := *r.End - from
	r.Lag = &lag
}

// committedOffsets asks for the named partitions, and not for stable offsets only: an open transaction is no reason to wait here.
func committedOffsets(ctx context.Context, client *kgo.Client, group string, topic kmsg.MetadataResponseTopic) (map[int32]committedOffset, error) {
	for {
		got, err := committedOnce(ctx, client, group, topic)
		if err == nil || !kerr.IsRetriable(err) {
			return got, err
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return nil, err
		}
	}
}

func committedOnce(ctx context.Context, client *kgo.Client, group string, topic kmsg.MetadataResponseTopic) (map[int32]committedOffset, error) {
	resp, err := committedRequest(group, topic).RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	if len(resp.Groups) != 1 {
		return nil, fmt.Errorf("the broker answered for %d groups, want 1", len(resp.Groups))
	}
	out := map[int32]committedOffset{}
	for _, p := range topic.Partitions {
		out[p.Partition] = committedOffset{next: -1, err: errors.New("the coordinator left the partition out of its answer")}
	}
	switch err := kerr.ErrorForCode(resp.Groups[0].ErrorCode); {
	case errors.Is(err, kerr.GroupIDNotFound): // nothing was ever committed
		for p := range out {
			out[p] = committedOffset{next: -1}
		}
		return out, nil
	case err != nil:
		return nil, err
	}
	for _, t := range resp.Groups[0].Topics {
		for _, p := range t.Partitions {
			c := committedOffset{next: max(p.Offset, -1), err: kerr.ErrorForCode(p.ErrorCode)}
			if p.Metadata != nil {
				c.metadata = *p.Metadata
			}
			out[p.Partition] = c
		}
	}
	return out, nil
}

func committedRequest(group string, topic kmsg.MetadataResponseTopic) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.TopicID = *topic.Topic, topic.TopicID
	for _, p := range topic.Partitions {
		t.Partitions = append(t.Partitions, p.Partition)
	}
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	return req
}
