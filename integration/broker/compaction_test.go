package broker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/integration/kafkatest"
)

// Compaction stops below an open transaction: a key that the transaction overwrites keeps its
// committed value, which counts again when the transaction aborts. The embedded broker loses it.
func TestCompactionKeepsTheCommittedValueBelowAnOpenTransaction(t *testing.T) {
	b := newBench(t, kafkatest.Start(t, kafkatest.Options{FirstPort: firstPort}).Seeds())
	topic := kafkatest.Name(t, "state")
	kafkatest.CreateTopic(t, b.admin, topic, 1, "cleanup.policy", "compact", "segment.ms", "100",
		"min.cleanable.dirty.ratio", "0", "min.compaction.lag.ms", "2000")
	put := func(ctx context.Context, cl *kgo.Client, value string) error {
		return cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("key"), Value: []byte(value)}).FirstErr()
	}
	owner := kafkatest.Client(t, b.seeds, kgo.TransactionalID(b.id))
	err := errors.Join(put(t.Context(), b.admin, "old"), put(t.Context(), b.admin, "committed"), roll(t.Context(), b.admin, topic),
		owner.BeginTransaction(), put(t.Context(), owner, "uncommitted"))
	if err != nil {
		t.Fatal(err)
	}
	if !has(kafkatest.Committed(t, b.seeds, topic, 0), "old") {
		t.Fatal("compacted before the transaction was open, so the test shows nothing")
	}
	kafkatest.Within(t, 30*time.Second, "compaction", func(ctx context.Context) error {
		if has(kafkatest.Committed(t, b.seeds, topic, 0), "old") {
			return errors.Join(errors.New("the old value is still there"), roll(ctx, b.admin, topic))
		}
		return nil
	})
	if err := owner.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	if !has(kafkatest.Committed(t, b.seeds, topic, 0), "committed") {
		t.Error("compaction lost the committed value")
	}
}

// roll makes the broker close the segment that holds what was written before: it does so at the
// first record that comes segment.ms later.
func roll(ctx context.Context, cl *kgo.Client, topic string) error {
	after := time.Now().Add(300 * time.Millisecond)
	return kafkatest.Poll(ctx, func(ctx context.Context) error {
		err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("filler"), Value: []byte("v")}).FirstErr()
		if err == nil && time.Now().Before(after) {
			err = errors.New("the segment is not old enough")
		}
		return err
	})
}

func has(rs []*kgo.Record, value string) bool {
	for _, r := range rs {
		if string(r.Key) == "key" && string(r.Value) == value {
			return true
		}
	}
	return false
}
