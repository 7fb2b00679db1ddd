package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	onlookerPoll     = 5 * time.Millisecond
	onlookerPatience = 30 * time.Second
)

// onlooker sees the broker from outside, as an operator would: what is open, what is hidden, what is committed. It asks the
// broker alone and never the processor.
type onlooker struct {
	adm   *kadm.Client
	group string
}

func newOnlooker(client *kgo.Client, group string) *onlooker {
	return &onlooker{kadm.NewClient(client), group}
}

// openTransactions are the transactional ids of the job with an undecided transaction.
func (o *onlooker) openTransactions(ctx context.Context) ([]string, error) {
	listed, err := o.adm.ListTransactions(ctx, nil, []string{"Ongoing"})
	if err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	var ids []string
	for _, t := range listed.Sorted() {
		ids = append(ids, t.TxnID)
	}
	return ids, nil
}

// hidden counts the records of the topics that are written and that no read_committed reader can see: those between the
// last stable offset and the high watermark.
func (o *onlooker) hidden(ctx context.Context, topics ...string) (int64, error) {
	written, err := o.adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return 0, fmt.Errorf("end offsets: %w", err)
	}
	visible, err := o.adm.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return 0, fmt.Errorf("last stable offsets: %w", err)
	}
	n := int64(0)
	written.Each(func(w kadm.ListedOffset) {
		if v, ok := visible.Lookup(w.Topic, w.Partition); ok {
			n += w.Offset - v.Offset
		}
	})
	return n, errors.Join(written.Error(), visible.Error())
}

// committed is how many records of the topic the group has committed, and how many there are.
func (o *onlooker) committed(ctx context.Context, topic string) (done, total int64, err error) {
	ends, err := o.adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("end offsets: %w", err)
	}
	offsets, err := o.adm.FetchOffsetsForTopics(kadm.RequireStable(ctx), o.group, topic)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("committed offsets: %w", err)
	}
	ends.Each(func(e kadm.ListedOffset) {
		total += e.Offset
		if c, ok := offsets.Lookup(e.Topic, e.Partition); ok {
			done += max(0, c.At)
		}
	})
	return done, total, nil
}

// awaitCommitted waits until the group has committed everything in the topic.
func (o *onlooker) awaitCommitted(ctx context.Context, topic string) error {
	deadline := time.Now().Add(onlookerPatience)
	for {
		done, total, err := o.committed(ctx, topic)
		switch {
		case err == nil && done >= total:
			return nil
		case err != nil && !passing(err):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("the processor committed %d of %d events in %s", done, total, onlookerPatience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(onlookerPoll):
		}
	}
}

// passing errors are answers of a group between two states.
func passing(err error) bool {
	return slices.ContainsFunc([]error{kerr.UnstableOffsetCommit, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.GroupIDNotFound},
		func(e error) bool { return errors.Is(err, e) })
}
