package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Ready waits until every broker is registered and every partition has its leader and all its
// replicas in sync: the state to be in before the next fault.
func (c *Cluster) Ready(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	if err := c.ready(ctx); err != nil {
		t.Fatalf("Kafka is not ready: %v", err)
	}
}

func (c *Cluster) ready(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := Poll(ctx, func(ctx context.Context) error {
		for _, b := range c.Brokers {
			err := b.alive()
			if dead := (*deadBroker)(nil); errors.As(err, &dead) {
				cancel(dead)
			}
			if err != nil {
				return err
			}
		}
		return c.inSync(ctx)
	})
	if dead := (*deadBroker)(nil); errors.As(context.Cause(ctx), &dead) {
		return dead
	}
	return err
}

func (c *Cluster) inSync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Seeds()...))
	if err != nil {
		return err
	}
	defer cl.Close()
	m, err := kadm.NewClient(cl).Metadata(ctx)
	if err != nil {
		return err
	}
	if len(m.Brokers) != len(c.Brokers) {
		return fmt.Errorf("%d of %d brokers are registered", len(m.Brokers), len(c.Brokers))
	}
	m.Topics.EachPartition(func(p kadm.PartitionDetail) {
		if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
			err = fmt.Errorf("%s/%d: leader %d, %d of %d replicas in sync", p.Topic, p.Partition, p.Leader, len(p.ISR), len(p.Replicas))
		}
	})
	return err
}
