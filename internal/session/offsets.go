package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/internal/mutant"
	"github.com/tallystick/tallystick/topics"
)

// TopicPartition names one partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// NoOffset stands where a group has committed nothing.
const NoOffset int64 = -1

// CommittedOffset is what a group has committed for a partition.
type CommittedOffset struct {
	Next     int64 // the first offset not yet processed, or NoOffset
	Metadata string
}

// FetchCommitted reads the stable committed offsets of the named partitions: offsets of open transactions are waited for, not
// skipped (KIP-447). It names the partitions in a request of its own, because a request for all partitions leaves out one
// whose first commit is pending, and kadm then reports "none" without an error. It retries what passes until ctx ends.
func FetchCommitted(ctx context.Context, client *kgo.Client, group string, partitions []TopicPartition) (map[TopicPartition]CommittedOffset, error) {
	var r retry
	for {
		got, err := fetchCommittedOnce(ctx, client, group, partitions)
		if err == nil {
			return got, nil
		}
		if !r.again(ctx, err) {
			return nil, fmt.Errorf("committed offsets of group %q: %w", group, errors.Join(err, ctx.Err()))
		}
	}
}

func fetchCommittedOnce(ctx context.Context, client *kgo.Client, group string, partitions []TopicPartition) (map[TopicPartition]CommittedOffset, error) {
	req, names, err := offsetFetch(ctx, client, group, partitions)
	if err != nil {
		return nil, err
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	if len(resp.Groups) != 1 {
		return nil, fmt.Errorf("offset fetch answered %d groups for one", len(resp.Groups))
	}
	g := resp.Groups[0]
	if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
		return nil, err
	}
	got := map[TopicPartition]CommittedOffset{}
	for _, t := range g.Topics {
		name := t.Topic
		if name == "" {
			name = names[t.TopicID]
		}
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil && !mutant.On("offset-error-is-none") {
				return nil, err
			}
			c := CommittedOffset{Next: max(p.Offset, NoOffset)}
			if p.Metadata != nil {
				c.Metadata = *p.Metadata
			}
			got[TopicPartition{name, p.Partition}] = c
		}
	}
	for _, tp := range partitions {
		if _, ok := got[tp]; !ok && mutant.On("verification-by-all-partitions") {
			got[tp] = CommittedOffset{Next: NoOffset}
		} else if !ok { // a look-up that fails is an error, never "none"
			return nil, fmt.Errorf("offset fetch left out %s/%d", tp.Topic, tp.Partition)
		}
	}
	return got, nil
}

// CommittedTopics returns the topics of which a group has committed offsets, by name; none when there is no such group. It retries
// what passes until ctx ends: a cluster that was just made has no coordinator yet.
func CommittedTopics(ctx context.Context, client *kgo.Client, group string) ([]string, error) {
	var r retry
	for {
		offsets, err := kadm.NewClient(client).FetchOffsets(ctx, group)
		switch {
		case err == nil:
			return slices.Sorted(maps.Keys(offsets)), nil
		case errors.Is(err, kerr.GroupIDNotFound):
			return nil, nil
		case !r.again(ctx, err):
			return nil, fmt.Errorf("committed offsets of group %q: %w", group, topics.Asked{Group: group}.Explain(err))
		}
	}
}

func offsetFetch(ctx context.Context, client *kgo.Client, group string, partitions []TopicPartition) (*kmsg.OffsetFetchRequest, map[[16]byte]string, error) {
	byTopic := map[string][]int32{}
	var order []string
	for _, tp := range partitions {
		if byTopic[tp.Topic] == nil {
			order = append(order, tp.Topic)
		}
		byTopic[tp.Topic] = append(byTopic[tp.Topic], tp.Partition)
	}
	ids, err := topicIDs(ctx, client, order)
	if err != nil {
		return nil, nil, err
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = !mutant.On("unstable-offsets")
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	names := map[[16]byte]string{}
	for _, topic := range order {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.TopicID, t.Partitions = topic, ids[topic], byTopic[topic]
		names[t.TopicID] = topic
		g.Topics = append(g.Topics, t)
	}
	if mutant.On("verification-by-all-partitions") {
		g.Topics = nil
	}
	req.Groups = append(req.Groups, g)
	return req, names, nil
}

func topicIDs(ctx context.Context, client *kgo.Client, topics []string) (map[string][16]byte, error) {
	details, err := kadm.NewClient(client).ListTopics(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ids := map[string][16]byte{}
	for _, topic := range topics {
		d, ok := details[topic]
		switch {
		case !ok:
			return nil, fmt.Errorf("topic %q: %w", topic, kerr.UnknownTopicOrPartition)
		case d.Err != nil:
			return nil, fmt.Errorf("topic %q: %w", topic, d.Err)
		}
		ids[topic] = d.ID
	}
	return ids, nil
}

// What ListOffsets is asked for.
const (
	atEnd   int64 = -1
	atStart int64 = -2
)

// EndOffset returns the high watermark of a partition by ListOffsets (isolation read_uncommitted), retried until ctx ends. It
// is never taken from a Fetch answer: ListOffsets refuses while a new leader's watermark lags its epoch's start, Fetch does not.
func EndOffset(ctx context.Context, client *kgo.Client, tp TopicPartition) (int64, error) {
	return listOffset(ctx, client, tp, atEnd, 0)
}

// StableOffset returns the last stable offset: the first one of an open transaction, or the high watermark.
func StableOffset(ctx context.Context, client *kgo.Client, tp TopicPartition) (int64, error) {
	return listOffset(ctx, client, tp, atEnd, 1)
}

// StartOffset returns the log start of a partition.
func StartOffset(ctx context.Context, client *kgo.Client, tp TopicPartition) (int64, error) {
	return listOffset(ctx, client, tp, atStart, 0)
}

func listOffset(ctx context.Context, client *kgo.Client, tp TopicPartition, at int64, isolation int8) (int64, error) {
	var r retry
	for {
		offset, err := listOffsetOnce(ctx, client, tp, at, isolation)
		if err == nil {
			return offset, nil
		}
		if mutant.On("failed-look-up-is-empty") {
			return 0, nil
		}
		if !r.again(ctx, err) {
			return 0, fmt.Errorf("offsets of %s/%d: %w", tp.Topic, tp.Partition, errors.Join(err, ctx.Err()))
		}
	}
}

// listOffsetOnce names one partition, so that no other's leader can hold it up.
func listOffsetOnce(ctx context.Context, client *kgo.Client, tp TopicPartition, at int64, isolation int8) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = tp.Topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = tp.Partition, at
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, kerr.UnknownTopicOrPartition
	}
	answer := resp.Topics[0].Partitions[0]
	return answer.Offset, kerr.ErrorForCode(answer.ErrorCode)
}

// RecordsSince counts the records of topics that were stamped at since or later, control records included. A partition that
// does not answer, because its leader is gone and has no successor yet, counts nothing: it is an estimate. It fails when no
// broker answers.
func RecordsSince(ctx context.Context, client *kgo.Client, since time.Time, topics ...string) (records int64, err error) {
	adm := kadm.NewClient(client)
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err = unlessInPart(err); err != nil {
		return 0, fmt.Errorf("end of %q: %w", topics, err)
	}
	starts, err := adm.ListOffsetsAfterMilli(ctx, since.UnixMilli(), topics...)
	if err = unlessInPart(err); err != nil {
		return 0, fmt.Errorf("offsets of %q at %s: %w", topics, since.Format(time.RFC3339), err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		if from, ok := starts.Lookup(end.Topic, end.Partition); ok && from.Err == nil && end.Err == nil {
			records += max(0, end.Offset-from.Offset)
		}
	})
	return records, nil
}

// unlessInPart forgives a request that failed at some of the brokers it was split over.
func unlessInPart(err error) error {
	if shards, split := errors.AsType[*kadm.ShardErrors](err); split && !shards.AllFailed {
		return nil
	}
	return err
}

// retry paces requests that are tried again. What a broker may say while it learns of a topic, but says for ever of one that
// is gone or damaged, is believed after a while.
type retry struct{ since time.Time }

const missingPatience = 30 * time.Second

// again waits a moment and reports whether to try again after err.
func (r *retry) again(ctx context.Context, err error) bool {
	if !passes(err) || ctx.Err() != nil {
		return false
	}
	if !missing(err) {
		r.since = time.Time{}
	} else if r.since.IsZero() {
		r.since = time.Now()
	} else if time.Since(r.since) > missingPatience {
		return false
	}
	return sleep(ctx, 20*time.Millisecond)
}

func missing(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) ||
		errors.Is(err, kerr.CorruptMessage) || errors.Is(err, kerr.UnknownServerError)
}

// sleep waits, and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
