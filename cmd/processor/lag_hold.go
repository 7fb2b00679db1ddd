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
	open, err := openProducers(ctx, admin, set)
	if err != nil || len(open) == 0 {
		return nil, err
	}
	oldest := slices.MinFunc(open, func(a, b kadm.DescribedProducer) int { return int(a.CurrentTxnStartOffset - b.CurrentTxnStartOffset) })
	known, err := readTransactions(ctx, admin, []int64{oldest.ProducerID}, nil)
	return newHolder(oldest, known, err), nil
}

// newHolder says of a producer with an open transaction what its coordinator knows. failed is why the coordinators did not answer.
func newHolder(p kadm.DescribedProducer, known []kadm.DescribedTransaction, failed error) *holder {
	h := &holder{ProducerID: p.ProducerID, FirstOffset: p.CurrentTxnStartOffset}
	t := ofProducer(known, p.ProducerID)
	switch {
	case failed != nil:
		h.Unknown = "transactional id unknown: " + failed.Error()
		return h
	case t == nil:
		h.Unknown = "no coordinator knows it: a hanging transaction, or DESCRIBE on the transactional id is missing"
		return h
	}
	h.TransactionalID, h.State, h.Since = t.TxnID, t.State, since(*t)
	if h.Since == nil {
		h.Unknown = "start unknown"
	}
	return h
}
