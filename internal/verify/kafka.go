package verify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafka is the history as brokers hold it. It is safe for concurrent use.
type kafka struct {
	client    *kgo.Client
	app       string
	input     string
	compacted string // the topic whose records compaction may take
	patience  time.Duration

	mu     sync.Mutex
	topics map[string]kadm.TopicDetail
}

func newKafka(c Config) (*kafka, error) {
	client, err := kgo.NewClient(c.Opts...)
	if err != nil {
		return nil, err
	}
	return &kafka{client: client, app: c.App, input: c.Topics.Input, compacted: c.Topics.State, patience: c.Patience, topics: map[string]kadm.TopicDetail{}}, nil
}

func (k *kafka) close() { k.client.Close() }

// backoff is the pause before a request is repeated.
const backoff = 50 * time.Millisecond

// retry repeats what may pass by itself, for the time of patience.
func (k *kafka) retry(ctx context.Context, do func() error) error {
	bounded, cancel := context.WithTimeout(ctx, k.patience)
	defer cancel()
	for {
		err := do()
		if err == nil || !passes(err) {
			return err
		}
		if !pause(bounded, backoff) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// passes reports whether an error is of the network or of a cluster that is about to recover.
func passes(err error) bool {
	if ke, ok := errors.AsType[*kerr.Error](err); ok {
		return ke.Retriable || errors.Is(err, kerr.UnstableOffsetCommit)
	}
	_, network := errors.AsType[*net.OpError](err) // also one that dials a broker that is about to come back
	return network || errors.Is(err, errThrottled) || kgo.IsRetryableBrokerErr(err)
}

// pause waits, and reports false when the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// detail returns a topic's id and leaders, from memory unless refresh is set.
func (k *kafka) detail(ctx context.Context, topic string, refresh bool) (kadm.TopicDetail, error) {
	k.mu.Lock()
	d, ok := k.topics[topic]
	k.mu.Unlock()
	if ok && !refresh {
		return d, nil
	}
	all, err := kadm.NewClient(k.client).ListTopics(ctx, topic)
	if err != nil {
		return d, fmt.Errorf("topic %q: %w", topic, err)
	}
	d, ok = all[topic]
	switch {
	case !ok, errors.Is(d.Err, kerr.UnknownTopicOrPartition):
		return d, fmt.Errorf("topic %q does not exist: name the job's topics, or create them with topics apply", topic)
	case d.Err != nil:
		return d, fmt.Errorf("topic %q: %w", topic, d.Err)
	}
	k.mu.Lock()
	k.topics[topic] = d
	k.mu.Unlock()
	return d, nil
}

// offset asks the leader for a partition's start or end, in read_uncommitted: the high watermark.
func (k *kafka) offset(ctx context.Context, topic string, partition int32, timestamp int64) (offset int64, err error) {
	return k.offsetAs(ctx, rawView, topic, partition, timestamp)
}

// offsetAs is offset with a choice of what counts as the end: to committedOnly it is the last stable offset.
func (k *kafka) offsetAs(ctx context.Context, v view, topic string, partition int32, timestamp int64) (offset int64, err error) {
	err = k.retry(ctx, func() error {
		offset, err = k.offsetOnce(ctx, v, topic, partition, timestamp)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("offsets of %s/%d: %w", topic, partition, err)
	}
	return offset, nil
}

const (
	atStart = -2
	atEnd   = -1
)

func (k *kafka) offsetOnce(ctx context.Context, v view, topic string, partition int32, timestamp int64) (int64, error) {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, timestamp, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = topic, []kmsg.ListOffsetsRequestTopicPartition{p}
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = int8(v)
	req.ReplicaID, req.Topics = -1, []kmsg.ListOffsetsRequestTopic{t}
	resp, err := req.RequestWith(ctx, k.client)
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, errors.New("the broker answered for other partitions than asked")
	}
	a := &resp.Topics[0].Partitions[0]
	return a.Offset, kerr.ErrorForCode(a.ErrorCode)
}

// committed reads one partition's stable offset. It names the partition: an answer for all of them leaves out one whose first
// commit is pending.
func (k *kafka) committed(ctx context.Context, partition int32) (c commit, err error) {
	err = k.retry(ctx, func() error {
		c, err = k.committedOnce(ctx, partition)
		return err
	})
	if errors.Is(err, kerr.UnstableOffsetCommit) {
		return c, &UndecidedError{partition, fmt.Sprintf("its committed offset in group %q is pending: a transaction is open; run verify again when it is over (transaction.timeout.ms), or fence its instance", k.app), false}
	}
	if err != nil {
		return c, fmt.Errorf("committed offset of %s/%d in group %q: %w", k.input, partition, k.app, err)
	}
	return c, nil
}

func (k *kafka) committedOnce(ctx context.Context, partition int32) (c commit, err error) {
	d, err := k.detail(ctx, k.input, false)
	if err != nil || int(partition) >= len(d.Partitions) {
		return newCommit(-1, ""), err
	}
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.TopicID, t.Partitions = k.input, d.ID, []int32{partition}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = k.app, []kmsg.OffsetFetchRequestGroupTopic{t}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable, req.Groups = true, []kmsg.OffsetFetchRequestGroup{g}
	resp, err := req.RequestWith(ctx, k.client)
	if err != nil {
		return c, err
	}
	return readCommit(resp)
}

func readCommit(resp *kmsg.OffsetFetchResponse) (c commit, err error) {
	if len(resp.Groups) != 1 {
		return c, errors.New("the broker answered for another group than asked")
	}
	g := &resp.Groups[0]
	switch err := kerr.ErrorForCode(g.ErrorCode); {
	case errors.Is(err, kerr.GroupIDNotFound): // a job that has never run
		return newCommit(-1, ""), nil
	case err != nil:
		return c, err
	}
	if len(g.Topics) != 1 || len(g.Topics[0].Partitions) != 1 {
		return c, errors.New("the broker left out the partition that was asked for")
	}
	p := &g.Topics[0].Partitions[0]
	metadata := ""
	if p.Metadata != nil {
		metadata = *p.Metadata
	}
	return newCommit(p.Offset, metadata), kerr.ErrorForCode(p.ErrorCode)
}
