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
	open, known, unknown, err := holding(ctx, admin, set)
	if err != nil || len(open) == 0 {
		return nil, err
	}
	oldest := slices.MinFunc(open, func(a, b kadm.DescribedProducer) int { return int(a.CurrentTxnStartOffset - b.CurrentTxnStartOffset) })
	return newHolder(oldest, known, unknown), nil
}

// holding asks the leaders who has a transaction open in the partitions, then the coordinators what they know of these producers, and
// then the leaders again: a transaction that its coordinator does not have open, and that is still open then, hangs. unknown is
// why the coordinators did not answer.
func holding(ctx context.Context, admin *kadm.Client, set kadm.TopicsSet) (open []kadm.DescribedProducer, known []kadm.DescribedTransaction, unknown, err error) {
	open, err = openProducers(ctx, admin, set)
	if err != nil || len(open) == 0 {
		return nil, nil, nil, err
	}
	var ids []int64
	for _, p := range open {
		ids = append(ids, p.ProducerID)
	}
	known, unknown = readTransactions(ctx, admin, ids, nil)
	still, err := openProducers(ctx, admin, set)
	open = slices.DeleteFunc(open, func(p kadm.DescribedProducer) bool {
		return !slices.ContainsFunc(still, func(q kadm.DescribedProducer) bool {
			return p.Topic == q.Topic && p.Partition == q.Partition && p.ProducerID == q.ProducerID && p.CurrentTxnStartOffset == q.CurrentTxnStartOffset
		})
	})
	return open, known, unknown, err
}

// hangs reports whether nobody will end the transaction of a producer that leaders have open: t is what its coordinator knows.
func hangs(t *kadm.DescribedTransaction) bool {
	return t == nil || t.Err == nil && !slices.Contains(openStates, t.State)
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
	h.TransactionalID, h.State = t.TxnID, t.State
	if hangs(t) {
		h.Unknown = "a hanging transaction, its coordinator has none open: processor tx list --hanging names what ends it"
		return h
	}
	if h.Since = since(*t); h.Since == nil {
		h.Unknown = "start unknown"
	}
	return h
}
