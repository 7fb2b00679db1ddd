package pipeline

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Kafka refuses a record stamped more than an hour ahead, and deletes old ones at once where it may: state is stamped when it is
// written, whatever the time of the events.
func TestStateIsStampedWithTheTimeOfWriting(t *testing.T) {
	l := newLoop(t, Fail, accept)
	began := time.Now().Truncate(time.Millisecond)
	old := &kgo.Record{Topic: "in", Partition: 0, Key: []byte("k0"), Timestamp: began.Add(-time.Hour)}
	old.Partition = Murmur2.Partition(old.Key, 2)
	if err := l.p.admin.ProduceSync(t.Context(), old).FirstErr(); err != nil {
		t.Fatal(err)
	}
	l.until("the record is processed", func() bool { return l.txn.inputs > 0 })
	if _, err := l.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	stamped := 0
	for i := range l.txn.used {
		r := &l.txn.slabs[0][i].record
		if r.Topic != "app-s-state" {
			continue
		}
		if stamped++; r.Timestamp.Before(began) {
			t.Errorf("a state record is stamped %s, before it was written: with the time of an event", r.Timestamp)
		}
	}
	if stamped == 0 {
		t.Error("no state record was written")
	}
}

// Records of an open transaction cannot be read: a task that waited for them would stand still for as long as it is open.
func TestTaskDoesNotWaitForWhatIsNotDecided(t *testing.T) {
	l := newLoop(t, Fail, accept)
	in := &l.tasks[0].inputs[0]
	l.feed(0, 1)
	l.next(0, 1)
	upstream, err := kgo.NewClient(append(l.p.clientOptions(), kgo.TransactionalID("upstream"), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(upstream.Close)
	if err := upstream.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := upstream.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Partition: 0, Key: []byte("k0")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := l.abort(t.Context(), errors.New("test")); err != nil { // the record is fetched again, and what stands behind it
		t.Fatal(err)
	}
	l.next(0, 1)
	if in.end != 2 || in.stable != 1 {
		t.Errorf("the log ends at %d and can be read up to %d, want 2 and 1: the task would wait for what is not decided", in.end, in.stable)
	}
}
