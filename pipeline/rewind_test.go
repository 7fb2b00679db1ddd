package pipeline

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/session"
)

// from are n records from an offset on.
func from(offset int64, n int) (records []*kgo.Record) {
	for i := range n {
		records = append(records, &kgo.Record{Offset: offset + int64(i), Timestamp: time.UnixMilli(1)})
	}
	return records
}

// After a rewind the first record that was not committed comes again, in however many batches it and the others came: one offset
// further is a record that is lost (I5).
func TestRewindGoesBackToTheFirstUncommittedRecord(t *testing.T) {
	for _, start := range []int64{0, 5} {
		w, o := paired(t, 0, nil)
		in := &o.inputs[1]
		take := func(offset int64, n int) error { return w.enqueue(o, in, from(offset, n)) }
		if err := errors.Join(take(start, 3), take(start+3, 2)); err != nil {
			t.Fatal(err)
		}
		o.waitsSince = time.Unix(1000, 0)
		w.rewind()
		if in.again != start || len(in.queue) != 0 || !o.waitsSince.IsZero() {
			t.Errorf("from %d: again %d, %d records, waits since %s", start, in.again, len(in.queue), o.waitsSince)
		}
		var v *ViolationError
		if err := take(start+1, 1); !errors.As(err, &v) || v.Invariant != "I5" {
			t.Errorf("from %d: got %v for the record behind it, want I5", start, err)
		}
		if err := take(start, 4); err != nil {
			t.Fatal(err)
		}
		in.queue = in.queue[2:]
		in.committed()
		w.rewind()
		if in.again != start+2 {
			t.Errorf("two are committed: again %d, want %d", in.again, start+2)
		}
		if err := take(start+2, 2); err != nil {
			t.Fatal(err)
		}
		in.queue = nil
		in.committed()
		if w.rewind(); in.again != -1 {
			t.Errorf("all are committed: again %d", in.again)
		}
	}
}

// Records of a task that this worker may not run are nobody's here.
func TestRecordsGoToTasksThatRun(t *testing.T) {
	w, o := paired(t, 0, nil)
	at := session.TopicPartition{Topic: "table"}
	if got, in := w.find(at); got != o || in != &o.inputs[0] {
		t.Errorf("got %v, %v", got, in)
	}
	if got, _ := w.find(session.TopicPartition{Topic: "table", Partition: 1}); got != nil {
		t.Errorf("another partition's are %s's", got.id)
	}
	o.fresh = true
	if got, _ := w.find(at); got != nil {
		t.Error("its start is not committed yet")
	}
	o.fresh = false
	o.token.Kill()
	if got, _ := w.find(at); got != nil {
		t.Error("its token is dead")
	}
}
