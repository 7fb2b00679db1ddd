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

// openStates are those of a transaction that holds readers back.
var openStates = []string{"Ongoing", "PrepareCommit", "PrepareAbort"}

// readTransactions lists transactions at their coordinators and describes them: those of the producers, or all when none is
// given, in one of the states, or in any when none is given. One whose details are refused keeps its name, and has its Err set.
func readTransactions(ctx context.Context, admin *kadm.Client, producers []int64, states []string) ([]kadm.DescribedTransaction, error) {
	listed, err := admin.ListTransactions(ctx, producers, states)
	if err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	var out []kadm.DescribedTransaction
	ids := listed.TransactionalIDs()
	if len(ids) == 0 {
		return nil, nil
	}
	described, failed := admin.DescribeTransactions(ctx, ids...)
	for _, l := range listed.Sorted() {
		if len(states) > 0 && !slices.Contains(states, l.State) { // an old broker does not filter
			continue
		}
		d, ok := described[l.TxnID]
		if !ok || d.Err != nil {
			d = kadm.DescribedTransaction{TxnID: l.TxnID, Err: errors.Join(d.Err, failed)}
		}
		d.Coordinator, d.ProducerID = l.Coordinator, l.ProducerID
		if d.State == "" {
			d.State = l.State
		}
		out = append(out, d)
	}
	return out, nil
}

func ofProducer(known []kadm.DescribedTransaction, id int64) *kadm.DescribedTransaction {
	for i := range known {
		if known[i].ProducerID == id {
			return &known[i]
		}
	}
	return nil
}

// since is when a transaction began; nil: unknown, or none is open.
func since(t kadm.DescribedTransaction) *time.Time {
	if t.StartTimestamp <= 0 {
		return nil
	}
	at := time.UnixMilli(t.StartTimestamp).UTC()
	return &at
}

// openProducers asks the leaders which producers have a transaction open in the partitions.
func openProducers(ctx context.Context, admin *kadm.Client, set kadm.TopicsSet) ([]kadm.DescribedProducer, error) {
	described, err := admin.DescribeProducers(ctx, set)
	if err != nil {
		return nil, fmt.Errorf("describe producers: %w", err)
	}
	var out []kadm.DescribedProducer
	for _, t := range described.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			if p.Err != nil {
				return nil, fmt.Errorf("topic %s partition %d: describe producers: %w", p.Topic, p.Partition, p.Err)
			}
			for _, d := range p.ActiveProducers.Sorted() {
				if d.CurrentTxnStartOffset >= 0 {
					out = append(out, d)
				}
			}
		}
	}
	return out, nil
}

// seesTransactions is an error when the brokers would leave the job's transactions out of every list: they do so without a word
// when the right to describe them is missing, and nothing listed would look like nothing there.
func seesTransactions(ctx context.Context, cfg Config, client *kgo.Client) error {
	id := redriveID(cfg.ApplicationID)
	err := whenThereIsACoordinator(ctx, func() error {
		all, err := kadm.NewClient(client).DescribeTransactions(ctx, id)
		return errors.Join(err, all[id].Err)
	})
	if errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		return fmt.Errorf("transactional ids with the prefix %s- may not be described, so that open transactions of this job would be overlooked: %w", cfg.ApplicationID, kerr.TransactionalIDAuthorizationFailed)
	}
	return nil // what else is wrong shows when they are listed
}
