package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	fetchBytes  = 4 << 20 // of a stream; a broker sends at least one batch, however large
	lookupBytes = 1 << 20
	fetchWait   = 250 * time.Millisecond
)

// fetched is one answer: committed records, and where to go on. next counts what is not shown, too: control records, aborted
// batches, what compaction took.
type fetched struct {
	records []*kgo.Record
	next    int64
	stable  int64 // last stable offset
}

// fetch reads committed records from an offset on. It asks the leader itself, because the position has to be exact.
func (k *kafka) fetch(ctx context.Context, topic string, partition int32, offset int64, size int32, wait time.Duration) (f fetched, err error) {
	return k.fetchAs(ctx, committedOnly, topic, partition, offset, size, wait)
}

// fetchAs is fetch with a choice of what is shown.
func (k *kafka) fetchAs(ctx context.Context, v view, topic string, partition int32, offset int64, size int32, wait time.Duration) (f fetched, err error) {
	refresh := false
	err = k.retry(ctx, func() error {
		f, err = k.fetchOnce(ctx, v, topic, partition, offset, size, wait, refresh)
		refresh = err != nil
		return err
	})
	if err != nil {
		return f, fmt.Errorf("fetch %s/%d at offset %d: %w", topic, partition, offset, err)
	}
	return f, nil
}

func (k *kafka) fetchOnce(ctx context.Context, v view, topic string, partition int32, offset int64, size int32, wait time.Duration, refresh bool) (f fetched, err error) {
	d, err := k.detail(ctx, topic, refresh)
	if err != nil {
		return f, err
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.CurrentLeaderEpoch, p.PartitionMaxBytes = partition, offset, -1, size
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = topic, d.ID, []kmsg.FetchRequestTopicPartition{p}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait.Milliseconds()), 1, size
	req.IsolationLevel, req.SessionEpoch = int8(v), -1
	req.Topics = []kmsg.FetchRequestTopic{t}
	answer, err := k.client.Broker(int(d.Partitions[partition].Leader)).RetriableRequest(ctx, req)
	if err != nil {
		return f, err
	}
	return readFetch(answer.(*kmsg.FetchResponse), v, topic, partition, offset)
}

func readFetch(resp *kmsg.FetchResponse, v view, topic string, partition int32, offset int64) (f fetched, err error) {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return f, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return f, errThrottled
	}
	p := &resp.Topics[0].Partitions[0]
	opts := v.options()
	opts.Offset, opts.Topic, opts.Partition = offset, topic, partition
	got, next := kgo.ProcessFetchPartition(opts, p, kgo.DefaultDecompressor(), nil)
	if errors.Is(got.Err, kerr.OffsetOutOfRange) {
		return f, fmt.Errorf("%w: retention or compaction deleted it while verify was reading; run verify again", got.Err)
	}
	return fetched{got.Records, next, p.LastStableOffset}, got.Err
}

// errThrottled says that a broker answered without the partition, as it does to a client over its quota.
var errThrottled = errors.New("the broker left out the partition that was asked for: this client is over its fetch quota")

// lookup returns the committed record at an offset, nil when there is none.
func (k *kafka) lookup(ctx context.Context, topic string, partition int32, offset int64) (*kgo.Record, error) {
	var nothing silence
	for {
		f, err := k.fetch(ctx, topic, partition, offset, lookupBytes, 0)
		switch {
		case errors.Is(err, kerr.OffsetOutOfRange):
			return nil, nil
		case err != nil:
			return nil, err
		case len(f.records) > 0 && f.records[0].Offset == offset:
			return f.records[0], nil
		case f.next > offset || offset >= f.stable:
			return nil, nil
		}
		if gone, err := nothing.believed(ctx, k, topic, partition, offset); gone || err != nil {
			return nil, err
		}
	}
}

// kafkaStream reads a partition up to the high watermark that it had when it was opened.
type kafkaStream struct {
	k         *kafka
	topic     string
	partition int32
	first     int64 // log start
	pos, end  int64
	stable    int64
	blocked   bool
	nothing   silence       // below the stable offset
	records   []*kgo.Record // fetched, not consumed
}

// open returns an empty stream for a partition that the topic does not have.
func (k *kafka) open(ctx context.Context, topic string, partition int32, from int64) (stream, error) {
	d, err := k.detail(ctx, topic, false)
	if err != nil {
		return nil, err
	}
	s := &kafkaStream{k: k, topic: topic, partition: partition}
	if int(partition) >= len(d.Partitions) {
		return s, nil
	}
	if s.first, err = k.offset(ctx, topic, partition, atStart); err != nil {
		return nil, err
	}
	s.end, err = k.offset(ctx, topic, partition, atEnd)
	if err == nil && from > s.end {
		return nil, &UndecidedError{partition, fmt.Sprintf("%s ends at offset %d, but is to be read from %d: it was deleted and created again, or lost its end; begin anew with the whole history", topic, s.end, from), false}
	}
	s.pos = max(from, s.first)
	return s, err
}

func (s *kafkaStream) rest() int64 {
	if len(s.records) > 0 {
		return max(0, s.end-s.records[0].Offset)
	}
	return max(0, s.end-s.pos)
}

func (s *kafkaStream) start() int64 { return s.first }

func (s *kafkaStream) peek(ctx context.Context) (*kgo.Record, error) {
	for len(s.records) == 0 {
		if s.pos >= s.end || s.blocked {
			return nil, nil
		}
		if err := s.fetch(ctx, 0); err != nil {
			return nil, err
		}
	}
	if s.records[0].Offset >= s.end {
		s.pos, s.records = s.end, nil
		return nil, nil
	}
	return s.records[0], nil
}

// fetch moves on, or finds itself blocked by the last stable offset.
func (s *kafkaStream) fetch(ctx context.Context, wait time.Duration) error {
	f, err := s.k.fetch(ctx, s.topic, s.partition, s.pos, fetchBytes, wait)
	if err != nil {
		return err
	}
	s.stable, s.records = f.stable, f.records
	s.blocked = s.pos >= f.stable && f.next <= s.pos
	if f.next > s.pos || s.blocked {
		s.pos, s.nothing = max(s.pos, f.next), silence{}
		return nil
	}
	gone, err := s.nothing.believed(ctx, s.k, s.topic, s.partition, s.pos)
	if gone {
		s.pos, s.nothing = f.stable, silence{}
	}
	return err
}

func (s *kafkaStream) pop() { s.records = s.records[1:] }

func (s *kafkaStream) hidden() *OpenTransaction {
	if len(s.records) > 0 || s.pos >= s.end {
		return nil
	}
	return &OpenTransaction{s.topic, s.partition, s.stable, s.end}
}

func (s *kafkaStream) wait(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, s.k.patience)
	defer cancel()
	for {
		if err := s.fetch(ctx, fetchWait); err != nil || !s.blocked {
			return err
		}
		if !pause(bounded, backoff) {
			return errors.Join(ctx.Err(), errHidden)
		}
	}
}
