package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// The broker fences members, not partitions. Only the engine's tokens keep a worker from committing
// for a task that it has lost.
func TestALiveMemberMayCommitAPartitionOfAnotherMember(t *testing.T) {
	b := newBench(t, kafkatest.Seeds(t, kafkatest.Options{FirstPort: firstPort}))
	theirs := newBench(t, b.seeds)
	theirs.group = b.group
	other := theirs.open(t)
	pollOne(t, other) // it owns its input, and nobody else subscribed to it
	other.AllowRebalance()
	s := b.open(t)
	b.begin(t, s)
	id, err := kafkatest.TopicID(t.Context(), b.admin, theirs.in)
	if err != nil {
		t.Fatal(err)
	}
	stolen := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	stolen.Offset = 7
	ctx := kgo.PreTxnCommitFnContext(t.Context(), func(r *kmsg.TxnOffsetCommitRequest) error {
		r.Topics = append(r.Topics, kmsg.TxnOffsetCommitRequestTopic{Topic: theirs.in, TopicID: id, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{stolen}})
		return nil
	})
	if ok, err := s.End(ctx, kgo.TryCommit); !ok || err != nil {
		t.Fatalf("End: %v, %v", ok, err)
	}
	if next := theirs.offset(t); next != 7 {
		t.Errorf("the other member's partition has committed offset %d, want 7", next)
	}
}
