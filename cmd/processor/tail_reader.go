package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	noTarget     = int64(-1)        // a cursor that follows for ever
	stuckAfter   = 30 * time.Second // how long a partition may fail before reading gives up
	partitionMax = 1 << 20          // bytes of one partition in one answer; a larger batch still arrives
	answerMax    = 32 << 20
)

// cursor is a position in one partition. next counts control records, aborted batches and what compaction took, so it
// always reaches the end; the offset of the last record seen may never do that.
type cursor struct {
	partition int32
	next      int64 // next offset to read
	target    int64 // reading is done at next >= target; noTarget = never
}

func (c *cursor) done() bool { return c.target != noTarget && c.next >= c.target }

// fetched is what one round read of one partition, in offset order.
type fetched struct {
	partition kgo.FetchPartition
	skipped   int64 // records that retention deleted before they were read
}

// topicReader reads partitions of one topic by raw fetches: the only way that gives exact positions. One goroutine owns it.
type topicReader struct {
	client      *kgo.Client
	topic       string
	uncommitted bool
	cursors     []*cursor

	id      [16]byte
	leaders map[int32]int32 // by partition; nil = to be asked
	failing time.Time       // since when nothing but errors came
}

// round asks every leader once, waits up to wait for new records, and returns what came, by partition. An empty answer is no
// error. Broken connections and moved leaders are tried again, for stuckAfter.
func (r *topicReader) round(ctx context.Context, wait time.Duration) ([]fetched, error) {
	if err := r.findLeaders(ctx); err != nil {
		return nil, r.tolerate(ctx, err)
	}
	byLeader := map[int32][]*cursor{}
	for _, c := range r.cursors {
		if !c.done() {
			byLeader[r.leaders[c.partition]] = append(byLeader[r.leaders[c.partition]], c)
		}
	}
	leaders := slices.Sorted(maps.Keys(byLeader))
	got, errs := make([][]fetched, len(leaders)), make([]error, len(leaders))
	var wg sync.WaitGroup
	for i, leader := range leaders {
		wg.Go(func() { got[i], errs[i] = r.fetch(ctx, leader, byLeader[leader], wait) })
	}
	wg.Wait()
	all := slices.Concat(got...)
	slices.SortFunc(all, func(a, b fetched) int { return int(a.partition.Partition - b.partition.Partition) })
	return all, r.tolerate(ctx, errors.Join(errs...))
}

// tolerate swallows an error that may pass, and waits a moment before the next round.
func (r *topicReader) tolerate(ctx context.Context, err error) error {
	if err == nil {
		r.failing = time.Time{}
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.failing.IsZero() {
		r.failing = time.Now()
	}
	r.leaders = nil
	if errors.Is(err, errTopicChanged) || errors.Is(err, kerr.TopicAuthorizationFailed) || time.Since(r.failing) > stuckAfter {
		return fmt.Errorf("read topic %s: %w", r.topic, err)
	}
	return sleep(ctx, 100*time.Millisecond)
}

var errTopicChanged = errors.New("it was deleted or made again while it was read")

func (r *topicReader) findLeaders(ctx context.Context) error {
	if r.leaders != nil {
		return nil
	}
	t, err := topicMetadata(ctx, r.client, r.topic)
	if err != nil {
		return err
	}
	if r.id != [16]byte{} && r.id != t.TopicID {
		return errTopicChanged
	}
	r.id = t.TopicID
	leaders := map[int32]int32{}
	for _, p := range t.Partitions {
		leaders[p.Partition] = p.Leader
	}
	for _, c := range r.cursors {
		if leader, ok := leaders[c.partition]; !ok || leader < 0 {
			return fmt.Errorf("partition %d: %w", c.partition, kerr.LeaderNotAvailable)
		}
	}
	r.leaders = leaders
	return nil
}

// fetch sends one request to one leader and moves the cursors.
func (r *topicReader) fetch(ctx context.Context, leader int32, cursors []*cursor, wait time.Duration) ([]fetched, error) {
	answer, err := r.client.Broker(int(leader)).RetriableRequest(ctx, r.request(cursors, wait))
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	var out []fetched
	var errs []error
	empty := true
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			f, err := r.take(ctx, cursors, &t.Partitions[i])
			empty = empty && len(t.Partitions[i].RecordBatches) == 0
			errs = append(errs, err)
			if f.skipped > 0 || len(f.partition.Records) > 0 {
				out = append(out, f)
			}
		}
	}
	if err := errors.Join(errs...); err != nil || !empty {
		return out, err
	}
	finishCompacted(cursors, resp)
	return out, nil
}

func (r *topicReader) request(cursors []*cursor, wait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = int32(wait.Milliseconds()), 1, answerMax, -1
	if !r.uncommitted {
		req.IsolationLevel = 1
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = r.topic, r.id
	for _, c := range cursors {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.CurrentLeaderEpoch, p.PartitionMaxBytes = c.partition, c.next, -1, partitionMax
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// take decodes one partition's answer and moves its cursor.
func (r *topicReader) take(ctx context.Context, cursors []*cursor, p *kmsg.FetchResponseTopicPartition) (fetched, error) {
	i := slices.IndexFunc(cursors, func(c *cursor) bool { return c.partition == p.Partition })
	if i < 0 {
		return fetched{}, nil
	}
	c := cursors[i]
	switch err := kerr.ErrorForCode(p.ErrorCode); {
	case errors.Is(err, kerr.OffsetOutOfRange):
		return r.afterRetention(ctx, c)
	case err != nil:
		return fetched{}, fmt.Errorf("partition %d: %w", p.Partition, err)
	}
	o := kgo.ProcessFetchPartitionOpts{Offset: c.next, Topic: r.topic, Partition: c.partition, IsolationLevel: kgo.ReadCommitted()}
	if r.uncommitted {
		o.IsolationLevel = kgo.ReadUncommitted()
	}
	got, next := kgo.ProcessFetchPartition(o, p, kgo.DefaultDecompressor(), nil)
	if got.Err != nil {
		return fetched{}, fmt.Errorf("partition %d at offset %d: %w", p.Partition, c.next, got.Err)
	}
	c.next = max(c.next, next)
	got.Records = c.upToTarget(got.Records)
	return fetched{partition: got}, nil
}

// upToTarget drops what was written after the end was looked up, so that "to the end" means the same for all partitions.
func (c *cursor) upToTarget(records []*kgo.Record) []*kgo.Record {
	if c.target == noTarget {
		return records
	}
	i, _ := slices.BinarySearchFunc(records, c.target, func(r *kgo.Record, target int64) int { return int(r.Offset - target) })
	return records[:i]
}

// afterRetention goes on at the start of a log whose older part was deleted under the reader.
func (r *topicReader) afterRetention(ctx context.Context, c *cursor) (fetched, error) {
	starts, err := kadm.NewClient(r.client).ListStartOffsets(ctx, r.topic)
	if err != nil {
		return fetched{}, err
	}
	start, ok := starts.Lookup(r.topic, c.partition)
	if !ok || start.Err != nil || start.Offset <= c.next { // above the end: the log was truncated or is another one
		return fetched{}, errors.Join(fmt.Errorf("partition %d: offset %d: %w", c.partition, c.next, errTopicChanged), start.Err)
	}
	f := fetched{partition: kgo.FetchPartition{Partition: c.partition}, skipped: start.Offset - c.next}
	c.next = start.Offset
	return f, nil
}

// finishCompacted ends cursors below whose target nothing is left: an answer without any batch, from a broker that is past the
// target, means that compaction took the tail.
func finishCompacted(cursors []*cursor, resp *kmsg.FetchResponse) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			for _, c := range cursors {
				if c.partition == p.Partition && c.target != noTarget && p.ErrorCode == 0 && p.LastStableOffset >= c.target && p.HighWatermark >= c.target {
					c.next = max(c.next, c.target)
				}
			}
		}
	}
}

// topicMetadata asks the broker itself, not the client's cache, for one topic. A topic that does not exist is
// kerr.UnknownTopicOrPartition.
func topicMetadata(ctx context.Context, client *kgo.Client, topic string) (kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return kmsg.MetadataResponseTopic{}, err
	}
	if len(resp.Topics) != 1 {
		return kmsg.MetadataResponseTopic{}, fmt.Errorf("topic %s: the broker's answer holds %d topics, want 1", topic, len(resp.Topics))
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		return kmsg.MetadataResponseTopic{}, fmt.Errorf("topic %s: %w", topic, err)
	}
	slices.SortFunc(resp.Topics[0].Partitions, func(a, b kmsg.MetadataResponseTopicPartition) int { return int(a.Partition - b.Partition) })
	return resp.Topics[0], nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
