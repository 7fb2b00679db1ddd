package broker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// kadm asks for all partitions of the group. A partition whose first commit is pending is not among
// them, and kadm fills in -1 without an error: a verification that used it would read "aborted"
// for a transaction that is committing.
func TestOnlyAFetchThatNamesThePartitionSeesAPendingFirstCommit(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort, Proxied: true})
	b := newBench(t, c.Seeds())
	s := b.open(t)
	b.begin(t, s)
	markers := c.Brokers[0].Between
	markers.Hold(kmsg.WriteTxnMarkers)
	mustCommit(t, s)
	if _, err := kafkatest.StableOffset(t.Context(), b.admin, b.group, b.in, 0); !errors.Is(err, kerr.UnstableOffsetCommit) {
		t.Errorf("a fetch that names the partition: %v, want UNSTABLE_OFFSET_COMMIT", err)
	}
	if next, err := allPartitions(t, b); next != -1 || err != nil {
		t.Errorf("a fetch of all partitions: %d, %v, want -1 and no error", next, err)
	}
	markers.Release(kmsg.WriteTxnMarkers)
	kafkatest.Within(t, 10*time.Second, "commit", b.committed(1))
	if next, err := allPartitions(t, b); next != 1 || err != nil {
		t.Errorf("a fetch of all partitions after the marker: %d, %v, want 1", next, err)
	}
}

func allPartitions(t *testing.T, b bench) (int64, error) {
	t.Helper()
	r, err := kadm.NewClient(b.admin).FetchOffsetsForTopics(kadm.RequireStable(t.Context()), b.group, b.in)
	if err != nil {
		return 0, err
	}
	o, ok := r.Lookup(b.in, 0)
	if !ok {
		t.Fatal("no answer for the partition")
	}
	return o.At, o.Err
}

// A stable committed offset waits for the marker in the offsets topic, not for the one in the state
// partition. A restore that reads to the last stable offset then misses the transaction: the
// engine compares the applied marker with the committed offset.
func TestCommittedOffsetIsStableBeforeTheStatePartitionIs(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{Brokers: 3, FirstPort: firstPort, Proxied: true})
	b := newBench(t, c.Seeds())
	state := kafkatest.Name(t, "state")
	kafkatest.CreateTopic(t, b.admin, state, 6)
	partition, leader := ledElsewhere(t, b, state)
	s := b.open(t)
	pollOne(t, s)
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	markers := c.Broker(leader).Between
	markers.Hold(kmsg.WriteTxnMarkers)
	s.Produce(t.Context(), &kgo.Record{Topic: state, Partition: partition, Key: []byte("k"), Value: []byte("v")}, nil)
	mustCommit(t, s)
	kafkatest.Within(t, 10*time.Second, "stable offset", b.committed(1))
	lso, hw, err := kafkatest.Ends(t.Context(), b.admin, state, partition)
	if err != nil {
		t.Fatal(err)
	}
	if lso >= hw {
		t.Errorf("state is stable up to %d of %d while its marker is held", lso, hw)
	}
	markers.Release(kmsg.WriteTxnMarkers)
}

// ledElsewhere finds a partition whose leader does not coordinate the group.
func ledElsewhere(t *testing.T, b bench, topic string) (partition, leader int32) {
	t.Helper()
	adm := kadm.NewClient(b.admin)
	var coordinator int32
	kafkatest.Within(t, 20*time.Second, "coordinator", func(ctx context.Context) error {
		g := adm.FindGroupCoordinators(ctx, b.group)[b.group]
		coordinator = g.NodeID
		return g.Err
	})
	m, err := adm.Metadata(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Topics[topic].Partitions {
		if p.Leader != coordinator {
			return p.Partition, p.Leader
		}
	}
	t.Fatal("the coordinator of the group leads every partition")
	return 0, 0
}
