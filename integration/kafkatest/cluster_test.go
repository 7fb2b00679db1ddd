package kafkatest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The brokers that a fault is to hit are found by what they do, and can be hit one after the other.
func TestLeadersAndCoordinatorsAreFoundAndReplaced(t *testing.T) {
	begin := time.Now()
	c := Start(t, Options{Brokers: 3, FirstPort: firstPort})
	ready := time.Since(begin)
	t.Logf("three brokers ready after %v", ready.Round(time.Millisecond))
	if ready > 15*time.Second {
		t.Errorf("three brokers were ready after %v, want at most 15s", ready)
	}
	cl := Client(t, c.Seeds())
	topic, id := Name(t, "t"), Name(t, "id")
	CreateTopic(t, cl, topic, 1)
	for _, hit := range []struct {
		name string
		find func() *Broker
		hit  func(*Broker)
	}{
		{"leader is killed", func() *Broker { return c.Leader(t, topic, 0) }, (*Broker).Kill},
		{"coordinator of a group is killed", func() *Broker { return c.GroupCoordinator(t, id) }, (*Broker).Kill},
		{"coordinator of a transactional id is killed", func() *Broker { return c.TransactionCoordinator(t, id) }, (*Broker).Kill},
		{"leader stands still", func() *Broker { return c.Leader(t, topic, 0) }, (*Broker).Pause},
	} {
		b := hit.find()
		begin := time.Now()
		hit.hit(b)
		var next *Broker
		Within(t, findLimit, hit.name+" and replaced", func(context.Context) error { // one that stands still leads until its session is over
			if next = hit.find(); next == b {
				return fmt.Errorf("broker %d still is the one", b.ID)
			}
			return nil
		})
		t.Logf("%s: %d, then %d after %v", hit.name, b.ID, next.ID, time.Since(begin).Round(time.Millisecond))
		if b.running() == nil {
			b.Resume()
		} else if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		c.Ready(t)
	}
	b := c.Leader(t, topic, 0)
	c.Retire(t, b)
	if next := c.Leader(t, topic, 0); next == b {
		t.Errorf("broker %d has ended in order and still leads", b.ID)
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	c.Ready(t)
	c.Restart(t, c.Leader(t, topic, 0))
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic}).FirstErr(); err != nil {
		t.Errorf("a record after all that: %v", err)
	}
}
