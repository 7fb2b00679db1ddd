package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// txHanging lists what holds the job's topics back, as the leaders of their partitions see it.
func (c *cli) txHanging(ctx context.Context, cfg Config, admin *kadm.Client, o *owners) error {
	set, err := jobPartitions(ctx, cfg, admin)
	if err != nil {
		return err
	}
	open, known, unknown, err := holding(ctx, admin, set)
	if err = errors.Join(err, unknown); err != nil {
		return err
	}
	rows := hangingRows(open, known, o)
	if err := printList(c, txHeader, rows, txRow.cells); err != nil {
		return err
	}
	if slices.ContainsFunc(rows, func(r txRow) bool { return r.State == stateHanging }) {
		return silent(exitUsage)
	}
	return nil
}

// jobPartitions are those of all topics of the job that exist.
func jobPartitions(ctx context.Context, cfg Config, admin *kadm.Client) (kadm.TopicsSet, error) {
	var names []string
	for _, w := range cfg.job().Topics() {
		if !slices.Contains(names, w.Name) {
			names = append(names, w.Name)
		}
	}
	details, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("topics of the job: %w", err)
	}
	set := kadm.TopicsSet{}
	for name, d := range details {
		if d.Err == nil {
			set.Add(name, d.Partitions.Numbers()...)
		}
	}
	return set, nil
}

// hangingRows makes one row of each producer.
func hangingRows(open []kadm.DescribedProducer, known []kadm.DescribedTransaction, o *owners) []txRow {
	by := map[int64]*txRow{}
	var order []int64
	for _, p := range open {
		r := by[p.ProducerID]
		if r == nil {
			r = hangingRow(p, ofProducer(known, p.ProducerID), o)
			by[p.ProducerID] = r
			order = append(order, p.ProducerID)
		}
		r.Partitions = append(r.Partitions, fmt.Sprintf("%s/%d/%d", p.Topic, p.Partition, p.CurrentTxnStartOffset))
		if r.State == stateHanging {
			r.Remedy = strings.TrimPrefix(r.Remedy+"; ", "; ") +
				fmt.Sprintf("kafka-transactions.sh abort --topic %s --partition %d --start-offset %d", p.Topic, p.Partition, p.CurrentTxnStartOffset)
		}
	}
	rows := make([]txRow, 0, len(order))
	for _, id := range order {
		rows = append(rows, *by[id])
	}
	sortOldest(rows)
	return rows
}

// hangingRow begins the row of a producer. Its transaction hangs when no coordinator has it open: then nobody will end it.
func hangingRow(p kadm.DescribedProducer, t *kadm.DescribedTransaction, o *owners) *txRow {
	if !hangs(t) {
		r := o.row(*t)
		r.Partitions = nil
		return &r
	}
	r := &txRow{State: stateHanging, ProducerID: p.ProducerID, Epoch: p.ProducerEpoch, Whose: "no coordinator has it open, or DESCRIBE on its id is missing"}
	if t != nil {
		r.TransactionalID, r.Coordinator = t.TxnID, &t.Coordinator
		whose, _ := o.judge(*t)
		r.Whose = whose + "; its coordinator says " + t.State
	}
	if p.LastTimestamp > 0 {
		last := time.UnixMilli(p.LastTimestamp).UTC()
		r.Since = &last
	}
	return r
}
