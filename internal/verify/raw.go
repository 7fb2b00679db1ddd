package verify

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// view is how much of a partition a fetch shows, by the number that Kafka has for it.
type view int8

const (
	rawView       view = 0 // read_uncommitted, with control records: what the log holds, up to the high watermark
	committedOnly view = 1 // read_committed
)

func (v view) options() kgo.ProcessFetchPartitionOpts {
	if v == rawView {
		return kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, IsolationLevel: kgo.ReadUncommitted()}
	}
	return kgo.ProcessFetchPartitionOpts{IsolationLevel: kgo.ReadCommitted()}
}

// rawStream reads the log of a partition as it is: undecided, aborted and control records too, up to the high watermark that
// it had when it was opened. Nothing is hidden from it.
type rawStream struct {
	k         *kafka
	topic     string
	partition int32
	first     int64 // log start
	pos, end  int64
	nothing   silence
	records   []*kgo.Record
}

// raw opens the log of a partition from an offset on, or from its start if that is later; a partition that the topic does not
// have is empty.
func (k *kafka) raw(ctx context.Context, topic string, partition int32, from int64) (rawReader, error) {
	d, err := k.detail(ctx, topic, false)
	if err != nil {
		return nil, err
	}
	s := &rawStream{k: k, topic: topic, partition: partition}
	if int(partition) >= len(d.Partitions) {
		return s, nil
	}
	if s.first, err = k.offset(ctx, topic, partition, atStart); err != nil {
		return nil, err
	}
	s.end, err = k.offset(ctx, topic, partition, atEnd)
	s.pos = max(from, s.first)
	return s, err
}

func (s *rawStream) start() int64 { return s.first }

// next returns the next record, nil at the end.
func (s *rawStream) next(ctx context.Context) (*kgo.Record, error) {
	for len(s.records) == 0 {
		if s.pos >= s.end {
			return nil, nil
		}
		if err := s.fetch(ctx); err != nil {
			return nil, err
		}
	}
	rec := s.records[0]
	if rec.Offset >= s.end {
		s.pos, s.records = s.end, nil
		return nil, nil
	}
	s.records = s.records[1:]
	return rec, nil
}

func (s *rawStream) fetch(ctx context.Context) error {
	f, err := s.k.fetchAs(ctx, rawView, s.topic, s.partition, s.pos, fetchBytes, 0)
	if err != nil {
		return err
	}
	if s.records = f.records; f.next > s.pos {
		s.pos, s.nothing = f.next, silence{}
		return nil
	}
	gone, err := s.nothing.believed(ctx, s.k, s.topic, s.partition, s.pos)
	if gone {
		s.pos = s.end
	}
	return err
}

// control reads a control record; ok is false for one that ends no transaction.
func control(rec *kgo.Record) (end ending, ok bool) {
	w := wire{b: rec.Key}
	w.take(2) // version
	switch kind := w.take(2); {
	case w.bad || kind[0] != 0:
		return stillOpen, false
	case kind[1] == 0:
		return endAbort, true
	case kind[1] == 1:
		return endCommit, true
	}
	return stillOpen, false
}
