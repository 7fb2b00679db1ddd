package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// holder is the transaction that keeps a partition's last stable offset back: readers of committed records wait for it.
type holder struct {
	TransactionalID string     `json:"transactional_id,omitempty"` // empty: the brokers did not say
	ProducerID      int64      `json:"producer_id"`
	FirstOffset     int64      `json:"first_offset"`
	State           string     `json:"state,omitempty"`
	Since           *time.Time `json:"since,omitempty"`
	// Unknown says why something above is missing.
	Unknown string `json:"unknown,omitempty"`
}

// String names the transaction for people.
func (h holder) String() string {
	name := fmt.Sprintf("producer %d", h.ProducerID)
	if h.TransactionalID != "" {
		name = h.TransactionalID
	}
	if h.Since != nil {
		name += " since " + h.Since.UTC().Format(time.RFC3339)
	}
	if h.Unknown != "" {
		name += " (" + h.Unknown + ")"
	}
	return name
}

// findHolder asks who holds the last stable offset of a partition. It returns nil when no transaction is open there any more.
// Details that the brokers refuse are left out, with the reason.
func findHolder(ctx context.Context, admin *kadm.Client, topic string, partition int32) (*holder, error) {
	set := kadm.TopicsSet{}
	set.Add(topic, partition)
	described, err := admin.DescribeProducers(ctx, set)
	if err != nil {
		return nil, fmt.Errorf("topic %s partition %d: describe producers: %w", topic, partition, err)
	}
	p := described[topic].Partitions[partition]
	if p.Err != nil {
		return nil, fmt.Errorf("topic %s partition %d: describe producers: %w", topic, partition, p.Err)
	}
	open := slices.DeleteFunc(p.ActiveProducers.Sorted(), func(d kadm.DescribedProducer) bool { return d.CurrentTxnStartOffset < 0 })
	if len(open) == 0 {
		return nil, nil
	}
	oldest := slices.MinFunc(open, func(a, b kadm.DescribedProducer) int { return int(a.CurrentTxnStartOffset - b.CurrentTxnStartOffset) })
	h := &holder{ProducerID: oldest.ProducerID, FirstOffset: oldest.CurrentTxnStartOffset}
	h.name(ctx, admin)
	return h, nil
}

// name finds the transactional id behind the producer id.
func (h *holder) name(ctx context.Context, admin *kadm.Client) {
	listed, err := admin.ListTransactions(ctx, []int64{h.ProducerID}, nil)
	if err != nil {
		h.Unknown = "transactional id unknown: " + err.Error()
		return
	}
	for _, t := range listed.Sorted() {
		if t.ProducerID == h.ProducerID {
			h.TransactionalID, h.State = t.TxnID, t.State
		}
	}
	if h.TransactionalID == "" {
		h.Unknown = "no coordinator knows it: a hanging transaction, or DESCRIBE on the transactional id is missing"
		return
	}
	t := described(ctx, admin, h.TransactionalID)
	if t.StartTimestamp > 0 {
		since := time.UnixMilli(t.StartTimestamp)
		h.Since = &since
		return
	}
	h.Unknown = "start unknown"
}

func described(ctx context.Context, admin *kadm.Client, id string) kadm.DescribedTransaction {
	all, err := admin.DescribeTransactions(ctx, id)
	if err != nil {
		return kadm.DescribedTransaction{Err: err}
	}
	return all[id]
}
