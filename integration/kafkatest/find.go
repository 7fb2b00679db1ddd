package kafkatest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	findLimit = 30 * time.Second // an election after a kill takes a few
	findTry   = 2 * time.Second  // a broker that stands still answers nobody
)

// Leader is the broker that leads a partition. It waits until there is one.
func (c *Cluster) Leader(t testing.TB, topic string, partition int32) *Broker {
	t.Helper()
	return c.find(t, fmt.Sprintf("leader of %s/%d", topic, partition), func(ctx context.Context, adm *kadm.Client) (int32, error) {
		m, err := adm.Metadata(ctx, topic)
		if err != nil {
			return -1, err
		}
		p, ok := m.Topics[topic].Partitions[partition]
		if !ok {
			return -1, fmt.Errorf("no such partition: %w", m.Topics[topic].Err)
		}
		return p.Leader, p.Err
	})
}

// GroupCoordinator is the broker that keeps a group's members and offsets. It waits until there is one.
func (c *Cluster) GroupCoordinator(t testing.TB, group string) *Broker {
	t.Helper()
	return c.find(t, "coordinator of group "+group, func(ctx context.Context, adm *kadm.Client) (int32, error) {
		r := adm.FindGroupCoordinators(ctx, group)[group]
		return r.NodeID, r.Err
	})
}

// TransactionCoordinator is the broker that decides the transactions of an id. It waits until there is one.
func (c *Cluster) TransactionCoordinator(t testing.TB, transactionalID string) *Broker {
	t.Helper()
	return c.find(t, "coordinator of transactional id "+transactionalID, func(ctx context.Context, adm *kadm.Client) (int32, error) {
		r := adm.FindTxnCoordinators(ctx, transactionalID)[transactionalID]
		return r.NodeID, r.Err
	})
}

// find asks until the answer names a broker that has not been killed: right after a kill the answers are old ones.
func (c *Cluster) find(t testing.TB, what string, ask func(context.Context, *kadm.Client) (int32, error)) (found *Broker) {
	t.Helper()
	Within(t, findLimit, what, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, findTry)
		defer cancel()
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Seeds()...)) // a new one: an old one would answer from its cache
		if err != nil {
			return err
		}
		defer cl.Close()
		id, err := ask(ctx, kadm.NewClient(cl))
		if err != nil {
			return err
		}
		if id < 1 || int(id) > len(c.Brokers) {
			return fmt.Errorf("broker %d", id)
		}
		found = c.Broker(id)
		return found.running()
	})
	return found
}

// Restart ends a broker of three in order and starts it again, and returns when the cluster is ready.
func (c *Cluster) Restart(t testing.TB, b *Broker) {
	t.Helper()
	c.Retire(t, b)
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	c.Ready(t)
}

// Retire is Lose for a broker that is told to end and does so in order.
func (c *Cluster) Retire(t testing.TB, b *Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	if err := b.Terminate(ctx); err != nil {
		t.Fatal(err)
	}
	c.replaced(t, b)
}

// Lose kills a broker and returns when others lead everything that it led: from then on it may be started again.
//
// A coordinator that is back within its session (broker.session.timeout.ms) still believes that it leads, and acts on decisions
// in its log that were never replicated (docs/eos-boundaries.md, Kafka's own holes): a test that starts one at once tests that.
func (c *Cluster) Lose(t testing.TB, b *Broker) {
	t.Helper()
	b.Kill()
	c.replaced(t, b)
}

// replaced returns when others lead everything that a broker led which has ended.
func (c *Cluster) replaced(t testing.TB, b *Broker) {
	t.Helper()
	Within(t, startLimit, fmt.Sprintf("broker %d is replaced", b.ID), func(ctx context.Context) error {
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Seeds()...))
		if err != nil {
			return err
		}
		defer cl.Close()
		m, err := kadm.NewClient(cl).Metadata(ctx)
		if err != nil {
			return err
		}
		led := 0
		m.Topics.EachPartition(func(p kadm.PartitionDetail) {
			if p.Leader == b.ID || p.Leader < 0 {
				led++
			}
		})
		if led > 0 {
			return fmt.Errorf("%d partitions wait for another leader", led)
		}
		return nil
	})
}
