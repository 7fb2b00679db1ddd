package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// check reads a run's updates as a committed reader does: as many as there are unique events, per account versions without a
// gap and each balance the one before plus the amount, at the end the balances that were fed.
func (w *workload) check(ctx context.Context, seeds []string, topic string) error {
	j := judge{balances: map[string]balance{}}
	err := read(ctx, seeds, topic, j.add)
	if err == nil {
		err = j.end(w)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", topic, err)
	}
	return nil
}

// judge follows the updates of a run.
type judge struct {
	updates  int
	balances map[string]balance
}

func (j *judge) add(r *kgo.Record) error {
	u, err := parseUpdate(r.Value)
	if err != nil {
		return err
	}
	before := j.balances[u.account]
	if want := (balance{before.cents + u.amount, before.version + 1}); u.after != want || u.account != string(r.Key) {
		return fmt.Errorf("key %s, %s after %+v: want %+v", r.Key, r.Value, before, want)
	}
	j.updates, j.balances[u.account] = j.updates+1, u.after
	return nil
}

func (j *judge) end(w *workload) error {
	if j.updates != w.unique || len(j.balances) != len(w.balances) {
		return fmt.Errorf("%d updates of %d accounts, want %d of %d", j.updates, len(j.balances), w.unique, len(w.balances))
	}
	for account, want := range w.balances {
		if got := j.balances[account]; got != want {
			return fmt.Errorf("%s ends with %+v, want %+v", account, got, want)
		}
	}
	return nil
}

type posted struct {
	account string
	amount  int64
	after   balance
}

func parseUpdate(value []byte) (p posted, err error) {
	var u struct {
		Account string `json:"account_id"`
		Outcome string `json:"outcome"`
		Amount  string `json:"amount"`
		Balance string `json:"balance"`
		Version int64  `json:"version"`
	}
	if err := json.Unmarshal(value, &u); err != nil {
		return p, err
	}
	if u.Outcome != "applied" {
		return p, fmt.Errorf("outcome %q: every event of the input can be applied", u.Outcome)
	}
	p.account, p.after.version = u.Account, u.Version
	if p.amount, err = cents(u.Amount); err != nil {
		return p, err
	}
	p.after.cents, err = cents(u.Balance)
	return p, err
}

// cents reads an amount of two digits.
func cents(text string) (int64, error) {
	point := len(text) - 3
	if point < 1 || text[point] != '.' {
		return 0, fmt.Errorf("amount %q has other than two digits", text)
	}
	return strconv.ParseInt(text[:point]+text[point+1:], 10, 64)
}

// read hands over the committed records of a topic up to its last stable offsets, each partition in order.
func read(ctx context.Context, seeds []string, topic string, each func(*kgo.Record) error) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ConsumeTopics(topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if r.Attrs.IsControl() {
				continue
			}
			if err := each(r); err != nil {
				return err
			}
		}
	}
	return nil
}
