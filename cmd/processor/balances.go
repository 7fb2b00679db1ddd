package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/ledger/topology"
)

// finalBalances reads every committed update and returns a digest over the last balance of each account, so that two runs
// can be compared at a glance.
func finalBalances(ctx context.Context, cfg Config) (digest string, err error) {
	last := map[string]string{}
	err = readCommitted(ctx, cfg, topology.Updates.Name, func(r *kgo.Record) error {
		var u struct{ Balance string }
		if err := json.Unmarshal(r.Value, &u); err != nil {
			return fmt.Errorf("update at %s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		last[string(r.Key)] = u.Balance
		return nil
	})
	sum := sha256.New()
	for _, id := range slices.Sorted(maps.Keys(last)) {
		fmt.Fprintf(sum, "%q %s\n", id, last[id])
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), err
}

// readCommitted hands every committed record of a topic to f, partition by partition in offset order, up to the end that
// the topic has now.
func readCommitted(ctx context.Context, cfg Config, topic string, f func(*kgo.Record) error) error {
	client, err := cfg.newClient(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords()) // a partition can end with control records alone
	if err != nil {
		return err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("end of %s: %w", topic, err)
	}
	missing := map[int32]int64{} // partition → its end, while it is not reached
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			missing[o.Partition] = o.Offset
		}
	})
	for len(missing) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %s: %w", topic, err)
		}
		for r := range fetches.RecordsAll() {
			if r.Offset+1 >= missing[r.Partition] {
				delete(missing, r.Partition)
			}
			if r.Attrs.IsControl() {
				continue
			}
			if err := f(r); err != nil {
				return err
			}
		}
	}
	return nil
}
